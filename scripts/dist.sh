#!/usr/bin/env bash
# Makes target/dist/quarry-VERSION-ARCH-linux.tar.gz: what `make install` installs. The archive
# depends on the sources and on the versions of Rust and of the linker, and on nothing else: not on
# the folder that they lie in, the time, the user, or what was built before.
#
#   scripts/dist.sh [SOURCES]    SOURCES: another folder with the sources
#
# SLABS="" leaves out the libraries of other slab policies, for a quick comparison.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

. scripts/reproducible.inc
name=quarry-$version-$machine-linux
folder=$target/dist
options=()
[[ -z ${SLABS+x} ]] || options=("SLABS=$SLABS")
make --no-print-directory all "${options[@]}"
rm -rf "$folder"
mkdir -p "$folder"
make --no-print-directory install "${options[@]}" PREFIX=/usr DESTDIR="$folder/$name"
mv "$folder/$name/usr"/* "$folder/$name"
rmdir "$folder/$name/usr"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/$name"
chmod -R u=rwX,go=rX "$folder/$name"
tar --create --directory "$folder" --sort=name --format=posix --mtime="@$SOURCE_DATE_EPOCH" \
    --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
    --owner=0 --group=0 --numeric-owner "$name" \
    | gzip -9 --no-name > "$folder/$name.tar.gz"
rm -r "${folder:?}/$name"
packed "$folder/$name.tar.gz"
