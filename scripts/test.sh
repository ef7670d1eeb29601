#!/usr/bin/env bash
# Everything that must hold before a change is merged; .ci/run runs it and so does `make test`.
#
#   scripts/test.sh            all steps
#   scripts/test.sh --list     their names
#   scripts/test.sh STEP..     some of them
#
# All steps run, also after one has failed. At the end: a table of steps and seconds, and the number
# of checks that passed and failed (a step that runs tests counts each of them).
set -uo pipefail
cd "$(dirname "$0")/.." || exit

target=${CARGO_TARGET_DIR:-target}
logs=$target/test-logs
# Exit status of a step that cannot run here.
readonly SKIPPED=77

steps=(
    "setup      install what is missing"
    "scripts    syntax of the shell scripts"
    "format     cargo fmt --check"
    "clippy     clippy, warnings are errors"
    "no-rseq    clippy and sys tests without restartable sequences"
    "aarch64    libquarry.so for aarch64, and a program on it under qemu"
    "docs       cargo doc, warnings are errors"
    "build      release build of the shared object and the command"
    "test       unit, property and integration tests"
    "programs   redis, CPython, gcc and sqlite on libquarry.so"
    "model      model checker: every interleaving of the small cases"
    "checker    the core under the strictest memory checker at hand"
    "licences   licences, bans and sources of all packages"
    "bench      experiments run and print their tables"
)

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
        && QUARRY_BUILD_SLAB=slub cargo clippy -p quarry-preload -- -D warnings
}

step_no_rseq() {
    local -x RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_no_rseq" CARGO_TARGET_DIR=$target/no-rseq
    cargo clippy --workspace --all-targets -- -D warnings \
        && cargo test -p quarry-sys
}

step_aarch64() { scripts/aarch64.sh; }

step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps; }

step_build() { make --no-print-directory build; }

step_test() {
    local -x QUARRY_LIBRARY
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so") || return
    cargo test --workspace --no-fail-fast -- --skip programs:: || return
    # The other policy keeps other accounts.
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry-slub.so") || return
    cargo test -p quarry-preload --test main abi::
}

step_programs() {
    local -x QUARRY_LIBRARY
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so") || return
    cargo test -p quarry-preload --test main programs::
}

step_model() { scripts/model.sh; }

step_checker() { scripts/check-core.sh; }

step_licences() {
    if cargo deny --version > /dev/null 2>&1; then
        echo "with cargo-deny"
        cargo deny --offline check licenses bans sources
    else
        echo "with the test of crates/tidy: cargo-deny is not installed"
        cargo test -p quarry-tidy --test licences
    fi
}

step_bench() { make --no-print-directory bench-smoke; }

# Sum of the numbers in front of "passed" or "failed" in a log of cargo test.
counted() {
    sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$2" | awk '{s += $1} END {print +s}'
}

passed=0
failed=0
table=()
ran=()
run_step() {
    local name=$1 title=$2 log=$logs/$1.log start=$SECONDS status result
    printf '\n==> %s: %s\n' "$name" "$title"
    "step_${name//-/_}" 2>&1 < /dev/null | tee "$log"
    status=${PIPESTATUS[0]}
    local ok=0 bad=0
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
    fi
    ran+=("$log")
    passed=$((passed + ok))
    failed=$((failed + bad))
    table+=("$(printf '%-9s %-7s %5d s %6d passed %4d failed  %s' \
        "$name" "$result" $((SECONDS - start)) "$ok" "$bad" "$title")")
}

if [[ ${1:-} == --list ]]; then
    printf '%s\n' "${steps[@]}"
    exit 0
fi
wanted=" $* "
for name in "$@"; do
    if [[ " ${steps[*]%% *} " != *" $name "* ]]; then
        echo "test.sh: no step '$name'; steps are: ${steps[*]%% *}" >&2
        exit 2
    fi
done

mkdir -p "$logs"
for step in "${steps[@]}"; do
    read -r name title <<< "$step"
    if [[ $# == 0 || $wanted == *" $name "* ]]; then
        run_step "$name" "$title"
    fi
done

printf '\n'
printf '%s\n' "${table[@]}"
# What tests say that could not run here.
sed -n 's/.*\(skipped: .*\)/\1/p' "${ran[@]}" | sort -u
printf '%d seconds; logs in %s\n' "$SECONDS" "$logs"
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
