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

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
name=quarry-$version-$(uname -m)-linux
folder=$target/dist
# All files get the time of the last commit, or without a history that of the release.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2> /dev/null \
    || date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n1)" +%s)}"
export SOURCE_DATE_EPOCH

# A folder of its own, so that the archive contains no file of another build.
export CARGO_TARGET_DIR=$target/dist-build
crates=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/quarry --remap-path-prefix=$crates=/cargo"
export RUSTFLAGS
export CARGO_INCREMENTAL=0
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
(cd "$folder" && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
