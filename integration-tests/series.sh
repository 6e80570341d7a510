#!/bin/bash
# Fetches the MariaDB of a newer Debian release and unpacks it into a directory: series.sh DIR
# Nothing is installed: the packages are unpacked together with the C library they need, and the tests start the server through that
# library's own loader. Where they cannot be fetched, the tests of this series say that they did not run.
set -euo pipefail

release=trixie
dir=$1
[ -e "$dir/usr/sbin/mariadbd" ] && exit 0
keys=/usr/share/keyrings/debian-archive-keyring.gpg
if ! command -v apt-get >/dev/null || [ ! -e "$keys" ]; then
    echo "MariaDB of Debian $release cannot be fetched here: it will not be tested." >&2
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,unpacked} "$(dirname "$dir")"
touch "$work/state/status"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$' || true)
echo "deb [signed-by=$keys] ${mirror:-http://deb.debian.org/debian/} $release main" >"$work/sources.list"

# apt with lists, a cache and an empty status of its own, so that it fetches the packages with all they depend on.
private=(-qq -o "Dir::State=$work/state" -o "Dir::State::status=$work/state/status" -o "Dir::Cache=$work/cache"
    -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=/dev/null" -o "Dir::Etc::preferencesparts=/dev/null"
    -o "Debug::NoLocking=1" -o "APT::Sandbox::User=$(id -un)" -o "APT::Install-Recommends=0")
fetch() {
    apt-get "${private[@]}" update && apt-get "${private[@]}" --download-only -y install mariadb-server-core mariadb-client
}
if ! fetch >"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    echo "MariaDB of Debian $release cannot be fetched: it will not be tested." >&2
    exit 0
fi
for package in "$work"/cache/archives/*.deb; do
    dpkg -x "$package" "$work/unpacked"
done

# Each program is started by the loader beside it, from wherever the directory is.
wrapper='#!/bin/bash
here=$(readlink -f "$0")
root=${here%/usr/*}
libraries=$(dirname "$root"/usr/lib/*/libc.so.6)
exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" --argv0 "$0" "$here.elf" "$@"'
for program in "$work"/unpacked/usr/{sbin/mariadbd,bin/{mariadb,mariadb-binlog,mariadb-check,mariadb-upgrade,my_print_defaults,resolveip}}; do
    mv "$program" "$program.elf"
    echo "$wrapper" >"$program"
    chmod +x "$program"
done
# Whole or not at all, also where the temporary directory is on another disk.
rm -rf "$dir" "$dir.part"
mv "$work/unpacked" "$dir.part"
mv "$dir.part" "$dir"
