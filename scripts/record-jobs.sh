#!/usr/bin/env bash
# Records the calls of malloc of six small jobs, and prints them as `quarry lab run containment`
# takes them: traces, each with the KiB of files that its program has in use (the most RssFile of
# /proc/PID/status that was seen, every 2 ms, on Debian 12).
#
#   quarry lab run containment --jobs "$(scripts/record-jobs.sh FOLDER)"
#
# What `quarry record` and the programs say goes to standard error. It needs Debian's redis,
# sqlite3, lua5.4, perl, python3 and gcc.
set -euo pipefail
[[ $# == 1 ]] || { echo "record-jobs: FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
quarry=${CARGO_TARGET_DIR:-target}/tools/quarry
work=lab/experiments/data/work
port=${RECORD_JOBS_PORT:-7777}

# record NAME PROGRAM..
record() {
    local name=$1
    shift
    "$quarry" record -o "$folder/$name" -- "$@" >&2
}

for text in trees.lua:12 objects.py:12 stones.sql:60000; do
    sed "s/@AMOUNT@/${text#*:}/" "$work/${text%:*}" > "$folder/${text%:*}"
done
record lua lua5.4 "$folder/trees.lua"
PYTHONMALLOC=malloc PYTHONHASHSEED=0 record python /usr/bin/python3 -S -B "$folder/objects.py"
record sqlite sqlite3 -batch :memory: < "$folder/stones.sql"
# shellcheck disable=SC2016 # for perl
record perl perl -ne '$n{$_}++ for split; END { print scalar keys %n }' docs/*.md docs/*/*.md
record cc1 "$(gcc -print-prog-name=cc1)" -quiet -O2 -imultiarch "$(gcc -print-multiarch)" \
    -I malloc/preload/include -I malloc/preload/tests/c malloc/preload/tests/c/budget.c -o /dev/null
record redis redis-server --port "$port" --bind 127.0.0.1 --save '' &
for ((tries = 0; tries < 100; tries++)); do
    ! redis-cli -p "$port" ping 2> /dev/null | grep -q PONG || break
    sleep 0.1
done
redis-benchmark -p "$port" -n 5000 -r 5000 -t set,lpush,hset,sadd -q >&2
redis-cli -p "$port" shutdown nosave >&2 || true
wait
echo "$folder/lua=2308,$folder/python=6156,$folder/sqlite=3792,$folder/perl=4948,\
$folder/cc1=25568,$folder/redis=14912"
