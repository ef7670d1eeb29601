#!/usr/bin/env bash
# The cost of memory that goes at once, beside malloc and free of each object: heaps of Quarry and of
# mimalloc 3, arenas of jemalloc, bumpalo. The allocators take turns; each figure is the median of
# all runs, with the quarter below and above it.
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
cargo build -q --locked --release --manifest-path scripts/heaps/Cargo.toml --target-dir "$target/heaps"
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((run = 0; run < runs; run++)); do
    for library in "${libraries[@]}"; do
        LD_PRELOAD=${library#*=} "$target/heaps/release/heaps" | sed "s/^/${library%%=*} /" >> "$results"
    done
done
grep -m1 'model name' /proc/cpuinfo
printf '%-10s %8s %-8s %22s %24s\n' on objects by "ns an object" "of malloc and free"
sort -k1,1 -k2,2n -k3,3 "$results" | awk '
    function quartile(list, count, part) { return list[int((count - 1) * part + 0.5) + 1] }
    function show() {
        if (key == "") return
        for (i = 2; i <= n; i++) {
            for (j = i; j > 1 && ns[j] < ns[j - 1]; j--) { t = ns[j]; ns[j] = ns[j - 1]; ns[j - 1] = t }
            for (j = i; j > 1 && of[j] < of[j - 1]; j--) { t = of[j]; of[j] = of[j - 1]; of[j - 1] = t }
        }
        split(key, part, " ")
        printf "%-10s %8s %-8s %7.1f [%5.1f, %5.1f]", part[1], part[2], part[3], quartile(ns, n, .5),
            quartile(ns, n, .25), quartile(ns, n, .75)
        if (of[n] > 0) printf " %8.2f [%.2f, %.2f]", quartile(of, n, .5), quartile(of, n, .25), quartile(of, n, .75)
        print ""
    }
    $1 " " $2 " " $3 != key { show(); key = $1 " " $2 " " $3; n = 0 }
    { n++; ns[n] = $4 + 0; of[n] = $5 + 0 }
    END { show() }'
