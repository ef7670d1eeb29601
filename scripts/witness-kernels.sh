#!/usr/bin/env bash
# Fills lab/results/kernels.md: the same samples under one Debian kernel after the other, each in
# an emulated machine, by `quarry lab run kernel --guests`.
#
#   scripts/witness-kernels.sh [RELEASE..]     without one 5.10 6.1 6.12 6.18 7.3
#   scripts/witness-kernels.sh --prepare [RELEASE..]
#       only makes target/witness/RELEASE/vmlinuz and initrd
#   scripts/witness-kernels.sh --kernel IMAGE [--modules DIR] [OPTION..]
#       prints what another kernel counts, beside `slub-4.9`. IMAGE is a bzImage for x86-64, 3.2 or
#       later, because glibc needs that; OPTION is one of `quarry lab run kernel`, such as
#       --only=udp, or --variants=slub-3.0 for a further policy. What the kernel needs: an initrd by
#       gzip, two ports of CONFIG_SERIAL_8250, DEVTMPFS, TMPFS, FTRACE and
#       PERF_EVENTS; and ext4 and loop for files, built in or, as loop.ko, anywhere in DIR.
#
# For each release the script takes the newest package in Debian's stable suites, old ones and
# backports included. Needs qemu-system-x86_64, setpriv, mkfs.ext4 and xz, and `make lab`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kernels.inc
command=${CARGO_TARGET_DIR:-$PWD/target}/tools/quarry-lab
only_prepare=
image=
modules=
if [[ ${1:-} == --prepare ]]; then only_prepare=1; shift; fi
if [[ ${1:-} == --kernel ]]; then
    image=${2:?--kernel: accepted: a bzImage}
    shift 2
    if [[ ${1:-} == --modules ]]; then modules=${2:?--modules: accepted: a folder}; shift 2; fi
fi
releases=("$@")
((${#releases[@]})) || [[ -n $image ]] || releases=(5.10 6.1 6.12 6.18 7.3)

need "$command" "run 'make lab' first"
need qemu-system-x86_64 "Debian package qemu-system-x86"
need setpriv "Debian package util-linux"
need mkfs.ext4 "Debian package e2fsprogs"
need strip "Debian package binutils"
need xz "Debian package xz-utils"

# release IMAGE: the release that the header of a bzImage names (Documentation/x86/boot.rst).
release() {
    local at
    [[ $(od -An -c -j514 -N4 "$1" | tr -d ' ') == HdrS ]] || return 1
    at=$(od -An -tu2 -j526 -N2 "$1")
    dd if="$1" bs=1 skip=$((at + 512)) count=100 status=none | tr '\0' ' ' | cut -d' ' -f1
}

# other_kernel: makes the folder of $image, and prints its name.
other_kernel() {
    local name
    [[ -r $image ]] || { echo "witness-kernels: --kernel $image: no such file" >&2; return 1; }
    name=$(release "$image") || {
        echo "witness-kernels: --kernel $image: no bzImage for x86" >&2
        return 1
    }
    if [[ $(printf '%s\n' 3.2 "$name" | sort -V | head -n1) != 3.2 ]]; then
        echo "witness-kernels: --kernel $image: is $name; accepted: 3.2 or later" >&2
        return 1
    fi
    mkdir -p "$out/$name/package"
    [[ -z $modules ]] || find "$modules" -name 'loop.ko*' -exec cp {} "$out/$name/package" \;
    cp "$image" "$out/$name/vmlinuz"
    echo "$name"
}

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
    module=$(find "$out/$1/package" -name 'loop.ko*' | head -n1)
    case $module in
        "") ;;
        *.xz) xz -dc "$module" > "$root/loop.ko" ;;
        *) cp "$module" "$root/loop.ko" ;;
    esac
    cp "$out/disk.img.gz" "$root"
    pack_initrd "$root" "$out/$1/initrd"
    rm -rf "$root"
}

if [[ -n $image ]]; then name=$(other_kernel); fi
update
busybox
truncate -s 256M "$out/disk.img"
PATH="$PATH:/usr/sbin:/sbin" mkfs.ext4 -qF "$out/disk.img"
gzip -1c "$out/disk.img" > "$out/disk.img.gz"
rm "$out/disk.img"
if [[ -n $image ]]; then
    initrd "$name"
    exec "$command" run kernel --quick --guests="$out" --baseline=slub-4.9 \
        --variants="linux-$name,slub-4.9" "${releases[@]}"
fi
for release in "${releases[@]}"; do
    kernel "$release"
    initrd "$release"
    echo "==> $out/$release"
done
[[ -n $only_prepare ]] || WITNESS=$out exec scripts/results.sh kernels
