#!/usr/bin/env bash
# Runs what finds more the longer it runs, and records it: `make soak SOAK=NAME MINUTES=120`.
#
#   idle      servers that had a burst and then idle: their memory, and how often they wake
#   owners    the bytes and the owner of every object, on every library and in every mode
#   services  PostgreSQL, redis and memcached under load and disturbed, and killed again and again
#   suites    property tests, models, real programs and the tests of other allocators, in rounds
#
# Stops at the first failure. The record is target/soak/NAME.jsonl, also of a run that was stopped;
# `owners` and `services` go on with it if it has no result. `python3 scripts/soak/log.py FILE`
# makes a row of docs/results/soak.md of it.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${SOAK:-suites}
minutes=${MINUTES:-120}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "MINUTES=$minutes: minutes, from 1 on" >&2; exit 2; }
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
record=$target/soak/$name.jsonl
if [[ -e $record ]] && tail -n 1 "$record" | grep -q '"result"\|"failed"'; then
    rm "$record"
fi

case $name in
    idle | owners | services)
        missing=(build)
        [[ $name != owners ]] || missing+=(policies)
        make --no-print-directory "${missing[@]}"
        exec python3 "scripts/soak/$name.py" "$target/release" "$minutes" "$record"
        ;;
    suites) ;;
    *)
        echo "SOAK=$name: idle, owners, services and suites are accepted" >&2
        exit 2
        ;;
esac

end=$((SECONDS + minutes * 60))
noted=$SECONDS
# say WHAT: on the terminal.  note ROUNDS [RESULT]: in the record.
say() { printf '==> %s (%d of %d minutes)\n' "$*" $((SECONDS / 60)) "$minutes"; }
note() {
    python3 scripts/soak/log.py --note "$record" suites $((SECONDS - noted)) "$1 rounds" "${@:2}"
    noted=$SECONDS
}

scripts/setup.sh test
scripts/setup.sh foreign
make --no-print-directory build
QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so")
export QUARRY_LIBRARY

rm -f "$record"
rounds=0
note 0
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
    note "$rounds"
done
note "$rounds" passed
say "done: $rounds rounds, nothing failed"
