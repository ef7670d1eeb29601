#!/usr/bin/env bash
# Fills lab/results/kernels.md: the same samples under one Debian kernel after the other, each in
# an emulated machine, by `quarry lab run kernel --guests`.
#
#   scripts/witness-kernels.sh [RELEASE..]     without one 5.10 6.1 6.12 6.18 7.3
#   scripts/witness-kernels.sh --prepare [RELEASE..]
#       only makes target/witness/RELEASE/vmlinuz and initrd
#
# Kernels come by apt from the mirror of this machine, without touching its package database. For
# each release the script takes the newest package in Debian's stable suites, old ones and backports
# included. Needs qemu-system-x86_64, setpriv, mkfs.ext4 and xz, and `make lab`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/witness
command=$target/tools/quarry-lab
only_prepare=
if [[ ${1:-} == --prepare ]]; then only_prepare=1; shift; fi
releases=("$@")
((${#releases[@]})) || releases=(5.10 6.1 6.12 6.18 7.3)

need() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" > /dev/null \
        || { echo "witness-kernels: needs $1 ($2)" >&2; exit 1; }
}
need "$command" "run 'make lab' first"
need qemu-system-x86_64 "Debian package qemu-system-x86"
need setpriv "Debian package util-linux"
need mkfs.ext4 "Debian package e2fsprogs"
need strip "Debian package binutils"
need xz "Debian package xz-utils"

state=$out/apt
apt=(-qq -o "Dir::State::lists=$state/lists" -o "Dir::Etc::sourcelist=$state/sources.list"
    -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root -o Dir::Cache::pkgcache=
    -o Dir::Cache::srcpkgcache= -o APT::Architectures=amd64)

update() {
    [[ ! -e $state/updated ]] || return 0
    local mirror suite
    # The first mirror of Debian itself; there may be several.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' \
        | awk 'NR == 1')
    mkdir -p "$state/lists/partial"
    for suite in bullseye bookworm bookworm-backports trixie trixie-backports; do
        echo "deb $mirror $suite main"
    done > "$state/sources.list"
    apt-get "${apt[@]}" update
    touch "$state/updated"
}

names() { apt-cache "${apt[@]}" search --names-only "$1" | cut -d' ' -f1; }

# unpack FOLDER PACKAGE..: downloads packages and unpacks them into FOLDER.
unpack() {
    local folder=$1 package
    (cd "$state" && apt-get "${apt[@]}" download "${@:2}")
    for package in "$state"/*.deb; do dpkg-deb -x "$package" "$folder"; done
    rm -f "$state"/*.deb
}

# kernel RELEASE: unpacks its packages. In later releases the package of the image has no files; one
# package has the kernel, another one the modules.
kernel() {
    local root=$out/$1/package newest version part
    [[ ! -d $root ]] || return 0
    newest=$(names "^linux-image-${1//./\\.}[.-].*-cloud-amd64$" | sort -V | tail -n1)
    if [[ -z $newest ]]; then echo "witness-kernels: no kernel $1 here" >&2; return 1; fi
    version=${newest#linux-image-}
    part=$(names "^linux-(binary|modules)-${version//[.+]/.}$")
    # shellcheck disable=SC2086
    unpack "$root.new" "$newest" $part
    mv "$root.new" "$root"
    cp "$(find "$root" -name 'vmlinuz*' -type f)" "$out/$1/vmlinuz"
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
    module=$(find "$out/$1/package" -name 'loop.ko*')
    if [[ $module == *.xz ]]; then xz -dc "$module"; else cat "$module"; fi > "$root/loop.ko"
    cp "$out/disk.img.gz" "$root"
    (cd "$root" && find . | "$out/busybox/bin/busybox" cpio -o -H newc 2> /dev/null) \
        | gzip -1 > "$out/$1/initrd"
    rm -rf "$root"
}

mkdir -p "$state"
update
[[ -d $out/busybox ]] || unpack "$out/busybox" busybox-static/bookworm
truncate -s 256M "$out/disk.img"
PATH="$PATH:/usr/sbin:/sbin" mkfs.ext4 -qF "$out/disk.img"
gzip -1c "$out/disk.img" > "$out/disk.img.gz"
rm "$out/disk.img"
for release in "${releases[@]}"; do
    mkdir -p "$out/$release"
    kernel "$release"
    initrd "$release"
    echo "==> $out/$release"
done
[[ -n $only_prepare ]] || WITNESS=$out exec scripts/results.sh kernels
