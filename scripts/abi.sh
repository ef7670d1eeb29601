#!/usr/bin/env bash
# Compares the ABI with that of the last version, which malloc/preload/baseline has: the symbols of
# libquarry.so and libquarry-full.so, and the types of the functions of quarry.h. A symbol that is
# lost or a type that has changed is an error, a symbol that is new is not. The objects are those of
# `make build`. Needs libabigail (Debian's abigail-tools).
#
#   scripts/abi.sh             compares, and plants a loss of each kind to see that it is found
#   scripts/abi.sh --record    writes the baseline, once a version is published
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'abi: %s\n' "$*" >&2; exit 1; }
[[ -z ${1:-} || $1 == --record ]] || fail "unknown option '$1'; accepted: --record"
command -v abidiff > /dev/null || fail "no abidiff: install abigail-tools"
[[ $(uname -m) == x86_64 ]] || fail "the baseline is that of x86-64, and this is $(uname -m)"

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release
baseline=malloc/preload/baseline
include=malloc/preload/include
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# header FOLDER: makes an object with a pointer to each function that quarry.h in FOLDER declares.
header() {
    {
        echo '#include <quarry.h>'
        sed -n 's/^\(quarry_[a-z0-9_]*\)$/\1/p' malloc/preload/abi{,-full}.txt \
            | grep -vx quarry_record | sed 's/.*/__typeof__(\&&) pointer_to_&;/'
    } | "${CC:-cc}" -g -shared -fPIC -I "$1" -x c -o "$folder/quarry.h" -
}
header "$include"
for object in libquarry.so libquarry-full.so; do
    [[ -e $built/$object ]] || fail "$built/$object is missing: run 'make build' first"
    cp "$built/$object" "$folder"
done

# same BASELINE OBJECT: fails if OBJECT lacks or changes part of BASELINE.
same() { abidiff --no-added-syms "$1" "$2"; }
# finds WHAT BASELINE OBJECT: fails if a loss is not found.
finds() {
    ! same "$2" "$3" > "$folder/found" || fail "$1 is not found"
    echo "planted and found: $1"
}

for name in libquarry.so libquarry-full.so quarry.h; do
    if [[ -n ${1:-} ]]; then
        mkdir -p "$baseline"
        abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$folder/$name" \
            > "$baseline/$name.abi"
        continue
    fi
    same "$baseline/$name.abi" "$folder/$name" || fail "$name: the ABI has changed, see above"
    echo "$name: $(grep -c '<elf-symbol ' "$baseline/$name.abi") symbols, none lost or changed"
    [[ $name != quarry.h ]] || continue
    sed "0,/<elf-symbol name='malloc' /s//<elf-symbol name='lost' type='func-type' \
binding='global-binding' visibility='default-visibility' is-defined='yes'\/>\n&/" \
        "$baseline/$name.abi" > "$folder/planted.abi"
    finds "a symbol that $name has lost" "$folder/planted.abi" "$folder/$name"
done
[[ -z ${1:-} ]] || exit 0
mkdir "$folder/changed"
cp "$include"/* "$folder/changed"
sed -i 's/quarry_set_limit(size_t/quarry_set_limit(int/' "$folder/changed/quarry.h"
header "$folder/changed"
finds "another type of a parameter in quarry.h" "$baseline/quarry.h.abi" "$folder/quarry.h"
