#!/usr/bin/env bash
# Makes packages with the command and the libraries, for machines without a compiler, in
# target/packages: a wheel for pip, or with --npm a package for npm. As the archive of
# scripts/dist.sh, they depend on the sources and the compilers, and on nothing else.
#
#   scripts/wheel.sh [--npm]
#
# QUARRY_IS_BUILT=yes packs what this script has built before.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/reproducible.inc
fail() { printf 'wheel: %s\n' "$*" >&2; exit 1; }
[[ -z ${1:-} || $1 == --npm ]] || fail "unknown option '$1'; accepted: --npm"

[[ -n ${QUARRY_IS_BUILT:-} ]] || make --no-print-directory build
folder=$target/packages
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
make --no-print-directory install SLABS= PREFIX=/usr DESTDIR="$stage/all" > /dev/null
mkdir -p "$folder" "$stage/files/share/man/man1" "$stage/files/lib" "$stage/files/licenses"
files=$stage/files
all=$stage/all/usr
# Links are left out: neither kind of package can hold them.
cp "$all"/lib/libquarry{,-full}.so.0 "$files/lib"
install -D -t "$files/bin" "$all/bin/quarry"
cp "$all"/share/man/man1/quarry.1 "$all"/share/man/man1/quarry-[!l]*.1 "$files/share/man/man1"
cp LICENSE-MIT LICENSE-APACHE "$files/licenses"
chmod -R u=rwX,go=rX "$files"

# needs PREFIX: the highest version of PREFIX that a file asks the system's libraries for.
needs() {
    objdump -T "$files"/bin/quarry "$files"/lib/*.so.0 | sed -n "s/.*(\?$1_\([0-9.]*\))\? .*/\1/p" \
        | sort -V | tail -n 1
}
glibc=$(needs GLIBC)
[[ $glibc == 2.* ]] || fail "objdump shows no version of glibc in the files of $files"

if [[ ${1:-} != --npm ]]; then
    # The tag promises no older glibc than the files can be loaded by.
    platform=manylinux_${glibc/./_}_$machine
    wheel=$(python3 scripts/packages/wheel.py "$files" "$folder" "$version" "$platform" \
        scripts/packages/README.md)
    packed "$wheel"
    exit
fi
cpu=${machine/x86_64/x64}
cat > "$files/package.json" << JSON
{
  "name": "quarry-malloc",
  "version": "$version",
  "description": "Quarry, a malloc that gives memory back: the command and the library, for Linux",
  "license": "MIT OR Apache-2.0",
  "os": ["linux"],
  "cpu": ["${cpu/aarch64/arm64}"],
  "libc": ["glibc"],
  "bin": { "quarry": "bin/quarry" },
  "man": [$(cd "$files" && printf '"%s"\n' share/man/man1/* | paste -sd, | sed 's/,/, /g')],
  "files": ["bin", "lib", "share", "licenses"]
}
JSON
cp scripts/packages/README.md "$files"
find "$files" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
# Its own folder of configuration and cache: npm must not depend on the user's.
(cd "$files" && npm pack --silent --pack-destination "$folder" --cache "$stage/cache" \
    --userconfig "$stage/npmrc" > /dev/null)
packed "$folder/quarry-malloc-$version.tgz"
