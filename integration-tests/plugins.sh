#!/bin/bash
# Fetches MariaDB's ed25519 plugin into a directory: plugins.sh DIR
# Debian has it in the package that would also start a server, so the package is unpacked and not installed. Where that
# cannot be done, the tests of ed25519 say that they did not run.
set -euo pipefail

dir=$1
[ -e "$dir/auth_ed25519.so" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dir"
if cd "$work" && apt-get download -qq mariadb-server 2>/dev/null && dpkg -x mariadb-server_*.deb .; then
    cp usr/lib/mysql/plugin/auth_ed25519.so "$dir/"
else
    echo "The package mariadb-server cannot be fetched: ed25519 will not be tested." >&2
fi
