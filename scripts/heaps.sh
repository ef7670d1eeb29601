#!/usr/bin/env bash
# The cost of memory that goes at once, beside malloc and free of each object: heaps of Quarry and
# of mimalloc 3, arenas of jemalloc, bumpalo. The allocators take turns; each figure is the median
# of all runs, between the quartiles.
#
#   scripts/heaps.sh [RUNS]
#
# Needs `make library peers`. Exit status 77: a peer is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-15}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
libraries=(quarry="$target/release/libquarry-full.so" mimalloc3="$target/peers/libmimalloc3.so"
    jemalloc="$target/peers/libjemalloc-new.so" glibc=)
for library in "${libraries[@]}"; do
    file=${library#*=}
    [[ -z $file || -e $file ]] || { echo "skipped: heaps: there is no $file"; exit 77; }
done
cargo build -q --locked --release --manifest-path scripts/heaps/Cargo.toml \
    --target-dir "$target/heaps"
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((run = 0; run < runs; run++)); do
    for library in "${libraries[@]}"; do
        LD_PRELOAD=${library#*=} "$target/heaps/release/heaps" \
            | sed "s/^/${library%%=*} /" >> "$results"
    done
done
grep -m1 'model name' /proc/cpuinfo
printf '%-10s %8s %-8s %22s %24s\n' on objects by "ns an object" "of malloc and free"
sort -k1,1 -k2,2n -k3,3 "$results" | awk '
    function ordered(list, count,    i, j, t) {
        for (i = 2; i <= count; i++)
            for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
                t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
            }
    }
    function at(list, count, part) { return list[int((count - 1) * part + 0.5) + 1] }
    function show(    part) {
        if (key == "") return
        ordered(ns, n); ordered(ratio, n)
        split(key, part, " ")
        printf "%-10s %8s %-8s %7.1f [%5.1f, %5.1f]", part[1], part[2], part[3], at(ns, n, 0.5),
            at(ns, n, 0.25), at(ns, n, 0.75)
        if (ratio[n] > 0)
            printf " %8.2f [%.2f, %.2f]", at(ratio, n, 0.5), at(ratio, n, 0.25),
                at(ratio, n, 0.75)
        print ""
    }
    $1 " " $2 " " $3 != key { show(); key = $1 " " $2 " " $3; n = 0 }
    { n++; ns[n] = $4 + 0; ratio[n] = $5 + 0 }
    END { show() }'
