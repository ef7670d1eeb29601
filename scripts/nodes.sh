#!/usr/bin/env bash
# Runs scripts/nodes/nodes.c on libquarry-full.so under one of Debian's kernels, in emulated
# machines with two and with four NUMA nodes: on which node does memory lie, also after a thread of
# another one has freed it?
#
#   scripts/nodes.sh [NODES..]      without one, 2 and 4
#
# Emulation shows what is correct, and counts; it shows no speed. Needs qemu-system-x86_64; the
# kernel and busybox come by apt, without touching the system's package database. RELEASE=6.12.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kernels.inc
release=${RELEASE:-6.12}
root=$out/nodes
library=${CARGO_TARGET_DIR:-$PWD/target}/release/libquarry-full.so

skip() { echo "skipped: nodes: $*" >&2; exit 77; }
command -v qemu-system-x86_64 > /dev/null || skip "no qemu-system-x86_64 (Debian: qemu-system-x86)"
[[ -e $library ]] || { echo "nodes: no $library (run 'make build' first)" >&2; exit 1; }
{ update && busybox && kernel "$release"; } || skip "no kernel $release of Debian here"

rm -rf "$root"
mkdir -p "$root"/{bin,dev,lib64,proc,sys,tmp}
ln -s lib64 "$root/lib"
cp "$out/busybox/bin/busybox" "$root/bin"
install -m 755 scripts/nodes/init "$root/init"
cp "$library" "$root/lib64/libquarry-full.so.0"
cc -O1 -fno-builtin -pthread -D_GNU_SOURCE -Wall -Wextra -Werror -Imalloc/preload/tests/c \
    -Imalloc/preload/include -o "$root/bin/nodes" scripts/nodes/nodes.c "$library"
# What it loads, but for the kernel's own object and Quarry, with their paths.
LD_LIBRARY_PATH=$root/lib64 ldd "$root/bin/nodes" | grep -o '/lib[^ ]*' | grep -v quarry \
    | while read -r file; do cp -L "$file" "$root/lib64"; done
pack_initrd "$root" "$out/nodes.initrd"

# boot NODES: two CPUs and 512 MiB a node.
boot() {
    local number nodes=()
    for ((number = 0; number < $1; number++)); do
        nodes+=(-object "memory-backend-ram,id=memory$number,size=512M" -numa
            "node,nodeid=$number,memdev=memory$number,cpus=$((2 * number))-$((2 * number + 1))")
    done
    timeout 900 qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max \
        -smp $((2 * $1)) -m $((512 * $1))M "${nodes[@]}" -nic none -nographic -no-reboot \
        -kernel "$out/$release/vmlinuz" -initrd "$out/nodes.initrd" \
        -append "console=ttyS0 quiet panic=-1 numa_balancing=disable" < /dev/null \
        | sed -u -e 's/\r$//' -e 's/.*\x1b[^=]*==>/==>/' | tee "$out/nodes-$1.log"
    grep -qx "nodes: all passed" "$out/nodes-$1.log"
}

failed=
[[ $# != 0 ]] || set -- 2 4
for nodes; do
    echo "==> $nodes nodes"
    boot "$nodes" || failed+=" $nodes"
done
[[ -z $failed ]] || { echo "nodes: failed with so many nodes:$failed"; exit 1; }
