#!/usr/bin/env bash
# Builds libquarry.so for aarch64 and runs a C program on it under qemu-user.
#
# rustup's own standard library for the target is used where it can be had; otherwise (or with
# QUARRY_DEBIAN_RUSTC=1) Debian's rustc-web and its arm64 standard library are unpacked into the
# target directory, without touching the system's package database or its list of architectures.
# qemu-user knows no restartable sequences, so what runs here is the locked path.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
out="${CARGO_TARGET_DIR:-$PWD/target}/aarch64"
mkdir -p "$out"

need() {
    command -v "$1" > /dev/null || { echo "aarch64: needs $1 (Debian package $2)" >&2; exit 1; }
}
need aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross"
need qemu-aarch64 qemu-user

unpack_debian_toolchain() {
    local root="$out/debian" state="$out/apt"
    if [ ! -x "$root/usr/bin/rustc" ]; then
        mkdir -p "$state/lists/partial" "$root"
        local options=(-o "Dir::State::lists=$state/lists" -o "APT::Architectures=amd64,arm64"
            -o "APT::Sandbox::User=root")
        apt-get "${options[@]}" -qq update
        local version
        version=$(apt-cache "${options[@]}" show rustc-web \
            | sed -n 's/^Version: //p' | awk 'NR == 1')
        local short
        short=$(echo "$version" | cut -d. -f1,2)
        local llvm
        llvm=$(apt-cache "${options[@]}" show "libstd-rust-web-$short" \
            | sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | awk 'NR == 1')
        (cd "$state" && apt-get "${options[@]}" -qq download "rustc-web=$version" \
            "libstd-rust-web-$short" "libstd-rust-web-dev=$version" \
            "libstd-rust-web-dev:arm64=$version" "$llvm")
        for package in "$state"/*.deb; do dpkg -x "$package" "$root"; done
        rm -f "$state"/*.deb
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
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    cargo build --quiet --release -p quarry-preload --target "$target" --target-dir "$out/build"
library="$out/build/$target/release/libquarry.so"

aarch64-linux-gnu-gcc -O1 -fno-builtin -pthread -o "$out/smoke" scripts/aarch64-smoke.c
unset LD_LIBRARY_PATH
qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$library" "$out/smoke"
