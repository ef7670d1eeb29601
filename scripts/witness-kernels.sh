#!/usr/bin/env bash
# Fills lab/results/kernels.md: the same samples under one Debian kernel after the other, each in
# an emulated machine, by `quarry lab run kernel --guests`.
#
#   scripts/witness-kernels.sh [RELEASE..]     without one 5.10 6.1 6.12 6.18 7.3
#   scripts/witness-kernels.sh --prepare [RELEASE..]
#       only makes target/witness/RELEASE/vmlinuz and initrd
#
# For each release the script takes the newest package in Debian's stable suites, old ones and
# backports included. Needs qemu-system-x86_64, setpriv, mkfs.ext4 and xz, and `make lab`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kernels.inc
command=${CARGO_TARGET_DIR:-$PWD/target}/tools/quarry-lab
only_prepare=
if [[ ${1:-} == --prepare ]]; then only_prepare=1; shift; fi
releases=("$@")
((${#releases[@]})) || releases=(5.10 6.1 6.12 6.18 7.3)

need "$command" "run 'make lab' first"
need qemu-system-x86_64 "Debian package qemu-system-x86"
need setpriv "Debian package util-linux"
need mkfs.ext4 "Debian package e2fsprogs"
need strip "Debian package binutils"
need xz "Debian package xz-utils"

initrd() {
    local root=$out/$1/root module
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys}
    cp "$out/busybox/bin/busybox" "$root/bin"
    strip -o "$root/bin/quarry-lab" "$command"
    install -m 755 scripts/witness-init "$root/init"
    ldd "$command" | grep -o '/lib[^ ]*' | while read -r library; do
        install -D "$(realpath "$library")" "$root$library"
    done
    module=$(find "$out/$1/package" -name 'loop.ko*')
    if [[ $module == *.xz ]]; then xz -dc "$module"; else cat "$module"; fi > "$root/loop.ko"
    cp "$out/disk.img.gz" "$root"
    pack_initrd "$root" "$out/$1/initrd"
    rm -rf "$root"
}

update
busybox
truncate -s 256M "$out/disk.img"
PATH="$PATH:/usr/sbin:/sbin" mkfs.ext4 -qF "$out/disk.img"
gzip -1c "$out/disk.img" > "$out/disk.img.gz"
rm "$out/disk.img"
for release in "${releases[@]}"; do
    kernel "$release"
    initrd "$release"
    echo "==> $out/$release"
done
[[ -n $only_prepare ]] || WITNESS=$out exec scripts/results.sh kernels
