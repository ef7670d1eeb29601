#!/usr/bin/env bash
# Runs the tests of sys, mm, cache, watch and eras, over the fake operating system and locked slots,
# under the strictest checker that this machine has, and says which one it is.
#
#   miri       where its component is installed
#   address    AddressSanitizer of the nightly toolchain
#   valgrind   memcheck, the last resort
#
# ThreadSanitizer needs a standard library built for it, which rustup does not ship: without one it
# reports std's own reference counts. scripts/model.sh checks interleavings of threads.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
out=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=(-p quarry-sys -p quarry-mm -p quarry-cache -p quarry-watch)
in_lab() (cd lab && "$@")
export PROPTEST_CASES=${PROPTEST_CASES:-16}

if cargo +nightly miri --version > /dev/null 2>&1; then
    echo "check-core: with miri"
    export CARGO_TARGET_DIR=$out/miri
    cargo +nightly miri test "${packages[@]}" --lib
    in_lab cargo +nightly miri test -p quarry-eras --lib
elif rustc +nightly --version > /dev/null 2>&1; then
    echo "check-core: with AddressSanitizer of $(rustc +nightly --version)"
    # Test stacks are leaked on purpose: a stack lives as long as its process.
    export ASAN_OPTIONS=detect_leaks=0
    export RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address --cfg quarry_no_rseq"
    export CARGO_TARGET_DIR=$out/address
    cargo +nightly test "${packages[@]}" --target "$target" --lib --test suites
    in_lab cargo +nightly test -p quarry-eras --target "$target" --lib --test suites
elif command -v valgrind > /dev/null; then
    echo "check-core: with $(valgrind --version)"
    export RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_no_rseq"
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9"
    # With the flags and the folder of the step `no-rseq` of scripts/test.sh.
    export CARGO_TARGET_DIR=$out/no-rseq
    cargo test "${packages[@]}" --lib
    in_lab cargo test -p quarry-eras --lib
else
    echo "check-core: needs miri, a nightly toolchain, or valgrind" >&2
    exit 1
fi
