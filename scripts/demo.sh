#!/usr/bin/env bash
# What Quarry does for a running server, in less than a minute: memory that comes back, a look
# inside, a heap profile, and a leak by file and line. A step that lacks something says what, and
# the others go on. Every figure and every name is measured here and now.
#
#   scripts/demo.sh [PATH-OF-QUARRY]
set -uo pipefail
cd "$(dirname "$0")/.." || exit

quarry=${1:-${CARGO_TARGET_DIR:-target}/tools/quarry}
rest=${DEMO_REST:-10}            # seconds that both servers rest
requests=${DEMO_REQUESTS:-80000} # of each size, to each server
sizes=(64 3000 300 1500 100 2400 700 1000)
readonly COLUMNS_MAX=80
readonly MEMORY_KIB=$((1024 * 1024)) # what both servers need together, with room

bold='' dim='' glibc_color='' quarry_color='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' dim=$'\e[2m' glibc_color=$'\e[33m' quarry_color=$'\e[32m' plain=$'\e[0m'
fi

[[ -x $quarry ]] || { echo "demo: $quarry is not there: run 'make build' first" >&2; exit 1; }
# These variables of the reader's shell would change one of the two servers.
unset LD_PRELOAD "${!QUARRY_@}"

began=$SECONDS
scratch=$(mktemp -d) || exit
skipped=()
failed=()
step=0

# The jobs that are left are servers and clients of the demo, which have nothing to save.
clean_up() {
    trap '' INT TERM HUP
    # Otherwise bash would report each job as killed.
    exec 2> /dev/null
    local left
    left=$(jobs -pr)
    # shellcheck disable=SC2086
    [[ -z $left ]] || kill -KILL $left
    wait
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '    %s\n' "$*"; }

# step TITLE SEEN
step() {
    step=$((step + 1))
    printf '\n%s==> %d of 5  %s%s\n    %sTo be seen: %s%s\n\n' \
        "$bold" "$step" "$1" "$plain" "$dim" "$2" "$plain"
}

# indent: prints its input in lines that fit the screen.
indent() { fold -s -w "$((COLUMNS_MAX - 4))" | sed 's/^/    /; s/ *$//'; }

# skip WHY: the step cannot be shown here.
skip() {
    say "Skipped: $1."
    skipped+=("step $step: $1")
}

# broken WHY [LOG]: the step should have worked.
broken() {
    say "Failed: $1."
    [[ -z ${2:-} ]] || tail -n 5 "$2" | indent
    failed+=("step $step: $1")
}

has() { command -v "$1" > /dev/null; }
# Debian's servers lie in folders that are not in every user's PATH.
PATH=$PATH:/usr/sbin:/sbin

# attend COMMAND..: runs COMMAND so that signals are handled at once: while a command runs in the
# foreground, bash runs no trap.
attend() {
    "$@" &
    wait $!
}

# end PID: kills a process, and hides bash's report of it.
end() {
    kill -KILL "$1" 2> /dev/null
    wait "$1" 2> /dev/null
}

redis() {
    local name=$1
    shift
    redis-cli -s "$scratch/$name.socket" "$@" 2> /dev/null
}

# start_redis NAME COMMAND..: COMMAND becomes redis-server, whose number is left in $started.
start_redis() {
    local name=$1
    shift
    "$@" redis-server --port 0 --unixsocket "$scratch/$name.socket" --save '' --appendonly no \
        --dir "$scratch" --daemonize no > "$scratch/$name.log" 2>&1 &
    started=$!
    for _ in {1..200}; do
        [[ $(redis "$name" ping) != PONG ]] || return 0
        kill -0 "$started" 2> /dev/null || return 1
        attend sleep 0.05
    done
    return 1
}

resident_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status" 2> /dev/null || echo 0; }

# info NAME FIELD: a figure of the server's own statistics.
info() { redis "$1" info memory | tr -d '\r' | sed -n "s/^$2://p"; }

# replaced NAME: true if the allocator that redis-server is linked with holds next to none of the
# keys: then the preloaded one holds them. Of these allocators only jemalloc tells what it holds.
replaced() {
    local own used
    own=$(info "$1" allocator_allocated)
    used=$(info "$1" used_memory)
    [[ $linked == libc || ${own:-0} -lt $((${used:-0} / 20)) ]]
}

# both COMMAND..: runs a client for each server, both at the same time.
both() {
    local first
    "$@" -s "$scratch/glibc.socket" > "$scratch/client.log" 2>&1 &
    first=$!
    "$@" -s "$scratch/quarry.socket" > "$scratch/client.log" 2>&1 &
    wait $! && wait "$first"
}

# note_row NAME: adds a row with the present resident memory of both servers to the table.
note_row() {
    other_mib=$((($(resident_kib "$other") + 512) / 1024))
    ours_mib=$((($(resident_kib "$ours") + 512) / 1024))
    printf '    %-22s %14s %14s\n' "$1" "$other_mib" "$ours_mib" >> "$scratch/table"
}

# bar NAME MIB MOST COLOR
bar() {
    local length=$(($2 * 44 / ($3 > 0 ? $3 : 1))) marks
    printf -v marks '%*s' "$length" ''
    printf '    %-10s %s%s%s %d MiB\n' "$1" "$4" "${marks// /#}" "$plain" "$2"
}

load_both() {
    local size
    for size in "${sizes[@]}"; do
        both redis-benchmark -t set -n "$requests" -r 100000 -P 32 -d "$size" -q || return
    done
}

lacks_for_redis() {
    local available
    available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    if ! has redis-server; then
        echo "redis-server (Debian's redis-server)"
    elif ! has redis-cli || ! has redis-benchmark; then
        echo "redis-benchmark (Debian's redis-tools)"
    elif [[ ${available:-$MEMORY_KIB} -lt $MEMORY_KIB ]]; then
        echo "$((MEMORY_KIB / 1024)) MiB of free memory"
    fi
}

# start_both: starts one server on glibc and one on Quarry. Debian's redis-server is linked with
# jemalloc; if glibc is preloaded, the loader finds its malloc first.
start_both() {
    local libc
    linked=$(redis-server --version | sed -n 's/.* malloc=\([^ ]*\).*/\1/p')
    libc=$(ldd "$(command -v redis-server)" 2> /dev/null | awk '$1 == "libc.so.6" { print $3 }')
    other_name=glibc
    case $linked in
        libc) start_redis glibc env ;;
        jemalloc*) start_redis glibc env LD_PRELOAD="$libc" ;;
        # Such a server does not tell whether it runs on glibc, so it keeps its allocator.
        *) other_name=$linked; start_redis glibc env ;;
    esac || { broken "redis-server did not start" "$scratch/glibc.log"; return 1; }
    other=$started
    start_redis quarry env QUARRY_RECORD=live "$quarry" run -- \
        || { broken "redis-server did not start on Quarry" "$scratch/quarry.log"; return 1; }
    ours=$started
    if ! grep -q libquarry "/proc/$ours/maps" || grep -q libquarry "/proc/$other/maps"; then
        broken "Quarry is not in the one server, or in both"
        return 1
    fi
}

compare_memory() {
    start_both || return
    : > "$scratch/table"
    note_row "started"
    say "Both get $((requests * ${#sizes[@]} / 1000))k SETs of 64 to 3000 bytes to 100k keys .."
    load_both || { broken "redis-benchmark ended early" "$scratch/client.log"; return 1; }
    note_row "loaded"
    local other_loaded=$other_mib ours_loaded=$ours_mib
    if ! replaced quarry; then
        broken "this redis-server keeps its own allocator, $linked"
        return 1
    fi
    if [[ $other_name == glibc ]] && ! replaced glibc; then
        other_name=$linked
        say "(This redis-server keeps its own allocator, $linked: that is compared with.)"
    fi
    redis glibc flushall > "$scratch/client.log" && redis quarry flushall > "$scratch/client.log"
    note_row "all keys deleted"
    if [[ $(redis glibc dbsize)/$(redis quarry dbsize) != 0/0 ]]; then
        broken "keys are left"
        return 1
    fi
    say ".. all keys are deleted, and both rest for $rest seconds."
    attend sleep "$rest"
    note_row "after the rest"
    printf '\n%s    %-22s %14s %14s%s\n' "$bold" "resident memory, MiB" \
        "$other_name" Quarry "$plain"
    cat "$scratch/table"
    local most=$((other_mib > ours_mib ? other_mib : ours_mib))
    echo
    bar "$other_name" "$other_mib" "$most" "$glibc_color"
    bar Quarry "$ours_mib" "$most" "$quarry_color"
    printf '\n    Given back: %s %d %%, Quarry %d %% of what it had when loaded.\n' "$other_name" \
        "$(((other_loaded - other_mib) * 100 / other_loaded))" \
        "$(((ours_loaded - ours_mib) * 100 / ours_loaded))"
    if ((ours_loaded > other_loaded)); then
        say "(Loaded, Quarry holds more, as do other allocators with size classes: the"
        say "values change their sizes, and a slab is free with its last object only.)"
    fi
}

# The places of the columns follow from their heads. The two rates need a second look, and are left
# out: without them, and with less room for names, the table is 72 characters wide.
show_top() {
    attend "$quarry" top --once --pid "$ours" > "$scratch/top" 2>&1 \
        || { broken "quarry top" "$scratch/top"; return; }
    sed '/^NAME/,$d' "$scratch/top" | indent
    awk -v width="$COLUMNS_MAX" -v bold="$bold" -v plain="$plain" '
        /^NAME/ { size = index($0, "SIZE") - 3; rate = index($0, " ALLOC/s"); fast = rate + 16 }
        size && rows < 9 {
            row = sprintf("    %-14.14s%s%s", $1, substr($0, size - 1, rate - size + 1),
                substr($0, fast))
            print rows++ ? substr(row, 1, width) : bold row plain
        }' "$scratch/top"
}

# Prints a line for each call chain: its first three callers above the wrappers of malloc. Chains
# that differ only beyond these three are added up.
show_profile() {
    attend "$quarry" profile --pid "$ours" --seconds 3 --mean 65536 --view alloc --top 100 \
        > "$scratch/profile" 2>&1 || { broken "quarry profile" "$scratch/profile"; return; }
    head -n 1 "$scratch/profile" | indent
    echo
    awk '
        function keep() { if (chain) { bytes[chain] += amount; share[chain] += percent } }
        BEGIN {
            unit["MiB"] = 1; unit["GiB"] = 1024
            unit["KiB"] = 1 / 1024; unit["B"] = 1 / 1048576
        }
        /^[0-9].*\(.*%\)/ {
            keep()
            chain = ""; callers = 0; amount = $1 * unit[$2]
            match($0, /\([0-9.]+/); percent = substr($0, RSTART + 1, RLENGTH - 1)
        }
        /^    [^.]/ && !(callers == 0 && $1 ~ /^z?(m|c|re|try)[a-z]*alloc/) && callers < 3 {
            chain = chain (callers++ ? " < " : "") $1
        }
        END {
            keep()
            for (chain in bytes)
                printf "%.1f\t%.1f\t%s\n", bytes[chain], share[chain], chain
        }' "$scratch/profile" | sort -nr | head -n 5 > "$scratch/sites"
    printf '%s    %8s %7s  %s%s\n' "$bold" MiB share "function < its callers" "$plain"
    awk -F '\t' -v width="$COLUMNS_MAX" '{
        print substr(sprintf("    %8s %5s %%  %s", $1, $2, $3), 1, width)
    }' "$scratch/sites"
    ! grep -q '+0x' "$scratch/sites" \
        || say "(FILE+0x.. is a function whose name this redis-server does not have.)"
}

find_leak() {
    local planted found
    cc -g -o "$scratch/leak" scripts/demo/leak.c > "$scratch/cc.log" 2>&1 \
        || { broken "cc does not compile scripts/demo/leak.c" "$scratch/cc.log"; return; }
    say "\$ QUARRY_PROFILE=leak.raw quarry run -- ./leak"
    say "\$ quarry profile leak.raw"
    {
        QUARRY_PROFILE=$scratch/leak.raw attend "$quarry" run -- "$scratch/leak"
        attend "$quarry" profile --top 1 "$scratch/leak.raw"
    } > "$scratch/leaks" 2>&1 || { broken "no profile of the leak" "$scratch/leaks"; return; }
    # The names of files are absolute; the path of this tree is cut off.
    sed -n '/^[0-9].*%)/,/^    main/p' "$scratch/leaks" | sed "s|$PWD/||" | indent
    planted=$(awk '/planted:/ { print NR }' scripts/demo/leak.c)
    found=$(sed -n 's/.*leak\.c:\([0-9]*\)$/\1/p' "$scratch/leaks" | head -n 1)
    if [[ $found != "$planted" ]]; then
        broken "the leak is in line $planted, and was not found there"
        return
    fi
    echo
    printf '    %sline %d: %s%s\n' "$quarry_color" "$found" \
        "$(sed -n "${found}s/^ *//p" scripts/demo/leak.c)" "$plain"
}

missing=$(lacks_for_redis)
other='' ours='' is_loaded=
step "redis-server on glibc and on Quarry, side by side" \
    "who gives memory back once all keys are gone"
if [[ -n $missing ]]; then
    skip "$missing is missing"
elif compare_memory; then
    end "$other"
    # The next two steps look at a server under load; the client ends with the server.
    redis-benchmark -s "$scratch/quarry.socket" -t set,lpush,lpop,sadd,hset,zadd -l -n 100000 \
        -r 100000 -P 32 -d 700 -q > "$scratch/client.log" 2>&1 &
    client=$!
    is_loaded=yes
    attend sleep 2
fi

step "quarry top of the running server" \
    "where its memory is, by size, from outside and without a restart"
if [[ -z $is_loaded ]]; then
    skip "${missing:-a server on Quarry} is missing"
else
    show_top
fi

step "a heap profile of the server while it works, for 3 seconds" \
    "the five call sites that allocate most, by name"
if [[ -z $is_loaded ]]; then
    skip "${missing:-a server on Quarry} is missing"
else
    show_profile
    end "$client"
    end "$ours"
fi

step "a leak in a small C program" "its file and line, from one command after its run"
if has cc; then
    find_leak
else
    skip "cc (Debian's gcc) is missing"
fi

step "yours" "three commands to try next"
say "$quarry run --stats -- ls -lR /usr/share"
say "    a program on Quarry, with statistics at its end"
say "$quarry advise -- YOUR-PROGRAM"
say "    which allocator it should have"
say "make demo-lab"
say "    an experiment of kernel developers, in two minutes"

printf '\n%s==> the demo took %d seconds%s\n' "$bold" "$((SECONDS - began))" "$plain"
for why in "${skipped[@]}"; do
    say "skipped: $why"
done
for why in "${failed[@]}"; do
    say "failed: $why"
done
[[ ${#failed[@]} == 0 ]]
