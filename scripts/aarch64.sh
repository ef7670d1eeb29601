#!/usr/bin/env bash
# Builds libquarry.so for aarch64 and runs programs on it.
#
#   scripts/aarch64.sh
#       a C program under qemu-user, which knows no restartable sequences: the locked path
#   scripts/aarch64.sh --system [GUEST..]
#       then kernels with pages of 4, 16 and 64 KiB in emulated machines (scripts/aarch64/guests.inc
#       names them): the tests of quarry-sys (which interrupt each instruction of each sequence),
#       quarry-mm and quarry-preload, redis and sqlite, the Debian packages of the libraries, and
#       figures for docs/aarch64.md
#   TAKES=modes::,abi::realloc scripts/aarch64.sh --system 16k
#       of all that only these tests of quarry-preload
#
# An emulated machine has two CPUs that run side by side, in the memory order of the host: a
# sequence that lacks a barrier may pass here.
#
# rustup's own standard library for the target is used where it is available; otherwise (or with
# QUARRY_DEBIAN_RUSTC=1) Debian's rustc-web and its arm64 standard library are unpacked into the
# target directory. That, and the kernel, come by apt, without touching the system's package
# database or its list of architectures.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
out="$(realpath -m "${CARGO_TARGET_DIR:-target}")/aarch64"
with_system=
case "${1:-}" in
    "") ;;
    --system) with_system=1; shift ;;
    *) echo "usage: scripts/aarch64.sh [--system [GUEST..]]" >&2; exit 2 ;;
esac
mkdir -p "$out"

need() {
    command -v "$1" > /dev/null || { echo "aarch64: needs $1 (Debian package $2)" >&2; exit 1; }
}
need aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross"
need qemu-aarch64 qemu-user
if [ -n "$with_system" ]; then
    need qemu-system-aarch64 qemu-system-arm
    need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
fi

state="$out/apt"
apt=(-qq -o "Dir::State::lists=$state/lists" -o "APT::Architectures=amd64,arm64"
    -o "APT::Sandbox::User=root")

# unpack_debian FOLDER PACKAGE..
unpack_debian() {
    local root=$1
    (cd "$state" && apt-get "${apt[@]}" download "${@:2}")
    mkdir -p "$root"
    for package in "$state"/*.deb; do dpkg -x "$package" "$root"; done
    rm -f "$state"/*.deb
}

update_debian() {
    mkdir -p "$state/lists/partial"
    apt-get "${apt[@]}" update
}

unpack_debian_toolchain() {
    local root="$out/debian" version short llvm
    if [ ! -x "$root/usr/bin/rustc" ]; then
        update_debian
        version=$(apt-cache "${apt[@]}" show rustc-web \
            | sed -n 's/^Version: //p' | awk 'NR == 1')
        short=$(echo "$version" | cut -d. -f1,2)
        llvm=$(apt-cache "${apt[@]}" show "libstd-rust-web-$short" \
            | sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | awk 'NR == 1')
        unpack_debian "$root" "rustc-web=$version" "libstd-rust-web-$short" \
            "libstd-rust-web-dev=$version" "libstd-rust-web-dev:arm64=$version" "$llvm"
    fi
    export RUSTC="$root/usr/bin/rustc"
    export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; }
if ! has_target && command -v rustup >/dev/null; then
    rustup --quiet target add "$target" 2>/dev/null || true
fi
if [ -n "${QUARRY_DEBIAN_RUSTC:-}" ] || ! has_target; then
    unpack_debian_toolchain
fi
echo "aarch64: compiling with $("${RUSTC:-rustc}" --version)"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
build=(--quiet --target "$target" --target-dir "$out/build")
cargo build "${build[@]}" --release -p quarry-preload
if [ -n "$with_system" ]; then
    cargo build --quiet --target "$target" --target-dir "$out/full" --release \
        -p quarry-preload --features full
    cargo test "${build[@]}" -p quarry-sys -p quarry-preload --no-run \
        --message-format=json > "$out/tests.json"
    cargo test "${build[@]}" -p quarry-mm --lib --no-run \
        --message-format=json >> "$out/tests.json"
    scripts/deb.sh --arm64 > "$out/deb.log" 2>&1 || { tail "$out/deb.log"; exit 1; }
fi
library="$out/build/$target/release/libquarry.so"
cp "${library%.so}_preload.so" "$library"
unset LD_LIBRARY_PATH
scripts/aarch64/sequences.sh "$library"

compile() { aarch64-linux-gnu-gcc -O1 -fno-builtin -pthread -o "$2" "$1"; }
compile scripts/aarch64/smoke.c "$out/smoke"
qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$library" "$out/smoke" locks
# A static program, which contains it; without a loader the smoke test would not find it.
cargo build "${build[@]}" --release -p quarry-static
CROSS_COMPILE=aarch64-linux-gnu- scripts/archive.sh \
    "$out/build/$target/release/libquarry_static.a" "$out/libquarry.a"
aarch64-linux-gnu-gcc -O1 -static -pthread -o "$out/contained" scripts/contained.c \
    -Wl,--undefined=quarry_version,--fatal-warnings "$out/libquarry.a"
qemu-aarch64 "$out/contained"
if [ -z "$with_system" ]; then exit; fi
. scripts/aarch64/guests.inc
run_guests "$@"
