#!/usr/bin/env bash
# The probes of libquarry.so, read by the kernel's own uprobes: perf attaches to them, which alone
# turns sampling on, and must see the call sites that the heap profile of the same run has.
#
#   scripts/probes.sh
#
# Needs `make build`, root, perf and tracefs. Exit status 77: the machine has no such thing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
library=$target/release/libquarry.so
tracing=/sys/kernel/tracing
folder=$(mktemp -d)
leave() { rm -rf "$folder"; echo > "$tracing/uprobe_events" || true; } 2> /dev/null
trap leave EXIT
skip() { echo "skipped: probes: $*"; exit 77; }
command -v perf > /dev/null || skip "no perf"
[[ -e $tracing/uprobe_events ]] || mount -t tracefs none "$tracing" 2> /dev/null || true
[[ -w $tracing/uprobe_events ]] || skip "no uprobes here"

# file_place ADDRESS: where the file has it.
file_place() {
    local offset address bytes
    while read -r _ offset address _ bytes _; do
        if ((address <= $1 && $1 < address + bytes)); then
            printf '0x%x' $(($1 - address + offset))
        fi
    done < <(readelf -lW "$library" | grep LOAD)
}
while read -r name place semaphore; do
    where="$library:$(file_place "$place")($(file_place "$semaphore"))"
    echo "p:quarry_probes/$name $where" >> "$tracing/uprobe_events" || skip "uprobes are refused"
done < <(readelf -nW "$library" \
    | awk '/Name:/ { name = $2 } /Location:/ { print name, substr($2, 1, length($2) - 1), $NF }')

cc -O1 -g -fno-builtin -o "$folder/program" scripts/probes.c
perf record --quiet -m 64M --call-graph dwarf,2048 -e quarry_probes:alloc -e quarry_probes:free \
    -o "$folder/perf.data" env LD_PRELOAD="$library" QUARRY_PROFILE="$folder/profile.raw" \
    QUARRY_PROFILE_MEAN=64K "$folder/program"
perf script -i "$folder/perf.data" > "$folder/events"
"$target/tools/quarry" profile --view alloc "$folder/profile.raw" > "$folder/profile"

# The events and the samples of a call site, and of all.
for site in rare often; do
    events=$(awk -v RS= -v site="$site+" '/_probes:alloc/ && index($0, site)' "$folder/events" \
        | grep -c _probes:alloc || true)
    samples=$(awk -v RS= -v site="$site" '$NF && index($0, "\n    " site " ")' "$folder/profile" \
        | sed -n 's/.*; \([0-9]*\) samples.*/\1/p')
    echo "$site: $events events, $samples samples"
    ((events > 50)) && [[ $events == "$samples" ]] || { cat "$folder/profile"; exit 1; }
done
frees=$(grep -c _probes:free "$folder/events" || true)
echo "$frees frees of samples"
((frees > 50))
# Attaching alone: without QUARRY_PROFILE.
perf record --quiet -m 64M -e quarry_probes:alloc -o "$folder/perf.data" \
    env LD_PRELOAD="$library" QUARRY_PROFILE_MEAN=64K "$folder/program"
alone=$(perf script -i "$folder/perf.data" | grep -c _probes:alloc || true)
echo "$alone events where only perf asks"
((alone > 100))
