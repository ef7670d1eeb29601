#!/usr/bin/env bash
# The first experiment of the documents (udp-u-4k of 003) in less than two minutes: the columns that
# it is about, in a table that fits a terminal.
#
#   scripts/demo-lab.sh [PATH-OF-QUARRY]
set -euo pipefail
cd "$(dirname "$0")/.."

quarry=${1:-${CARGO_TARGET_DIR:-target}/tools/quarry}
[[ -x $quarry ]] || { echo "demo-lab: $quarry is not there: run 'make build' first" >&2; exit 1; }
options=(--place=same "--samples=${SAMPLES:-12}" --millis=200)

bold='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' plain=$'\e[0m'
fi

cat << END
$bold==> udp-u-4k: packets of 4 KiB, sent and received on stacks of kernel policies$plain
    To be seen: how often a packet takes the zone's lock under each slab policy,
    and the rate of one client with its server, and of two such pairs at once

    \$ quarry lab run udp-u-4k ${options[*]}

END

# Of the lab's output the demo shows the table that has a column "zone locks". It finds the columns
# by their names, so the lab may print more, and in another order.
began=$SECONDS
"$quarry" lab run udp-u-4k "${options[@]}" | awk -F ' *[|] *' -v bold="$bold" -v plain="$plain" '
    function line(pairs, policy, rate, ratio, locks, wait) {
        return substr(sprintf("    %5s  %-15s %7s  %-20s %10s %8s",
            pairs, policy, rate, ratio, locks, wait), 1, 80)
    }
    !locks && /^[|].*zone locks/ {
        for (i = 2; i < NF; i++) column[$i] = i
        locks = column["zone locks"]
        for (name in column) if (name ~ "^/ ") ratio = name
        print bold line("pairs", "policy", "Mbit/s", ratio, "zone locks", "ns there") plain
        next
    }
    locks && !ended && /^[|] *[a-z]/ {
        pairs = $column["tasks"]
        if (last && last != pairs) print ""
        last = pairs
        print line(pairs, $column["policies"], $column["Mbit/s"], $column[ratio], $locks,
            $column["zone wait, ns/op"])
        rows++
    }
    locks && /^$/ { ended = 1 }
    END {
        if (!rows) { print "demo-lab: the lab printed no such table" > "/dev/stderr"; exit 1 }
        print "\n    Medians, ratios to the first policy with their 95 % intervals; A/A is the"
        print "    first policy again, and shows what the machine does. Zone locks and the"
        print "    nanoseconds of waiting for them are of one packet."
    }'
printf '\n%s==> %d seconds; the command above prints the whole table%s\n' \
    "$bold" "$((SECONDS - began))" "$plain"
