#!/usr/bin/env bash
# The first experiment of the documents (udp-u-4k of 003) in less than two minutes.
#
#   scripts/demo-lab.sh [PATH-OF-QUARRY]
set -euo pipefail
cd "$(dirname "$0")/.."

quarry=${1:-${CARGO_TARGET_DIR:-target}/tools/quarry}
[[ -x $quarry ]] || { echo "demo-lab: $quarry is not there: run 'make build' first" >&2; exit 1; }
options=("--samples=${SAMPLES:-12}" --millis=200)

bold='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' plain=$'\e[0m'
fi

cat << END
$bold==> udp-u-4k: packets of 4 KiB, sent and received on stacks of kernel policies$plain
    To be seen: how often a packet takes the zone's lock under each slab policy,
    and the rate of one client with its server, and of two such pairs at once

    \$ quarry lab run 003 ${options[*]}

END

# The demo shows the lab's output up to the end of its first table.
began=$SECONDS
"$quarry" lab run 003 "${options[@]}" | awk '
    !ended { print "    " $0 }
    /^[|]/ { rows++ }
    rows && /^$/ { ended = 1 }
    END {
        if (!rows) { print "demo-lab: the lab printed no table" > "/dev/stderr"; exit 1 }
        print "    Medians, ratios to the first policy with their 95 % intervals; A/A is the"
        print "    first policy again, and shows what the machine does. Zone locks and the"
        print "    nanoseconds of waiting for them are of one packet."
    }'
printf '\n%s==> %d seconds; the command above prints more%s\n' \
    "$bold" "$((SECONDS - began))" "$plain"
