#!/usr/bin/env bash
# Builds the release archive from two copies of the sources in folders of different names, and
# compares the archives byte for byte. It leaves out the libraries of other slab policies, because
# they are built as the default one is.
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
        scripts/dist.sh
    )
    mv "$place/$folder"/target/dist/*.tar.gz "$place/${folder%%/*}.tar.gz"
    rm -rf "${place:?}/$folder"
done
cmp "$place/one.tar.gz" "$place/a.tar.gz"
tar --list --file "$place/one.tar.gz" | head -n 5
echo "the archives of two folders are the same, byte for byte"
