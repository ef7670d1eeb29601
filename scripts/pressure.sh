#!/usr/bin/env bash
# What a program gives back while its group is short of memory: one that needs 120 MiB in bursts, on
# Quarry, beside two that read a file of 200 MiB, in a group of 256 MiB. With and without
# QUARRY_PRESSURE, by turns; Quarry does not heed the group's limit, as if it were another's.
#
#   scripts/pressure.sh [RUNS]
#
# Needs `make library`, root, a control group of memory, and pressure stall information. Exit status
# 77: the machine has no such thing.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-3}
seconds=15
library=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/libquarry.so
limits=/sys/fs/cgroup/memory/quarry-pressure waits=/sys/fs/cgroup/unified/quarry-pressure
limit=memory.limit_in_bytes
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    limits=/sys/fs/cgroup/quarry-pressure waits=$limits limit=memory.max
fi
folder=$(mktemp -d -p "$(dirname "$library")")
trap 'rm -rf "$folder"; rmdir "$limits" "$waits" 2> /dev/null || true' EXIT
mkdir -p "$limits" "$waits" && echo 256M > "$limits/$limit" \
    && [[ -e $waits/memory.pressure ]] || { echo "skipped: pressure: no group here"; exit 77; }
for program in burst reader; do
    cc -O1 -pthread -o "$folder/$program" "scripts/pressure/$program.c"
done
head -c 200M /dev/urandom > "$folder/file"

# inside COMMAND..: runs it in the groups.
inside() (
    for group in "$limits" "$waits"; do echo "$BASHPID" > "$group/cgroup.procs"; done
    exec "$@"
)

grep -m1 'model name' /proc/cpuinfo
for ((run = 0; run < runs; run++)); do
    for pressure in off auto; do
        sync "$folder/file"
        echo 1 > /proc/sys/vm/drop_caches
        inside "$folder/reader" "$folder/file" $seconds > "$folder/one" &
        inside "$folder/reader" "$folder/file" $seconds > "$folder/two" &
        inside env LD_PRELOAD="$library" QUARRY_CGROUP=0 QUARRY_PRESSURE=$pressure \
            "$folder/burst" $seconds > "$folder/burst.out" &
        wait
        echo "QUARRY_PRESSURE=$pressure: $(cat "$folder/burst.out");" \
            "read $(awk '{ sum += $2 } END { print sum }' "$folder/one" "$folder/two") MiB"
    done
done
