#!/usr/bin/env bash
# Makes libquarry.a of what cargo has built: one object that defines the names of the ABI and no
# others, so that a second library in Rust, or one of the same names inside, does no harm.
#
#   scripts/archive.sh target/release/libquarry_static.a target/release/libquarry.a
set -euo pipefail
cd "$(dirname "$0")/.."

built=$(realpath "$1")
archive=$(realpath -m "$2")
tools=${CROSS_COMPILE:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# `dlopen` needs a loader, which a static program lacks; the forms of `operator new` that return
# null are those of the C++ library, which call the others.
grep -xE '[A-Za-z_][A-Za-z0-9_]*' malloc/preload/abi.txt | grep -vxE 'dlopen|_Zn.*nothrow_t' \
    > "$folder/names"
cd "$folder"
"${tools}ld" --relocatable --undefined=malloc --output=quarry.o "$built"
"${tools}objcopy" --strip-debug --keep-global-symbols=names quarry.o
rm -f "$archive"
"${tools}ar" rcsD "$archive" quarry.o
