#!/bin/sh
# Records the fixtures beside it: record.sh VERSION [ROOT]
# Each .sql file is run on a fresh server, once per limit, found in ROOT (a chroot; without it, here).
# Writes NAME-VERSION-LIMIT.binlog.gz.
set -eu
version=$1
root=${2:-}
here=$(cd "$(dirname "$0")" && pwd)

run() { if [ -n "$root" ]; then chroot "$root" "$@"; else "$@"; fi; }

record() { # name limit
  work=/tmp/spillway-fixture.$$
  mkdir "$root$work"
  run mariadb-install-db --no-defaults --force --skip-name-resolve --auth-root-authentication-method=normal \
    --datadir="$work/data" --user=root >"$root$work/log" 2>&1 || { cat "$root$work/log"; exit 1; }
  run mariadbd --no-defaults --user=root --datadir="$work/data" --socket="$work/socket" --skip-networking \
    --log-bin=binlog --server-id=1 --binlog-format=row --binlog-row-event-max-size="$2" 2>"$root$work/log" &
  server=$!
  trap 'kill $server' EXIT
  tries=0
  until run mariadb --no-defaults -uroot --socket="$work/socket" -e 'reset master' 2>/dev/null; do
    tries=$((tries + 1)); [ $tries -lt 150 ] || { cat "$root$work/log"; exit 1; }; sleep 0.2
  done
  run mariadb --no-defaults -uroot --default-character-set=utf8mb4 --socket="$work/socket" <"$here/$1.sql"
  run mariadb --no-defaults -uroot --socket="$work/socket" -e shutdown
  wait $server
  trap - EXIT
  gzip -9nc "$root$work/data/binlog.000001" >"$here/$1-$version-$2.binlog.gz"
  rm -r "$root$work"
}

for limit in 256 8192; do
  record workload $limit
  [ "$version" = 10.11 ] || record vector $limit
done
record old_temporals 256
