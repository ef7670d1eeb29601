#!/usr/bin/env bash
# Runs the steps of the workflow in docs/compare.md as a runner would, in a copy of a clean Debian,
# with a small program in the place of the user's. scripts/deb-test.sh calls it.
#
#   scripts/ci-recipe.sh ROOT DEBS
#
# ROOT is a clean Debian, which stays as it is; DEBS is the folder of the packages. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'ci-recipe: %s\n' "$*" >&2; exit 1; }
[[ $# == 2 ]] || fail "usage: scripts/ci-recipe.sh ROOT DEBS"
lower=$(realpath "$1")
debs=$2

# The commands of the workflow, one a line: `run: WORDS`, or `run: >` and the lines below it.
steps() {
    awk '/^```/ { inside = 0 } /^# \.github\/workflows\// { inside = 1 }
        !inside { next }
        folded && /^          / { sub(/^ +/, ""); line = line " " $0; next }
        folded { print line; folded = 0 }
        /^ +(- )?run: >$/ { folded = 1; line = ""; next }
        /^ +(- )?run: / { sub(/^ +(- )?run: /, ""); print }' docs/compare.md
}
mapfile -t steps < <(steps)
((${#steps[@]} >= 4)) || fail "docs/compare.md has ${#steps[@]} steps"

place=$(mktemp -d)
root=$place/root
mkdir "$place/upper" "$place/work" "$root"
mount -t overlay -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work" overlay "$root"
# Programs of an interrupted step may still use the root; what stays mounted must not be removed.
# A second signal must not end this: `timeout` sends one to the shell and one to its group.
trap 'trap "" HUP INT TERM
    umount --lazy --recursive "$root"
    rm -rf --one-file-system "$place"' EXIT
mount -t proc proc "$root/proc"
# A runner has sudo, and its user is allowed to use it.
printf '#!/bin/sh\nexec "$@"\n' > "$root/usr/local/bin/sudo"
chmod 755 "$root/usr/local/bin/sudo"

project=$root/srv/project
mkdir -p "$project/.ci/quarry"
cp "$debs"/libquarry0_*.deb "$debs"/quarry_*.deb "$project/.ci/quarry"
printf 'bench: bench.c\n\tcc -O1 -o bench bench.c\n' > "$project/Makefile"
cat > "$project/bench.c" << 'C'
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char *kept[64];
    for (int i = 0; i < 64; i++) memset(kept[i] = malloc(1 << 20), 1, 1 << 20);
    for (int i = 0; i < 1000000; i++) {
        char *volatile block = malloc(100);
        *block = 1;
        free(block);
    }
    return 0;
}
C

for step in "${steps[@]}"; do
    printf 'step: %s\n' "$step"
    status=0
    LC_ALL=C DEBIAN_FRONTEND=noninteractive GITHUB_STEP_SUMMARY=/srv/summary chroot "$root" \
        bash -e -c "cd /srv/project; $step" < /dev/null || status=$?
    # The program of this test may be beyond a bound; that the comparison took place is the point.
    [[ $status == 0 || ($step == *--fail-if* && $status == 3) ]] || fail "status $status"
done
grep '^| quarry ' "$root/srv/summary" > /dev/null || fail "the summary does not compare Quarry"
[[ -s $project/compare.html ]] || fail "there is no page"
