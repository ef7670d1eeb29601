#!/usr/bin/env bash
# Runs everything that must hold before a change is merged, as .ci/run and `make test` do.
#
#   scripts/test.sh            all steps
#   scripts/test.sh --list     their names
#   scripts/test.sh STEP..     some of them
#   scripts/test.sh quick      the loop while you write: the core and what it stands on
#
# All steps run, also after one has failed. The table at the end has the seconds of each step, those
# of the CPUs in parentheses, and counts the checks that passed and failed: each test is one, and so
# is a step without tests.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

target=${CARGO_TARGET_DIR:-target}
logs=$target/test-logs
# Exit status of a step that cannot run here.
readonly SKIPPED=77
# The crates whose code depends on `quarry_no_rseq`; those between them are compiled as well. All
# others see the same functions with and without it.
readonly SEQUENCED=(-p quarry-sys -p quarry-preload)
readonly CORE=(-p quarry-sys -p quarry-core -p quarry-alloc -p quarry-tidy)

steps=(
    "setup      install what is missing"
    "scripts    syntax of the shell scripts"
    "format     cargo fmt --check"
    "aarch64    libquarry.so for aarch64, and a program on it under qemu"
    "clippy     clippy, warnings are errors"
    "no-rseq    clippy and sys tests without restartable sequences"
    "sim        the seam of quarry-sys, and the simulated machine"
    "docs       cargo doc, warnings are errors"
    "build      release build of the shared objects and the command"
    "test       unit, property and integration tests"
    "programs   redis, CPython, gcc and sqlite on libquarry.so"
    "policies   the ABI, threads, forks, misuse and real programs on each libquarry-NAME.so"
    "install    Debian packages built, installed, used and removed; crates packaged"
    "outside    caches of others, and engines on Quarry's page cache, in their own workspace"
    "bench      experiments run and print their tables"
    "model      model checker: every interleaving of the small cases"
    "checker    the core under the strictest memory checker at hand"
    "slurm      a sweep as a job array that loses a shard, on a cluster of one node"
    "licences   licences, bans and sources of all packages"
)
# These wait more than they compute or keep one CPU busy: they run beside the steps after them, and
# their output comes at the end. Neither needs what those steps build.
readonly BESIDE=" aarch64 bench "

step_setup() { scripts/setup.sh test; }

step_scripts() {
    local script
    for script in scripts/*.sh scripts/foreign/*.sh scripts/programs/*.sh scripts/programs/*.inc \
        .ci/run; do
        bash -n "$script" || return
    done
    if command -v shellcheck > /dev/null; then
        shellcheck scripts/*.sh .ci/run
    fi
}

step_format() { cargo fmt --all --check; }

step_clippy() {
    cargo clippy --workspace --all-targets -- -D warnings \
        && QUARRY_BUILD_SLAB=slub-4.9 cargo clippy -p quarry-preload -- -D warnings
}

step_no_rseq() {
    local -x RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_no_rseq" CARGO_TARGET_DIR=$target/no-rseq
    cargo clippy "${SEQUENCED[@]}" --all-targets -- -D warnings && cargo test -p quarry-sys
}

step_sim() {
    local -x RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_sim" CARGO_TARGET_DIR=$target/sim
    local on_machine=(-p quarry-sim -p quarry-predict
        --features quarry-sim/machine,quarry-predict/machine)
    cargo clippy -p quarry-sys -p quarry-core --lib -- -D warnings \
        && cargo clippy -p quarry-sys --test simulated -- -D warnings \
        && cargo clippy "${on_machine[@]}" --all-targets -- -D warnings \
        && cargo test -p quarry-sys --test simulated \
        && cargo test "${on_machine[@]}"
}

step_aarch64() { scripts/aarch64.sh; }

step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps; }

step_build() { make --no-print-directory build; }

step_test() {
    local -x QUARRY_LIBRARY
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so") || return
    local status=0
    # Only this package has steps of its own for its modules; others have modules of that name too.
    cargo test -p quarry-preload --test main -- --skip programs:: || status=1
    cargo test --workspace --exclude quarry-preload --no-fail-fast || status=1
    return $status
}

step_programs() {
    local -x QUARRY_LIBRARY
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so") || return
    cargo test -p quarry-preload --test main programs:: -- --skip programs::short::
}

# What an allocator owes to every program, under each slab policy. Skipped are accounts that only
# the default policy keeps, stray writes that not every policy survives, and what tries all
# libraries at once.
step_policies() {
    local slab status=0
    local -x QUARRY_LIBRARY
    for slab in $(make -s slabs); do
        echo "==> libquarry-$slab.so"
        QUARRY_LIBRARY=$(realpath "$target/release/libquarry-$slab.so") || return
        cargo test -p quarry-preload --test main -- abi:: caches:: life:: misuse:: \
            sequences:: programs::short:: \
            --skip of_their_own --skip stray_writes --skip kinds_of_misuse \
            || status=1
    done
    return $status
}

step_install() {
    make --no-print-directory deb && scripts/deb-test.sh && scripts/crates-test.sh
}

# Their target is that of `make caches`.
step_outside() {
    local -x CARGO_TARGET_DIR=$PWD/$target/outside
    [[ $target != /* ]] || CARGO_TARGET_DIR=$target/outside
    local manifest=(--locked --manifest-path outside/Cargo.toml)
    cargo fmt --manifest-path outside/Cargo.toml --all --check \
        && cargo clippy --release "${manifest[@]}" --workspace --all-targets -- -D warnings \
        && cargo test --release "${manifest[@]}" --workspace
}

step_model() { scripts/model.sh; }

step_checker() { scripts/check-core.sh; }

# It skips itself where Slurm cannot be installed.
step_slurm() { scripts/slurm.sh; }

step_licences() {
    if cargo deny --version > /dev/null 2>&1; then
        echo "with cargo-deny"
        cargo deny --offline check licenses bans sources
    else
        echo "with the test of crates/tidy: cargo-deny is not installed"
        cargo test -p quarry-tidy --test licences
    fi
}

step_quick() {
    # Fewer cases of the property tests than the step `test` has.
    local -x PROPTEST_CASES=${PROPTEST_CASES:-16}
    cargo fmt --all --check && cargo clippy "${CORE[@]}" --all-targets -- -D warnings \
        && cargo test "${CORE[@]}" --lib --tests
}

step_bench() { make --no-print-directory bench-smoke; }

# Sum of the numbers in front of "passed" or "failed" in a log of cargo test.
counted() {
    sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$2" | awk '{s += $1} END {print +s}'
}

# run_step NAME: its output goes to standard output and to $logs/NAME.log, its exit status and its
# seconds, of the clock and of the CPUs, to $logs/NAME.end.
run_step() {
    local name=$1 start=$SECONDS status TIMEFORMAT='%U %S'
    { time "step_${name//-/_}" 2>&1 < /dev/null; } 2> "$logs/$name.time" | tee "$logs/$name.log"
    status=${PIPESTATUS[0]}
    awk -v status="$status" -v seconds=$((SECONDS - start)) \
        'END { printf "%d %d %d\n", status, seconds, $1 + $2 }' "$logs/$name.time" \
        > "$logs/$name.end"
}

# why_failed NAME: a line for each test that failed, or else the last lines of the step.
why_failed() {
    local log=$logs/$1.log
    if grep -q '^test .* FAILED$' "$log"; then
        sed -n "s/^test \\(.*\\) \\.\\.\\. FAILED\$/$1 failed: \\1/p" "$log" | sort -u
    else
        tail -n 4 "$log" | cut -c -300 | sed "s/^/$1 failed: /"
    fi
}

passed=0
failed=0
table=()
ran=()
broken=()
# report NAME TITLE: adds a line to the table.
report() {
    local log=$logs/$1.log status seconds cpu result ok bad
    read -r status seconds cpu < "$logs/$1.end"
    ok=$(counted passed "$log")
    bad=$(counted failed "$log")
    if [[ $status == "$SKIPPED" ]]; then
        result=skipped
    elif [[ $status == 0 ]]; then
        result=ok
        ((ok + bad == 0)) && ok=1
    else
        result=FAILED
        ((bad == 0)) && bad=1
        broken+=("$1")
    fi
    ran+=("$log")
    passed=$((passed + ok))
    failed=$((failed + bad))
    table+=("$(printf '%-9s %-7s %5d s (%4d) %6d passed %4d failed  %s' \
        "$1" "$result" "$seconds" "$cpu" "$ok" "$bad" "$2")")
}

if [[ ${1:-} == --list ]]; then
    printf '%s\n' "${steps[@]}"
    exit 0
fi
if [[ $* == quick ]]; then
    steps=("quick      format, clippy and tests of the core and what it stands on")
fi
wanted=" $* "
for name in "$@"; do
    if [[ " ${steps[*]%% *} " != *" $name "* ]]; then
        echo "test.sh: no step '$name'; steps are: ${steps[*]%% *}, or quick alone" >&2
        exit 2
    fi
done

mkdir -p "$logs"
beside=()
for step in "${steps[@]}"; do
    read -r name title <<< "$step"
    [[ $# == 0 || $wanted == *" $name "* ]] || continue
    rm -f "$logs/$name.end"
    if [[ $BESIDE == *" $name "* ]]; then
        printf '\n==> %s: %s, beside the next steps\n' "$name" "$title"
        run_step "$name" > /dev/null &
        beside+=("$step")
    else
        printf '\n==> %s: %s\n' "$name" "$title"
        run_step "$name"
    fi
done
wait
for step in "${beside[@]}"; do
    read -r name title <<< "$step"
    printf '\n==> %s: %s\n' "$name" "$title"
    cat "$logs/$name.log"
done
for step in "${steps[@]}"; do
    read -r name title <<< "$step"
    [[ $# == 0 || $wanted == *" $name "* ]] && report "$name" "$title"
done

printf '\n'
printf '%s\n' "${table[@]}"
# Tests say what could not run here.
sed -n 's/.*\(skipped: .*\)/\1/p' "${ran[@]}" | sort -u
for name in "${broken[@]}"; do
    why_failed "$name"
done
printf '%d seconds; logs in %s\n' "$SECONDS" "$logs"
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
