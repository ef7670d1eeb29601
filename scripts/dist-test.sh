#!/usr/bin/env bash
# Builds the release archive, the wheel and the package for npm from two copies of the sources in
# folders of different names, and compares them byte for byte. It leaves out the libraries of other
# slab policies, because they are built as the default one is; with --packages it leaves out the
# archive, and so the lab, which takes most of the time to build.
#
#   scripts/dist-test.sh [--packages]
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/dist-test
rm -rf "$place"
mkdir -p "$place"
trap 'rm -rf "$place"' EXIT
export SLABS="" SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1700000000}
for folder in one a/longer/way; do
    mkdir -p "$place/$folder"
    git ls-files -z --cached --others --exclude-standard \
        | xargs -0 tar --create --ignore-failed-read \
        | tar --extract --directory "$place/$folder"
    (
        cd "$place/$folder"
        unset CARGO_TARGET_DIR
        mkdir -p target/dist target/packages
        [[ ${1:-} == --packages ]] || scripts/dist.sh
        scripts/wheel.sh
        QUARRY_IS_BUILT=yes scripts/wheel.sh --npm
    )
    mkdir "$place/packed-${folder%%/*}"
    mv "$place/$folder"/target/{dist,packages}/* "$place/packed-${folder%%/*}"
    rm -rf "${place:?}/$folder"
done
diff -r "$place/packed-one" "$place/packed-a"
ls "$place/packed-one"
echo "what was packed in two folders is the same, byte for byte"
