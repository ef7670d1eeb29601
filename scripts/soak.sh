#!/usr/bin/env bash
# Runs the tests that find more the longer they run, for SOAK_MINUTES (default 60): the stress
# programs with fresh seeds, the property tests with fresh cases, the real programs and the tests of
# other allocators again and again. Stops at the first failure; the output holds its seed.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${SOAK_MINUTES:-60}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "SOAK_MINUTES=$minutes: minutes, from 1 on" >&2; exit 2; }
end=$((SECONDS + minutes * 60))
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

say() { printf '==> %s (%d of %d minutes)\n' "$*" $((SECONDS / 60)) "$minutes"; }

scripts/setup.sh test
scripts/setup.sh foreign
make --no-print-directory build
QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so")
export QUARRY_LIBRARY

say "stress with fresh seeds for a third of the time"
QUARRY_SOAK_SECONDS=$((minutes * 20)) \
    cargo test -p quarry-preload --test main stress::soak -- --nocapture

rounds=0
while ((SECONDS < end)); do
    rounds=$((rounds + 1))
    say "round $rounds: property tests"
    (
        export PROPTEST_CASES=${PROPTEST_CASES:-5000} QUARRY_TEST_ROUNDS=${QUARRY_TEST_ROUNDS:-20}
        export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_TARGET_DIR=$target/soak
        cargo test -p quarry-sys -p quarry-mm -p quarry-cache -p quarry-watch
        cd lab
        cargo test -p quarry-eras
    )
    say "round $rounds: model checker"
    QUARRY_MODEL_RUNS=${QUARRY_MODEL_RUNS:-50000} scripts/model.sh
    say "round $rounds: real programs"
    cargo test -p quarry-preload --test main programs::
    say "round $rounds: the tests of other allocators, and stress-ng"
    STRESS_SECONDS=${STRESS_SECONDS:-30} scripts/foreign.sh glibc mimalloc jemalloc stress-ng
done
say "done: $rounds rounds, nothing failed"
