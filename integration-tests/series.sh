#!/bin/bash
# Fetches a server of another Debian release and unpacks it into a directory: series.sh SERVER DIR, where SERVER is mariadb-11.8 or mysql-9.7
# Nothing is installed: the packages are unpacked together with the C library they need, and the tests start the server through that
# library's own loader. Where they cannot be fetched, the tests of this server say that they did not run.
set -euo pipefail

server=$1 dir=$2
case $server in
mariadb-11.8)
    name='MariaDB 11.8' release=trixie daemon=mariadbd packages=(mariadb-server-core mariadb-client)
    tools=(mariadb mariadb-binlog mariadb-check mariadb-upgrade my_print_defaults resolveip) ;;
mysql-9.7)
    name='MySQL 9.7' release=sid daemon=mysqld packages=(mysql-server-core mysql-client-core)
    tools=(mysql mysqlbinlog mysqldump) ;;
*) echo "unknown server: $server" >&2; exit 1 ;;
esac
[ -e "$dir/usr/sbin/$daemon" ] && exit 0
skip() {
    echo "$name of Debian $release $1: it will not be tested." >&2
    exit 0
}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
command -v apt-get >/dev/null && [ -e "$keys" ] || skip 'cannot be fetched here'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,unpacked} "$(dirname "$dir")"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$' || true)
echo "deb [signed-by=$keys] ${mirror:-http://deb.debian.org/debian/} $release main" >"$work/sources.list"
# Perl is only for scripts that no test runs, and much to fetch: it passes for installed.
printf '%s\n' 'Package: perl' 'Status: install ok installed' 'Multi-Arch: allowed' 'Version: 99' \
    "Architecture: $(dpkg --print-architecture)" 'Maintainer: none' 'Description: none' >"$work/state/status"

# apt with lists, a cache and a status of its own, so that it fetches the packages with all they depend on.
private=(-qq -o "Dir::State=$work/state" -o "Dir::State::status=$work/state/status" -o "Dir::Cache=$work/cache"
    -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=/dev/null" -o "Dir::Etc::preferencesparts=/dev/null"
    -o "Debug::NoLocking=1" -o "APT::Sandbox::User=$(id -un)" -o "APT::Install-Recommends=0" -o "Acquire::Languages=none")
fetch() {
    apt-get "${private[@]}" update && apt-get "${private[@]}" --download-only -y install "${packages[@]}"
}
if ! fetch >"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    skip 'cannot be fetched'
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
for program in "$work/unpacked/usr/sbin/$daemon" "${tools[@]/#/"$work/unpacked/usr/bin/"}"; do
    mv "$program" "$program.elf"
    echo "$wrapper" >"$program"
    chmod +x "$program"
done
# A release in the making goes on to others.
version=$("$work/unpacked/usr/sbin/$daemon" --version)
[[ $version == *" ${server#*-}."* ]] || skip "is another one by now ($version)"
# Whole or not at all, also where the temporary directory is on another disk.
rm -rf "$dir" "$dir.part"
mv "$work/unpacked" "$dir.part"
mv "$dir.part" "$dir"
