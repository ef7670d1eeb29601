#!/usr/bin/env bash
# Counts by callgrind the instructions that take a block and give it back, for the rows of `quarry
# lab run zone`. It subtracts a sample of 20,000 operations of one task from one of 40,000, so the
# instructions that build and fill the memory cancel out. QUARRY_LLFREE names LLFree's library.
#
#   scripts/zone-instructions.sh [ORDER..]     without orders 0, 3, 4, 6 and 9
set -euo pipefail
cd "$(dirname "$0")/.."

command=${CARGO_TARGET_DIR:-target}/tools/quarry
[[ -x $command ]] || { echo "zone-instructions: run 'make build' first" >&2; exit 1; }
orders=("$@")
((${#orders[@]})) || orders=(0 3 4 6 9)
names=(v6.18 v6.18-wide zone)
variants=('{"lists":"v6.18"}' '{"lists":"v6.18-wide"}' '"zone"')
if [[ -n ${QUARRY_LLFREE:-} ]]; then
    names+=(llfree)
    variants+=("{\"llfree\":\"$(realpath "$QUARRY_LLFREE")\"}")
fi

# counted VARIANT STATE PATTERN ORDER OPERATIONS: prints the number of all instructions of a sample.
counted() {
    local order
    order="{\"variant\":$1,\"state\":\"$2\",\"pattern\":\"$3\",\"order\":$4,"
    order+="\"tasks\":1,\"cpus\":[],\"mib\":256,\"millis\":1,\"operations\":$5}"
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$command" __sample zone "$order" \
        2>&1 > /dev/null | sed -n 's/.*Collected : \([0-9]*\)$/\1/p'
}

head=$(printf ' %s |' "${names[@]}")
printf '| instructions per operation |%s\n|---|%s\n' "$head" "$(printf -- '---|%.0s' "${names[@]}")"
for state in fresh fragmented; do
    for pattern in pair bulk random; do
        for order in "${orders[@]}"; do
            printf '| %s-%s-%s |' "$state" "$pattern" "$order"
            for variant in "${variants[@]}"; do
                once=$(counted "$variant" "$state" "$pattern" "$order" 20000)
                twice=$(counted "$variant" "$state" "$pattern" "$order" 40000)
                printf ' %d |' $(((twice - once) / 20000))
            done
            printf '\n'
        done
    done
done
