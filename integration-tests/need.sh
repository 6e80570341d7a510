#!/bin/bash
# Makes sure that programs are there: need.sh PROGRAM=PACKAGE…
# As root on Debian or Ubuntu, the packages of missing ones are installed; elsewhere one sentence says what is missing.
set -euo pipefail

export PATH="$PATH:/usr/sbin:/sbin"
missing=()
for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Please install what is missing, then try again: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
