#!/usr/bin/env bash
# Runs programs that misuse memory under Quarry's modes and under other allocators, and says when
# each of them is found.
#
#   scripts/safety.sh table     a table of misuses: at once, late or never
#   scripts/safety.sh price     a table of what each mode costs in time and memory
#
# The column of an allocator that is not installed has "-"; `scripts/peers.sh` builds two of them. A
# misuse is found at once if the process ends, or the allocator reports something, before the
# misuse returns, and late if that happens later. Each misuse runs RUNS times (5): if the runs
# differ, the script prints the worst one, with a star. QUARRY_LIBRARY names another shared object.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
library=$(realpath "${QUARRY_LIBRARY:-$target/release/libquarry.so}")
runs=${RUNS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'safety: %s\n' "$*" >&2; exit 1; }
[[ -e $library ]] || fail "$library is not there: run 'make build' first"

# scudo: prints the newest Scudo of Debian's compilers.
scudo() {
    local found
    found=$(compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-*.so' \
        | grep "$(uname -m)" | sort -V | tail -n 1) || true
    echo "${found:-$target/peers/libscudo.so}"
}

# Name, shared object and variables of each column.
names=() objects=() variables=()
column() {
    names+=("$1") objects+=("$2") variables+=("${3-}")
}
column quarry "$library"
column debug "$library" QUARRY_DEBUG=FZPU
column harden "$library" QUARRY_HARDEN=1
case ${1-} in
    price) column guard "$library" QUARRY_GUARD=100 ;;
    *) column guard "$library" QUARRY_GUARD=all ;;
esac
column glibc ""
column mimalloc-secure "$target/peers/libmimalloc-secure.so" MIMALLOC_SHOW_ERRORS=1
column scudo "$(scudo)"
column hardened_malloc "$target/peers/libhardened-malloc.so"

is_there() { [[ -z ${objects[$1]} || -e ${objects[$1]} ]]; }

# under COLUMN CMD..: runs CMD on the column's allocator.
under() {
    local column=$1 words=()
    shift
    [[ -z ${objects[column]} ]] || words+=("LD_PRELOAD=${objects[column]}")
    [[ -z ${variables[column]} ]] || words+=("${variables[column]}")
    env -u QUARRY_DEBUG -u QUARRY_HARDEN -u QUARRY_GUARD "${words[@]}" "$@"
}

# found COLUMN MISUSE: runs MISUSE once, and prints "at once", "late" or "never".
found() {
    local status=0
    (
        ulimit -c 0
        under "$1" timeout 60 "$work/misuse" "$2" > "$work/said" 2>&1
    ) 2> /dev/null || status=$?
    ((status != 124 && status != 3)) || fail "$2 on ${names[$1]}: ended with status $status"
    # An allocator may report an error and let the program go on.
    if [[ $(head -n 1 "$work/said") != returned ]]; then
        echo "at once"
    elif [[ $(sed -n 2p "$work/said") != survived ]] || ((status != 0)); then
        echo late
    else
        echo never
    fi
}

# worst COLUMN MISUSE: prints the worst result of all runs.
worst() {
    local run all=
    for ((run = 0; run < runs; run++)); do
        all+=$(found "$1" "$2")$'\n'
    done
    local kinds worst=
    kinds=$(sort -u <<< "${all%$'\n'}" | wc -l)
    for worst in never late "at once"; do
        ! grep -q "^$worst" <<< "$all" || break
    done
    ((kinds == 1)) || worst+="*"
    echo "$worst"
}

table() {
    local name text column cell row
    local -a at_once late never
    cc -std=c11 -O1 -w -fno-builtin -U_FORTIFY_SOURCE -o "$work/misuse" \
        malloc/preload/tests/c/safety.c -lpthread -ldl
    printf '| misuse |'
    printf ' %s |' "${names[@]}"
    printf '\n|---|'
    printf '%.0s---|' "${names[@]}"
    echo
    for column in "${!names[@]}"; do
        at_once[column]=0 late[column]=0 never[column]=0
    done
    while IFS=$'\t' read -r name text; do
        row="| $text |"
        for column in "${!names[@]}"; do
            cell=-
            if is_there "$column"; then
                cell=$(worst "$column" "$name")
                case $cell in
                    at*) at_once[column]=$((at_once[column] + 1)) ;;
                    late*) late[column]=$((late[column] + 1)) ;;
                    *) never[column]=$((never[column] + 1)) ;;
                esac
            fi
            row+=" $cell |"
        done
        echo "$row"
    done < <("$work/misuse")
    printf '| **at once, late, never** |'
    for column in "${!names[@]}"; do
        if is_there "$column"; then
            printf ' **%s, %s, %s** |' "${at_once[column]}" "${late[column]}" "${never[column]}"
        else
            printf ' - |'
        fi
    done
    echo
}

# price: prints medians of interleaved runs of each mode, and of Quarry without any mode.
price() {
    local column
    cc -std=c11 -O2 -o "$work/churn" scripts/safety/churn.c -lpthread
    for column in "${!names[@]}"; do
        ! is_there "$column" \
            || printf '%s\t%s\t%s\n' "${names[column]}" "${objects[column]}" \
                "${variables[column]}"
    done | python3 scripts/safety/price.py "$runs" "$work/churn"
}

case ${1-} in
    table) table ;;
    price) price ;;
    *) fail "usage: scripts/safety.sh table|price" ;;
esac
