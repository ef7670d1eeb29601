#!/usr/bin/env bash
# Real programs on Quarry: a redis-server with statistics at its end, and sqlite3 on a script, where
# it is compared with glibc's malloc and the allocators that Debian has.
#
#   scripts/demo.sh [PATH-OF-QUARRY]
set -euo pipefail
cd "$(dirname "$0")/.."

quarry=${1:-${CARGO_TARGET_DIR:-target}/tools/quarry}
runs=${DEMO_RUNS:-6} # the fewest with intervals
requests=${DEMO_REQUESTS:-200000}

say() { printf '\n==> %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
[[ -x $quarry ]] || fail "$quarry is not there: run 'make build' first"

scratch=$(mktemp -d)
server=
clean_up() {
    [[ -z $server ]] || kill "$server" 2> /dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

redis() { redis-cli -s "$scratch/socket" "$@"; }

# `quarry run` becomes the program, so the process that listens is the one we started.
start_redis() {
    "$quarry" run --stats="$scratch/stats" -- redis-server --port 0 \
        --unixsocket "$scratch/socket" --save '' --appendonly no --dir "$scratch" \
        --daemonize no > "$scratch/redis.log" 2>&1 &
    server=$!
    local tries
    for tries in {1..200}; do
        [[ $(redis ping 2> /dev/null) != PONG ]] || return 0
        kill -0 "$server" 2> /dev/null || break
        sleep 0.05
    done
    cat "$scratch/redis.log" >&2
    fail "redis-server did not start ($tries tries)"
}

stop_redis() {
    redis shutdown nosave > /dev/null 2>&1 || true
    wait "$server" || fail "redis-server ended with status $?"
    server=
}

sqlite_script() {
    sed 's/@AMOUNT@/200000/' crates/lab/data/work/stones.sql
}

say "quarry run --stats -- redis-server"
start_redis
grep -q libquarry "/proc/$server/maps" || fail "libquarry.so is not mapped into redis-server"
redis-benchmark -s "$scratch/socket" -n "$requests" -P 16 -d 512 -r 100000 -q \
    -t set,get,lpush,hset 2> /dev/null | tr '\r' '\n' | grep 'per second'
stop_redis
printf '\nWhat Quarry saw of it (the ten busiest caches):\n\n'
{
    sed -n '1,/^# name/p' "$scratch/stats"
    awk '/^malloc-/ {match($0, /operations +[0-9]+/)
        print substr($0, RSTART + 10, RLENGTH - 10) "\t" $0}' "$scratch/stats" \
        | sort -nr | awk 'NR <= 10' | cut -f 2-
    sed -n '/^$/,$p' "$scratch/stats"
} | sed 's/^/    /'

say "sqlite3 on Quarry: is its database sound?"
sqlite_script > "$scratch/script.sql"
"$quarry" run -- sqlite3 :memory: < "$scratch/script.sql" | tail -n 1 | grep -x ok \
    || fail "sqlite3: integrity_check failed"

say "quarry compare --check-output --runs $runs -- sqlite3 :memory: < script.sql"
"$quarry" compare --check-output --runs "$runs" -- sqlite3 :memory: < "$scratch/script.sql"
