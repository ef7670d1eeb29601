#!/usr/bin/env bash
# Builds the Debian packages into target/deb: those that a service needs, and with --lab also
# quarry-lab, which takes most of the time. `make deb` and `make deb-lab` call it;
# scripts/deb-test.sh installs, uses and removes them. With --arm64 (`make deb-arm64`) it builds
# those of the libraries for arm64, into target/deb-arm64, with Debian's cross compiler;
# scripts/aarch64.sh installs and uses these.
#
#   scripts/deb.sh [--lab | --arm64]
#
# QUARRY_IS_BUILT=yes packs what was built before.
set -euo pipefail
cd "$(dirname "$0")/.."

goal=packaged
name=deb
export DEB_BUILD_PROFILES=${DEB_BUILD_PROFILES-}
if [[ ${1:-} == --lab ]]; then
    goal=all
else
    DEB_BUILD_PROFILES+=" pkg.quarry.nolab"
fi
if [[ ${1:-} == --arm64 ]]; then
    goal=packaged-libraries
    name=deb-arm64
    gnu=aarch64-linux-gnu
    DEB_BUILD_PROFILES+=" cross pkg.quarry.nocommand"
    export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-} nocheck"
    eval "$(CC=$gnu-gcc dpkg-architecture --host-arch arm64 --print-set)"
    export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu CROSS_COMPILE=$gnu-
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$gnu-gcc
fi
target=${CARGO_TARGET_DIR:-target}
folder=$(realpath -m "$target/$name")
rm -rf "$folder"
mkdir -p "$folder"
# make runs before debhelper, which gives each step an empty home: Rust lies in the real one.
[[ -n ${QUARRY_IS_BUILT:-} ]] || make --no-print-directory $goal
# Packages for another machine may be packed at the same time: both use files in debian/.
exec 9< debian
flock 9
# One that was interrupted has left its symbols.
debian/rules clean
QUARRY_IS_BUILT=yes DEB_FOLDER=$folder debian/rules binary
debian/rules clean
ls -l "$folder"
