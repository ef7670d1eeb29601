#!/usr/bin/env bash
# Checks the restartable sequences in a library for aarch64, instruction by instruction.
#
#   scripts/aarch64/sequences.sh libquarry.so
#
# Each sequence, as its descriptor tells the kernel, must end with its committing store: a plain
# store as its last instruction, and no other one to the same address; or it stores nothing, as a
# walk does. It calls no function, does not return, and has no atomic instruction, whose effect a
# restart would repeat. Its abort handler follows the signature and jumps to an address before the
# sequence, where the sequence is armed again.
# `malloc/preload/tests/sequences.rs` reads the library for x86-64 in the same way.
set -euo pipefail
if [ $# != 1 ]; then echo "usage: scripts/aarch64/sequences.sh LIBRARY" >&2; exit 2; fi
library=$1
tools=aarch64-linux-gnu
# struct rseq_cs of include/uapi/linux/rseq.h: version and flags, start, length, abort handler.
readonly DESCRIPTOR=32 START=8 LENGTH=16 ABORT=24
# The least number of sequences that a library has; with fewer the section was not read right.
readonly FEWEST=10

fail() { echo "aarch64: sequences: $*" >&2; exit 1; }

read -r section offset size < <("$tools-readelf" -SW "$library" \
    | sed -n 's/^.* __rseq_cs  *PROGBITS  *\([0-9a-f]*\) \([0-9a-f]*\) \([0-9a-f]*\) .*/\1 \2 \3/p')
[ -n "${size:-}" ] || fail "$library has no section __rseq_cs"
section=$((16#$section)) offset=$((16#$offset)) size=$((16#$size))

declare -A addends
while read -r at addend; do addends[$((16#$at))]=$addend; done < <(
    "$tools-readelf" -rW "$library" | awk '$3 == "R_AARCH64_RELATIVE" { print $1, $4 }')
mapfile -t lengths < <(od -An -v -tu8 -w"$DESCRIPTOR" -j "$offset" -N "$size" "$library" \
    | awk -v field="$((LENGTH / 8 + 1))" '{ print $field }')

# disassemble START END: prints mnemonic and operands of each instruction, one a line.
disassemble() {
    "$tools-objdump" -d --no-show-raw-insn --start-address="$1" --stop-address="$2" "$library" \
        | sed -n 's/^ *[0-9a-f]*:\t//p'
}

# Reads a sequence; prints "commit" or "walk", or what is wrong with it.
judge() {
    awk '
        $1 ~ /^(bl|blr|br|ret|svc|brk)$/ { wrong = "leaves by " $0 }
        $1 ~ /^(ld|st)l?a?x[rp]/ || $1 ~ /^(cas|swp|ld(add|clr|set|eor|[su]max|[su]min))/ ||
        $1 ~ /^st(add|clr|set|eor|[su]max|[su]min)/ { wrong = "has the atomic " $1 }
        $1 ~ /^st/ {
            address = $0
            sub(/^[^[]*/, "", address)
            if (address in stores) wrong = "stores twice to " address
            stores[address] = 1
            count++
            if (address ~ /!|\],/) wrong = "writes back an address: " $0
        }
        $1 ~ /^[0-9a-f][0-9a-f]$/ || $1 == ".word" || $1 == "udf" { wrong = "is not all code: " $0 }
        { last = $1 }
        END {
            if (wrong == "" && count && last !~ /^(str|stlr)$/)
                wrong = "goes on after its last store, with " last
            if (NR == 0) wrong = "has no instruction"
            print wrong != "" ? wrong : count ? "commit" : "walk"
        }'
}

commits=0 walks=0
for number in "${!lengths[@]}"; do
    at=$((section + number * DESCRIPTOR))
    start=${addends[$((at + START))]:-} abort=${addends[$((at + ABORT))]:-}
    if [ -z "$start" ] || [ -z "$abort" ]; then fail "descriptor $number has no addresses"; fi
    start=$((16#$start)) abort=$((16#$abort))
    where=$(printf 'the sequence at %#x' "$start")
    verdict=$(disassemble "$start" "$((start + lengths[number]))" | judge)
    case $verdict in
        commit) commits=$((commits + 1)) ;;
        walk) walks=$((walks + 1)) ;;
        *) fail "$where $verdict" ;;
    esac
    # The handler is read as bytes, because no symbol marks it as code: `brk #0x45e0`, then `b`.
    read -r signature jump < <("$tools-objdump" -s --start-address="$((abort - 4))" \
        --stop-address="$((abort + 4))" "$library" \
        | sed -n 's|^ [0-9a-f]* \([0-9a-f]*\) \([0-9a-f]*\) .*|\1 \2|p')
    [ "$signature" = 00bc28d4 ] || fail "$where: no signature before its abort handler"
    jump=$((16#${jump:6:2}${jump:4:2}${jump:2:2}${jump:0:2}))
    [ $((jump >> 26)) = 5 ] || fail "$where: its abort handler does not jump"
    # The first `b` of the code that follows starts the sequence again.
    again=$((abort + ((((jump & 0x3ffffff) ^ 0x2000000) - 0x2000000) << 2)))
    restart=$(disassemble "$again" "$((again + 60))" | awk '$1 == "b" { print $2; exit }')
    [ -n "$restart" ] || fail "$where: its abort handler never starts it again"
    restart=$((16#$restart))
    [ "$restart" -lt "$start" ] || fail "$where: its abort does not arm it again"
done
[ $((commits + walks)) -ge "$FEWEST" ] || fail "only $((commits + walks)) sequences"
echo "aarch64: sequences: $commits commit by their last instruction, $walks only read"
