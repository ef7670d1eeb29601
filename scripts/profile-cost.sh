#!/usr/bin/env bash
# Measures what the heap profile costs while it is on, in a program that only calls malloc and free,
# compiled with and without frame pointers, and in redis. Prints medians of runs with the profile
# off and on in turn.
# Usage: scripts/profile-cost.sh [RUNS]; QUARRY_LIBRARY names the library.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-11}
library=${QUARRY_LIBRARY:-target/release/libquarry.so}
[[ -f $library ]] || { echo "no $library: make build" >&2; exit 1; }
library=$(realpath "$library")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/malloc.c" <<'C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* 20 callers deep, 64 objects of up to 1 KiB, replaced one after the other. */
static void *held[64];
static uint64_t state = 1;
__attribute__((noinline)) static void replace(int depth)
{
    if (depth > 0) {
        replace(depth - 1);
        __asm__ volatile("");
        return;
    }
    for (int i = 0; i < 10000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        free(held[state >> 58]);
        held[state >> 58] = malloc(state >> 40 & 1023);
    }
}
int main(void)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 2000; i++)
        replace(20);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    printf("%.2f\n", ns / 2000 / 10000);
    return 0;
}
C

# run_malloc PROGRAM PROFILE: prints the nanoseconds of a malloc and a free.
run_malloc() {
    QUARRY_PROFILE=$2 LD_PRELOAD=$library "$work/$1"
}

# run_redis PROFILE: prints the nanoseconds of a SET and a GET.
run_redis() {
    local port=$((20000 + RANDOM % 20000)) redis rates
    QUARRY_PROFILE=$1 LD_PRELOAD=$library redis-server --port "$port" --save '' --appendonly no \
        > "$work/redis.log" &
    redis=$!
    until redis-cli -p "$port" ping > "$work/ping" 2>&1; do sleep 0.05; done
    rates=$(redis-benchmark -p "$port" --csv -t set,get -n 200000 -P 16 -r 100000 -d 200 |
        sed -n 's/^"[SG]ET","\([0-9.]*\)".*/\1/p')
    kill "$redis"
    wait "$redis" || true
    awk '{ ns += 1e9 / $1 } END { printf "%.2f\n", ns }' <<< "$rates"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# compare NAME COMMAND..: adds 0 (no profile) or the file of the profile to COMMAND's arguments.
compare() {
    local name=$1 off on
    shift
    for _ in $(seq "$runs"); do
        "$@" 0 >> "$work/off"
        "$@" "$work/profile" >> "$work/on"
    done
    off=$(median < "$work/off") on=$(median < "$work/on")
    rm -f "$work/off" "$work/on"
    awk -v name="$name" -v off="$off" -v on="$on" 'BEGIN {
        printf "%-40s %9.1f %9.1f %+8.1f %%\n", name, off, on, (on / off - 1) * 100 }'
}

printf '%-40s %9s %9s %10s\n' "nanoseconds, median of $runs" off on change
for option in -fomit-frame-pointer -fno-omit-frame-pointer; do
    cc -O2 "$option" -o "$work/malloc$option" "$work/malloc.c"
    compare "malloc and free, $option" run_malloc "malloc$option"
done
compare "redis, SET and GET" run_redis
