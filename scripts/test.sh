#!/usr/bin/env bash
# Runs what must hold before a change is merged, as .ci/run and `make test` do; with --all it runs
# everything there is to test, as `make test-all` does before a release.
#
#   scripts/test.sh [--all]            all steps
#   scripts/test.sh [--all] --list     their names
#   scripts/test.sh [--all] STEP..     some of them
#   scripts/test.sh quick              the loop while you write: the core and what it stands on
#
# All steps run, also after one has failed. The table at the end has the seconds of each step, those
# of the CPUs in parentheses, and counts the checks that passed and failed: each test is one, and so
# is a step without tests. A whole run of --all adds a line to docs/results/test-all.md.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

all=
if [[ ${1:-} == --all ]]; then
    all=yes
    shift
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# In the lab, too, which lies in another folder.
[[ -z ${CARGO_TARGET_DIR:-} ]] || export CARGO_TARGET_DIR=$target
logs=$target/test-logs
# Where scripts/setup.sh puts cargo-nextest.
PATH=$target/nextest/bin:$PATH
# Not incremental, as in continuous integration: incremental builds cost time and disk space here.
[[ $* == quick ]] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# Random cases of each property test; proptest's own number is 256.
[[ -n $all ]] || export PROPTEST_CASES=${PROPTEST_CASES:-32}
# Tests in which the n-th request fails let only every fourth fail.
[[ -n $all ]] || export TEST_STEP=${TEST_STEP:-4}
# Exit status of a step that cannot run here.
readonly SKIPPED=77
# The crates whose code depends on `quarry_no_rseq`; the crates between them are compiled as well.
# All other crates see the same functions with and without it.
readonly SEQUENCED=(-p quarry-sys -p quarry-preload)
# The packages of the lab that a change of the product can break: the gate only checks them.
readonly LAB=(-p quarry-eras -p quarry-lab -p quarry-library -p quarry-library-alloc
    -p quarry-library-mm -p quarry-predict -p quarry-replay -p quarry-sim -p quarry-sqlite-load)
readonly CORE=(-p quarry-sys -p quarry-mm -p quarry-cache -p quarry-watch -p quarry-alloc
    -p quarry-tidy)

# Brackets name the step that builds the files that a step needs; if these are missing, the step
# builds them itself.
steps=(
    "setup      install what is missing"
    "scripts    syntax of the shell scripts"
    "format     cargo fmt --check"
    "clippy     clippy of the product and the bench, warnings are errors; a check of the lab"
    "build      libquarry.so and libquarry-full.so, as released"
    "sim        the seam of quarry-sys with a simulated machine"
    "test       unit, property and integration tests [build]"
    "programs   redis, CPython, gcc and sqlite on libquarry.so [build]"
    "model      model checker: planted bugs, and one schedule of every small case"
    "licences   licences, bans and sources of all packages"
)
steps_of_all=(
    "setup      install what is missing"
    "scripts    syntax of the shell scripts"
    "format     cargo fmt --check"
    "aarch64    libquarry.so for aarch64, in emulated machines with pages of 4, 16 and 64 KiB"
    "musl       the ABI on libquarry-musl.so, and static programs for musl"
    "clippy     clippy of everything, also with other policies, seams and sequences"
    "no-rseq    sys tests without restartable sequences"
    "sim        the seam of quarry-sys, and the simulated machine"
    "docs       cargo doc, warnings are errors"
    "build      libquarry.so and the command, as released"
    "lab        the lab and the shared objects of the other policies [build]"
    "test       unit, property and integration tests [build]"
    "programs   redis, CPython, gcc and sqlite on libquarry.so [build]"
    "policies   the ABI, threads, forks, misuse and programs on each libquarry-NAME.so [lab]"
    "install    Debian packages and an image, built, used and removed; crates packaged [lab]"
    "packages   a wheel and a package for npm, built twice, installed, used and removed"
    "lab-tests  tests of the lab, and of engines on Quarry's page cache [lab]"
    "nodes      libquarry-full.so in emulated machines with several NUMA nodes [build]"
    "one-heap   RocksDB, SQLite and zstd in a program in Rust, on one heap [build]"
    "probes     samples by the kernel's uprobes, beside the heap profile's [build]"
    "pinned     memory that redis pins, by call site, beside redis's own figure [build]"
    "services   Python, Node and Ruby services answer on Quarry as on glibc [build]"
    "deploy     the dashboard, the alerts and the manifests of docs/deploy, by their schemas"
    "tenants    queries of DataFusion in groups: spills, errors and charges"
    "bench      experiments run and print their tables [lab]"
    "model      model checker: every interleaving of the small cases"
    "checker    the core under the strictest memory checker at hand"
    "slurm      a sweep as a job array that loses a shard, on a cluster of one node [lab]"
    "licences   licences, bans and sources of all packages"
)
[[ -z $all ]] || steps=("${steps_of_all[@]}")
# These steps mostly wait, or keep only one CPU busy: they run at the same time as the steps after
# them, and their output is printed at the end.
readonly BESIDE=" aarch64 nodes bench "

step_setup() { scripts/setup.sh test; }

step_scripts() {
    local script
    for script in scripts/*.sh scripts/foreign/*.sh scripts/programs/*.sh scripts/programs/*.inc \
        scripts/*.inc scripts/aarch64/*.sh scripts/aarch64/*.inc \
        .ci/run; do
        bash -n "$script" || return
    done
    if command -v shellcheck > /dev/null; then
        shellcheck scripts/*.sh .ci/run
    fi
}

# in_lab COMMAND..: runs COMMAND in the lab's workspace, which shares the target folder.
in_lab() (cd lab && "$@")

step_format() { cargo fmt --all --check && in_lab cargo fmt --all --check; }

# The packages that are checked or tested as the simulated machine.
readonly ON_MACHINE=(-p quarry-sim -p quarry-predict
    --features quarry-sim/machine,quarry-predict/machine)

# with_cfg NAME COMMAND..: runs COMMAND with `--cfg quarry_NAME`, in a target folder for that flag.
with_cfg() {
    local -x RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_$1" CARGO_TARGET_DIR=$target/${1//_/-}
    "${@:2}"
}

# clippy PACKAGES..: runs cargo clippy, with warnings as errors.
clippy() { cargo clippy "$@" -- -D warnings; }

step_clippy() {
    clippy --workspace --all-targets || return
    if [[ -z $all ]]; then
        in_lab cargo check "${LAB[@]}"
        return
    fi
    in_lab clippy --workspace --all-targets || return
    QUARRY_BUILD_SLAB=slub-4.9 in_lab clippy -p quarry-library -p quarry-library-alloc \
        && with_cfg no_rseq clippy "${SEQUENCED[@]}" --all-targets \
        && with_cfg sim clippy -p quarry-sys -p quarry-mm -p quarry-cache -p quarry-watch --lib \
        && with_cfg sim in_lab clippy -p quarry-eras --lib \
        && with_cfg sim clippy -p quarry-sys --test simulated \
        && with_cfg sim in_lab clippy "${ON_MACHINE[@]}" --all-targets
}

step_no_rseq() { with_cfg no_rseq cargo test -p quarry-sys; }

step_sim() {
    with_cfg sim cargo test -p quarry-sys --test simulated || return
    [[ -z $all ]] || with_cfg sim in_lab cargo test "${ON_MACHINE[@]}"
}

step_musl() { scripts/musl.sh --test; }

# scripts/aarch64.sh skips the emulated machines where Debian's packages for arm64 cannot be had.
step_aarch64() { scripts/setup.sh aarch64; scripts/aarch64.sh --system; }

# scripts/nodes.sh skips the step where qemu or Debian's kernel cannot be had.
step_nodes() {
    scripts/setup.sh nodes
    built stripped-libraries release/libquarry-full.so && scripts/nodes.sh
}

# The crate also with fewer features: a link to what needs a feature is broken without it.
step_docs() {
    local -x RUSTDOCFLAGS="-D warnings"
    cargo doc --workspace --no-deps && in_lab cargo doc --workspace --no-deps \
        && cargo doc --no-deps -p quarry-alloc \
        && cargo doc --no-deps -p quarry-alloc --no-default-features --features page-cache
}

step_build() {
    local goal=build
    [[ -n $all ]] || goal=stripped-libraries
    make --no-print-directory $goal
}

step_lab() { make --no-print-directory lab policies; }

# built GOAL FILE: makes GOAL if FILE is missing, because no earlier step has made it.
built() { [[ -e $target/$2 ]] || make --no-print-directory "$1"; }

# library: names the shared object that the tests preload.
library() {
    built stripped-libraries release/libquarry.so || return
    export QUARRY_LIBRARY
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry.so")
}

# preload_tests ARGUMENT..: the tests of quarry-preload, in one process, because they share what
# they compile. No other package has tests called `main`. (With `-p` in place of `--workspace`,
# packages would have fewer features here than in the other tests, and would be compiled twice.)
preload_tests() { cargo test --workspace --test main -- "$@"; }

# abi_tests ARGUMENT..: preload_tests, and apart from them the test that changes how the kernel
# commits memory: its request for more than there is can fail the requests of all other processes.
abi_tests() {
    local status=0 apart=surroundings::strict_overcommit
    preload_tests "$@" --skip "$apart" || status=1
    preload_tests "$apart" || status=1
    return $status
}

# nextest OPTION..: the tests of a workspace, a process each, which keeps all CPUs busy. Passing
# tests print which checks could not run here; other lines of theirs are dropped.
nextest() {
    local passing='running 1 test|test .* \.\.\. ok|test result: ok\..*|std(out|err) ─+'
    cargo nextest run --workspace --no-fail-fast --status-level fail \
        --success-output immediate "$@" 2>&1 | grep -vE "^ *($passing)?\$"
    ((PIPESTATUS[0] == 0))
}

# The tests of the other crates run under nextest, if it is installed.
step_test() {
    library || return
    local status=0
    # The step `programs` runs these; other packages' modules of that name have no such step.
    local -a left=(--skip programs::)
    # `make test` runs real programs in the step `programs` only.
    [[ -n $all ]] || left+=(--skip modes::real_programs --skip profile::programs_run_the_same
        --skip stress::soak --skip contained::)
    abi_tests "${left[@]}" || status=1
    if cargo nextest --version > /dev/null 2>&1; then
        # `make test` leaves out the tests that compare whole programs, or build Quarry into some.
        local wanted="not (binary(=cli) & test(/^advise::/)) & not binary(=override)"
        [[ -z $all ]] || wanted="all()"
        wanted="not package(quarry-preload) & ($wanted)"
        nextest -E "$wanted" || status=1
        cargo test --workspace --no-fail-fast --doc || status=1
    else
        cargo test --workspace --exclude quarry-preload --no-fail-fast || status=1
    fi
    return $status
}

step_programs() {
    library || return
    local -a left=(--skip programs::short::)
    [[ -n $all ]] || left+=(--skip programs::povray::)
    preload_tests programs:: "${left[@]}"
}

# Tests libquarry-full.so, which can check every invariant, and the library of each other slab
# policy. For the latter it skips accounts that only the default policy keeps, stray writes that not
# every policy survives, and tests that run all libraries by themselves.
step_policies() {
    local slab status=0
    local -x QUARRY_LIBRARY
    make --no-print-directory policies || return
    QUARRY_LIBRARY=$(realpath "$target/release/libquarry-full.so") || return
    echo "==> libquarry-full.so"
    abi_tests --skip programs:: || status=1
    for slab in $(make -s slabs); do
        echo "==> libquarry-$slab.so"
        QUARRY_LIBRARY=$(realpath "$target/release/libquarry-$slab.so") || return
        preload_tests abi:: caches:: life:: misuse:: stack:: \
            sequences:: programs::short:: \
            --skip of_their_own --skip stray_writes --skip kinds_of_misuse \
            || status=1
    done
    return $status
}

step_install() {
    scripts/setup.sh install && make --no-print-directory deb-lab && scripts/deb-test.sh \
        && scripts/crates-test.sh
}

step_packages() { scripts/wheel-test.sh && scripts/dist-test.sh --packages; }

step_lab_tests() {
    built lab tools/quarry-lab || return
    if cargo nextest --version > /dev/null 2>&1; then
        # The examples of `quarry-library-alloc` are the product's.
        in_lab nextest \
            && in_lab cargo test --workspace --exclude quarry-library-alloc --no-fail-fast --doc
    else
        in_lab cargo test --workspace --no-fail-fast
    fi
}

# scripts/one-heap.sh skips the step where RocksDB is not installed.
step_one_heap() { scripts/setup.sh one-heap; scripts/one-heap.sh; }

step_probes() { scripts/probes.sh; }
step_pinned() { scripts/pinned.sh; }
# scripts/services.sh skips the services that cannot be installed.
step_services() {
    scripts/setup.sh services
    built stripped-libraries release/libquarry.so && scripts/services.sh --test
}

# scripts/monitoring.sh skips what it cannot install.
step_deploy() { scripts/monitoring.sh; }

step_tenants() { scripts/tenants.sh; }

step_model() {
    [[ -n $all ]] || local -x QUARRY_MODEL_RUNS=${QUARRY_MODEL_RUNS:-1}
    scripts/model.sh
}

step_checker() { scripts/check-core.sh; }

# scripts/slurm.sh skips the step where Slurm cannot be installed.
step_slurm() { built lab tools/quarry-lab && scripts/slurm.sh; }

step_licences() {
    if cargo deny --version > /dev/null 2>&1; then
        echo "with cargo-deny"
        cargo deny --offline check licenses bans sources \
            && in_lab cargo deny --offline check --config ../deny.toml licenses bans sources \
            && cargo deny --offline --manifest-path scripts/model/Cargo.toml \
                check --config "$PWD/deny.toml" licenses bans sources
    else
        echo "with the test of scripts/tidy: cargo-deny is not installed"
        cargo test -p quarry-tidy licences::
    fi
}

step_quick() {
    # Fewer cases of the property tests than the step `test` has.
    local -x PROPTEST_CASES=16
    cargo fmt --all --check && cargo clippy "${CORE[@]}" --all-targets -- -D warnings \
        && cargo test "${CORE[@]}" --lib --tests
}

step_bench() { make --no-print-directory bench-smoke; }

# Sum of the numbers in front of "passed" or "failed" in a log of cargo test or nextest.
counted() {
    sed -n -e "s/^test result: .* \([0-9]*\) $1;.*/\1/p" \
        -e "s/^ *Summary .* \([0-9]*\) $1.*/\1/p" "$2" | awk '{s += $1} END {print +s}'
}

# run_step NAME: the step's output goes to standard output and to $logs/NAME.log; its exit status,
# the seconds that it took and its CPU seconds go to $logs/NAME.end.
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
    if grep -q -e '^test .* FAILED$' -e '^ *FAIL \[' "$log"; then
        sed -n -e "s/^test \\(.*\\) \\.\\.\\. FAILED\$/$1 failed: \\1/p" \
            -e "s/^ *FAIL \[[^]]*\] *\\(([^)]*)\\)*/$1 failed:/p" "$log" | sort -u
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
# Prints the lines in which tests report what could not run here.
sed -n 's/.*\(skipped: .*\)/\1/p' "${ran[@]}" | sort -u
for name in "${broken[@]}"; do
    why_failed "$name"
done
if [[ -n $all && $# == 0 ]]; then
    processor=$(awk -F ': ' '/^cpu family/ { family = $2 } /^model\t/ { model = $2 }
        /^model name/ { printf "%s, family %s, model %s", $2, family, model; exit }' /proc/cpuinfo)
    printf '| %s | %s | %s, %d CPUs | %d min | %d passed, %d failed | %s |\n' "$(date -u +%F)" \
        "$(git rev-parse --short=8 HEAD)" "$processor" "$(nproc)" $((SECONDS / 60)) \
        "$passed" "$failed" "${broken[*]:-}" >> docs/results/test-all.md
fi
printf '%d seconds; logs in %s\n' "$SECONDS" "$logs"
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
