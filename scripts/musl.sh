#!/usr/bin/env bash
# Quarry on musl: builds libquarry-musl.so, libquarry-full-musl.so and libquarry-musl.a beside the
# other libraries, runs the tests of the ABI on the former, static programs in Rust, C and Go, and
# SQLite in a root like Alpine's; then measures static Rust programs beside musl's own malloc and
# mimalloc, and writes the figures into docs/musl.md.
#
#   scripts/musl.sh            all of it, as `make musl`
#   scripts/musl.sh --test     without the figures, as a step of `make test-all`
#
# ROUNDS=N measures each program N times (15). Needs musl-gcc (Debian: musl-tools) and rustup's
# standard library for the target.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly machine=x86_64-unknown-linux-musl
readonly rounds=${ROUNDS:-15}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/musl
readonly target out
measures=yes
case "${1:-}" in
    "") ;;
    --test) measures= ;;
    *) echo "usage: scripts/musl.sh [--test]" >&2; exit 2 ;;
esac

say() { printf '==> %s\n' "$*"; }
skip() { printf 'skipped: musl: %s\n' "$*" >&2; exit 77; }

command -v musl-gcc > /dev/null || skip "no musl-gcc (Debian: musl-tools)"
has_target() { [[ -d $(rustc --print sysroot)/lib/rustlib/$machine/lib ]]; }
if ! has_target; then
    rustup --quiet target add $machine 2> /dev/null || true
    has_target || skip "no standard library of Rust for $machine"
fi
mkdir -p "$out/lib" "$target/release"

# As `make build` compiles; but no shared object is static. By the C library that it needs, `quarry
# run` knows that it is for musl.
smaller=$(make -s smaller)
readonly smaller of_musl_libc="-Ctarget-feature=-crt-static -Clink-args=-Wl,--no-as-needed,-lc"
# library NAME FEATURE..: builds a library; the tests want its name without "-musl".
library() {
    local name=$1
    say "building $name-musl.so"
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc \
        RUSTFLAGS="${RUSTFLAGS:-} $smaller $of_musl_libc" \
        cargo build --quiet --release -p quarry-preload --target $machine \
        --target-dir "$out/$name" "${@:2}"
    cp --remove-destination "$out/$name/$machine/release/libquarry_preload.so" \
        "$target/release/$name-musl.so"
    scripts/strip.sh "$target/release/$name-musl.so"
    cp --remove-destination "$target/release/$name-musl.so" "$out/lib/$name.so"
    ln -sf "$name.so" "$out/lib/$name.so.0"
}
library libquarry
library libquarry-full --features full

# Left out of the tests of the ABI are those that
#   need C++ or a Rust of musl, or a function, a header or a value that only glibc has;
readonly of_glibc=(life::before_main life::destructors_of life::first_call limits::cxx
    limits::rust_errors misuse::kinds_of surroundings::one_thread_stays
    memory::a_worker memory::purge_delay memory::small_programs memory::trim_gives
    memory::threads_that_only_free memory::without_a_background stress::soak space::limit_set)
#   want the background thread beside the only one of a program;
readonly of_idle=(memory::idle_program memory::objects_move memory::nothing_moves
    memory::small_survivors memory::survivors_do memory::what_was_freed
    surroundings::much_thread surroundings::forks_in_a_handler surroundings::rights_given
    surroundings::last_thread)
#   or find what plain musl does, too: a fork runs no handler of a fork in a handler, and leaves the
#   locks of streams; who is cancelled at once has a misaligned stack.
readonly of_musl=(surroundings::handlers_of_fork surroundings::forks_under_the_locks
    surroundings::forks_and_threads surroundings::asynchronous)
left=()
for test in "${of_glibc[@]}" "${of_idle[@]}" "${of_musl[@]}"; do
    left+=(--skip "$test")
done
say "the tests of the ABI"
TEST_CC="musl-gcc -idirafter /usr/include -idirafter /usr/include/$(uname -m)-linux-gnu" \
    QUARRY_LIBRARY=$out/lib/libquarry.so \
    cargo test -p quarry-preload --test main -- abi:: life:: registration:: hostile:: foreign:: \
    misuse:: stress:: surroundings:: memory:: space:: limits:: --skip strict_overcommit \
    --skip refuses_the_nth "${left[@]}"

say "the tests of sys, and of a static program"
cargo test --quiet --target $machine -p quarry-sys
cargo test --quiet --target $machine -p quarry-alloc --lib --test global --test record

# patterns ALLOCATOR: builds the static program on an allocator.
patterns() {
    local features=()
    [[ $1 == musl ]] || features=(--features "$1")
    (cd scripts/musl && CC_x86_64_unknown_linux_musl=musl-gcc cargo build --quiet --locked \
        --release --target $machine --target-dir "$out/patterns" "${features[@]}")
    cp "$out/patterns/$machine/release/musl-patterns" "$out/patterns-$1"
}
say "building static programs"
for allocator in musl mimalloc quarry; do patterns $allocator; done
# served THREADS PROGRAM..: runs a program. Its statistics must show that sequences serve at least
# so many of its threads.
served() {
    local registered last=${!#}
    served=$(QUARRY_STATS=1 "${@:2}" 2>&1) || { printf 'musl: %s\n' "$served" >&2; return 1; }
    registered=$(sed -n 's/^ *rseq registered *//p' <<< "$served")
    [[ $served == *"sequences serve"* && $registered -ge $1 ]] || {
        printf 'musl: sequences do not serve %s:\n%s\n' "$last" "$served" >&2
        return 1
    }
    say "${last##*/}: sequences serve its threads ($registered)"
}
served 3 "$out/patterns-quarry" two-threads

make --no-print-directory --silent static-musl
archive=$target/release/libquarry-musl.a
wanted=-Wl,--undefined=quarry_version
for form in -static -static-pie -pie; do
    program=$out/contained$form
    musl-gcc -O1 -fPIE "$form" -pthread -o "$program" scripts/contained.c \
        $wanted,--fatal-warnings "$archive"
    served 5 "$program"
done
# A part of malloc that the program defines itself would be a second heap.
cat > "$out/own-free.c" <<'C'
void free(void *pointer) { (void)pointer; }
int main(void) { return 0; }
C
said=$(musl-gcc -static -fno-builtin -o "$out/own-free" "$out/own-free.c" $wanted "$archive" \
    2>&1) && said="it was linked"
[[ $said == *"multiple definition of \`free'"* ]] || {
    printf 'musl: a program with a free of its own: %s\n' "$said" >&2
    exit 1
}
if command -v go > /dev/null; then
    mkdir -p "$out/go"
    cp scripts/musl/contained.go "$out/go/main.go"
    printf 'module contained\n\ngo 1.19\n' > "$out/go/go.mod"
    (cd "$out/go" && CC=musl-gcc CGO_ENABLED=1 CGO_LDFLAGS_ALLOW='.*' GOFLAGS=-mod=mod \
        CGO_LDFLAGS="$wanted $archive" GOCACHE=$out/go/cache \
        go build -o "$out/contained-go" -ldflags '-linkmode external -extldflags -static' .)
    # Go starts as many threads as it finds necessary.
    served 1 "$out/contained-go"
else
    echo "skipped: musl: a static program in Go: go is not installed" >&2
fi

# A root with musl's loader, libquarry.so, SQLite, and nothing else, as a small image of Alpine.
alpine() {
    local root=$out/root sqlite loader=/lib/ld-musl-x86_64.so.1 into=()
    [[ $(id -u) == 0 ]] || into=(unshare --map-root-user)
    if ! "${into[@]}" chroot / true 2> /dev/null; then
        echo "skipped: musl: a root of its own: chroot is not allowed" >&2
        return
    fi
    sqlite=$(cargo metadata --format-version 1 --manifest-path lab/Cargo.toml --locked \
        | grep -o '"manifest_path":"[^"]*/libsqlite3-sys-[^"]*/Cargo.toml"' | cut -d '"' -f 4)
    sqlite=${sqlite%/*}/sqlite3
    rm -rf "$root"
    mkdir -p "$root"/{bin,lib,usr/lib}
    cp -L "$loader" "$root/lib"
    cp "$out/lib/libquarry.so" "$root/usr/lib"
    musl-gcc -O1 -w -DSQLITE_OMIT_LOAD_EXTENSION -I"$sqlite" -o "$root/bin/sql" \
        scripts/musl/sql.c "$sqlite/sqlite3.c"
    "${into[@]}" chroot "$root" /bin/sql < scripts/musl/job.sql > "$out/plain.txt"
    served 1 "${into[@]}" chroot "$root" "$loader" --preload /usr/lib/libquarry.so /bin/sql \
        < scripts/musl/job.sql
    [[ $served == "$(< "$out/plain.txt")"* ]] || {
        printf 'musl: SQLite answers %s\n' "$served" >&2
        return 1
    }
}
alpine

# Under qemu-user, which has no rseq, the kernel's refusal is counted.
aarch64() {
    local words arm=aarch64-unknown-linux-musl
    if ! command -v qemu-aarch64 > /dev/null; then
        echo "skipped: musl: aarch64: no qemu-aarch64 (Debian: qemu-user)" >&2
        return
    fi
    rustup --quiet target add $arm 2> /dev/null || true
    if ! [[ -d $(rustc --print sysroot)/lib/rustlib/$arm/lib ]]; then
        echo "skipped: musl: aarch64: no standard library of Rust for $arm" >&2
        return
    fi
    say "a static program for aarch64"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld cargo build --quiet --release \
        -p quarry-alloc --example words --target $arm --target-dir "$out/aarch64"
    words=$out/aarch64/$arm/release/examples/words
    served=$(QUARRY_STATS=1 qemu-aarch64 "$words" < README.md 2>&1)
    [[ $served == *"in Quarry's memory: true"* && $served == *"locked slots serve"* ]] &&
        grep -q '^ *rseq refused *1$' <<< "$served" || {
        printf 'musl: aarch64:\n%s\n' "$served" >&2
        return 1
    }
}
aarch64
[[ -n $measures ]] || exit 0

say "measuring, $rounds rounds"
python3 scripts/musl/measure.py "$out" "$rounds" docs/musl.md
