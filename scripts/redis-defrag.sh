#!/usr/bin/env bash
# Compares redis on Quarry with redis on its own jemalloc: resident memory after redis's own test of
# fragmentation (tests/unit/memefficiency.tcl), with activedefrag off and on. Both are built from
# Debian's source package, which is fetched into target/foreign; for the one on Quarry,
# scripts/redis-defrag/jemalloc/jemalloc.h replaces jemalloc's header, and nothing else changes.
#
#   scripts/redis-defrag.sh [test]
#
# `test` runs redis's own tests of defragmentation on the one on Quarry instead; they need tclsh.
# Three of them do not apply. One expects that Lua's memory, which redis cannot move, is not in the
# heap that redis measures; on Quarry it is. Two expect a fragmentation of 1.7 at their beginning,
# where Quarry has 1.5 and 1.6. Nor does the script test how long a cycle takes (--no-latency).
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
target=$(realpath "${CARGO_TARGET_DIR:-target}")
place=$target/foreign
cli=
[[ -e $target/release/libquarry-full.so.0 ]] \
    || { echo "redis-defrag: no libquarry-full.so.0: run 'make build' first" >&2; exit 1; }
mkdir -p "$place"
source scripts/foreign/fetch.sh

# build NAME VARIABLE=VALUE..: builds a copy of the source in a folder of its own.
build() {
    local source folder=$place/on-$1
    shift
    source=$(ls -d "$place"/redis-[0-9]*/)
    [[ -e $folder ]] || cp -r "$source" "$folder"
    make -j"$(nproc)" -C "$folder/src" redis-server redis-cli redis-benchmark \
        OPTIMIZATION=-O2 "$@" \
        > "$folder.log" 2>&1 || { echo "redis-defrag: see $folder.log" >&2; exit 1; }
}

# info FIELD: prints a field of the running server's INFO.
info() { "$cli" info | tr -d '\r' | sed -n "s/^$1://p"; }

# measure NAME DEFRAG: adds 870,000 keys to a redis that may use 100 MB and evicts the rest. Prints
# the bytes in use, the resident ones, and how many objects defragmentation has moved.
measure() {
    local socket folder=$place/on-$1 pid setting digest resident
    socket=$(mktemp -u "$place/redis.XXXXXX")
    cli=$place/redis-cli.$$
    printf '#!/bin/sh\nexec "%s/src/redis-cli" -s "%s" "$@"\n' "$folder" "$socket" > "$cli"
    chmod +x "$cli"
    "$folder/src/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no \
        --enable-debug-command yes > "$folder.log" 2>&1 &
    pid=$!
    until "$cli" ping > /dev/null 2>&1; do kill -0 $pid; sleep 0.1; done
    for setting in 'hz 100' 'activedefrag no' 'active-defrag-threshold-lower 5' \
        'active-defrag-cycle-min 65' 'active-defrag-cycle-max 75' \
        'active-defrag-ignore-bytes 2mb' 'maxmemory 100mb' 'maxmemory-policy allkeys-lru'; do
        # shellcheck disable=SC2086
        "$cli" config set $setting > /dev/null
    done
    "$cli" debug populate 700000 asdf1 150 > /dev/null
    "$cli" debug populate 170000 asdf2 300 > /dev/null
    # Waits until redis has evicted the keys above the limit.
    while (($(info used_memory_dataset) > 105000000)); do sleep 0.1; done
    sleep 2
    "$cli" config set maxmemory 110mb > /dev/null
    digest=$("$cli" debug digest)
    "$cli" config set activedefrag "$2" > /dev/null
    sleep 2
    while [[ $(info active_defrag_running) != 0 ]]; do sleep 0.1; done
    sleep 5
    [[ $digest == $("$cli" debug digest) ]] \
        || { echo "redis-defrag: keys have changed" >&2; exit 1; }
    resident=$(($(sed -n 's/^VmRSS:\s*\([0-9]*\).*/\1/p' /proc/$pid/status) * 1024))
    awk -v name="$1" -v defrag="$2" -v used="$(info used_memory)" -v resident=$resident \
        -v hits="$(info active_defrag_hits)" -v misses="$(info active_defrag_misses)" 'BEGIN {
            printf "| %-8s | %-6s | %8.1f | %12.1f | %15.2f | %7d | %10d |\n", name, defrag,
                used / 1e6, resident / 1e6, resident / used, hits, hits + misses
        }'
    "$cli" shutdown nosave || true
    wait $pid || true
    rm -f "$cli"
}

fetch redis || exit 1
headers="-I$repository/scripts/redis-defrag -I$repository/malloc/preload/include"
build quarry MALLOC=libc REDIS_CFLAGS="-DUSE_JEMALLOC $headers" \
    REDIS_LDFLAGS="-Wl,--no-as-needed -L$target/release -lquarry-full -Wl,-rpath,$target/release"
if [[ ${1:-} == test ]]; then
    cd "$place/on-quarry"
    exec ./runtest --single unit/memefficiency --tags defrag --clients 1 --no-latency \
        --skiptest 'Active defrag eval scripts' --skiptest 'Active defrag big keys' \
        --skiptest 'Active defrag big list'
fi
build jemalloc MALLOC=jemalloc
echo '| redis on | defrag | live, MB | resident, MB | resident / live | moved   | looked at  |'
echo '|----------|--------|----------|--------------|-----------------|---------|------------|'
for name in jemalloc quarry; do
    measure $name no
    measure $name yes
done
