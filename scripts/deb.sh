#!/usr/bin/env bash
# Builds the Debian packages into target/deb: those that a service needs, and with --lab also
# quarry-lab, which takes most of the time. `make deb` and `make deb-lab` call it;
# scripts/deb-test.sh installs, uses and removes them.
#
#   scripts/deb.sh [--lab]
#
# QUARRY_IS_BUILT=yes packs what was built before.
set -euo pipefail
cd "$(dirname "$0")/.."

goal=packaged
export DEB_BUILD_PROFILES=${DEB_BUILD_PROFILES-}
if [[ ${1:-} == --lab ]]; then
    goal=all
else
    DEB_BUILD_PROFILES+=" pkg.quarry.nolab"
fi
target=${CARGO_TARGET_DIR:-target}
folder=$(realpath -m "$target/deb")
rm -rf "$folder"
mkdir -p "$folder"
# make runs before debhelper, which gives each step an empty home: Rust lies in the real one.
[[ -n ${QUARRY_IS_BUILT:-} ]] || make --no-print-directory $goal
QUARRY_IS_BUILT=yes DEB_FOLDER=$folder debian/rules binary
debian/rules clean
ls -l "$folder"
