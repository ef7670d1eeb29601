#!/usr/bin/env bash
# Runs the tests of other allocators on Quarry: those of glibc, mimalloc and jemalloc from Debian's
# source packages, and stress-ng; the defragmentation of Valkey; and the test suites of crates. They
# are fetched into target/foreign and built there; nothing of them is committed. Prints a line per
# test that does not pass or does not apply, and their counts.
#
#   scripts/foreign.sh [glibc] [mimalloc] [jemalloc] [valkey] [stress-ng] [crates]
#
# QUARRY_LIBRARY names another shared object, STRESS_SECONDS how long each part of stress-ng runs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

target=$(realpath "${CARGO_TARGET_DIR:-target}")
library=$(realpath "${QUARRY_LIBRARY:-$target/release/libquarry.so}")
place=$target/foreign
output=$place/output.$$
seconds=${STRESS_SECONDS:-30}
export LC_ALL=C
[[ -e $library ]] || { echo "foreign: $library is not there: run 'make build' first" >&2; exit 1; }
mkdir -p "$place"

source scripts/foreign/fetch.sh

passed=0 failed=0 apart=0
unexpected=0
# Tests that are known to fail, and why. They count as failed, and do not end a soak.
known_to_fail() {
    case $1 in
        tst-tcfree2) echo 'freed again after 19 others: see docs/safety.md' ;;
        mallocx | xallocx) echo 'its parts with arenas.create: Quarry has no arenas' ;;
        rallocx) echo 'its part about sizes: a block that was larger may keep headroom' ;;
        *) return 1 ;;
    esac
}
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf '  %s: FAILED: %s\n' "$@"
    if known_to_fail "$1" > /dev/null; then
        printf '    known: %s\n' "$(known_to_fail "$1")"
    else
        unexpected=$((unexpected + 1))
    fi
}
# inapplicable NAME REASON: counts a test that only the allocator it was written for can pass.
inapplicable() { apart=$((apart + 1)); printf '  %s: does not apply: %s\n' "$@"; }
suite() { passed=0 failed=0 apart=0; printf '%s\n' "$1"; }
counts() { printf '  %d passed, %d failed, %d do not apply\n' $passed $failed $apart; }

# on_quarry NAME LIMIT COMMAND..: runs a test on the library; it passes if it ends with $wanted.
wanted=0
on_quarry() {
    local name=$1 limit=$2 status=0
    shift 2
    LD_PRELOAD=$library timeout -k 5 "$limit" "$@" > "$output" 2>&1 < /dev/null || status=$?
    case $status in
        "$wanted") pass ;;
        77) inapplicable "$name" "it says so itself: $(tail -n1 "$output")" ;;
        *) fail "$name" "status $status: $(grep -v '^$' "$output" | tail -n1)" ;;
    esac
}

source scripts/foreign/glibc.sh
source scripts/foreign/others.sh
source scripts/foreign/valkey.sh
source scripts/foreign/crates.sh

suites=("$@")
((${#suites[@]})) || suites=(glibc mimalloc jemalloc valkey stress-ng crates)
for name in "${suites[@]}"; do
    case $name in
        glibc | mimalloc | jemalloc) fetch "$name" || { unexpected=1; continue; } ;;
        valkey) fetch valkey sid || { echo 'skipped: valkey: no source package'; continue; } ;;
        stress-ng | crates) ;;
        *)
            echo "foreign: no suite '$name'; one of glibc mimalloc jemalloc valkey stress-ng" \
                "crates" >&2
            exit 2
            ;;
    esac
    "suite_${name//-/_}"
done
rm -f "$output"
((unexpected == 0))
