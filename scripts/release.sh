#!/usr/bin/env bash
# Prepares a release, up to the last step before it is published: everything that is published is in
# target/release-VERSION, with sums that are signed. `make release` calls it.
#
#   scripts/release.sh [--quick]
#
# --quick leaves out the archive of `make dist`, and so the lab, which takes most of the time to
# build. QUARRY_SIGNING_KEY names a key of ssh-keygen; without it a key is made for this run, which
# proves nothing to others. What cannot be installed here is skipped, and named at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/reproducible.inc
say() { printf '==> %s\n' "$*"; }
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }
skipped=()
skip() { skipped+=("$*"); say "skipped: $*"; }
[[ -z ${1:-} || $1 == --quick ]] || fail "unknown option '$1'; accepted: --quick"

changed=$(git status --porcelain | head -n 5)
[[ -z $changed ]] || fail "these files differ from the commit, and a release is a commit: $changed"
folder=$target/release-$version
logs=$target/release-logs
rm -rf "$folder" "$logs"
mkdir -p "$folder" "$logs"
PATH=$target/release-tools/bin:$PATH

# quiet NAME COMMAND..: the command's output goes into a log, and is shown if it fails.
quiet() {
    "${@:2}" > "$logs/$1" 2>&1 || { tail -n 30 "$logs/$1" >&2; fail "$1: ${*:2}"; }
}
# twice NAME FILES COMMAND..: the second of two runs makes the same FILES of $folder.
twice() {
    quiet "$1" "${@:3}"
    (cd "$folder" && sha256sum -- $2) > "$logs/$1.first"
    quiet "$1" "${@:3}"
    (cd "$folder" && sha256sum --check --quiet "$logs/$1.first") || fail "$1: two runs differ"
    sed 's/^.*  /    /' "$logs/$1.first"
}

say "version $version"
for file in lab/Cargo.toml; do
    grep -qx "version = \"$version\"" "$file" || fail "$file has another version than $version"
done
debian=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
[[ $debian == "$version" ]] || fail "debian/changelog begins with $debian, and not with $version"
! git rev-parse --quiet --verify "refs/tags/v$version" > /dev/null \
    || [[ $(git rev-parse "v$version^{commit}") == "$(git rev-parse HEAD)" ]] \
    || fail "the tag v$version is another commit"
# section HEADING: the lines of CHANGELOG.md below it.
section() { awk -v head="## [$1]" '/^## /{on = index($0, head) == 1; next} on' CHANGELOG.md; }
notes=$(section "$version")
if [[ -z $notes ]]; then
    notes=$(section Unreleased)
    skip "a heading: CHANGELOG.md has [Unreleased], and the commit to tag needs [$version] - DATE"
fi
[[ -n $notes ]] || fail "CHANGELOG.md has nothing on $version"
printf 'Quarry %s\n\n%s\n' "$version" "$notes" > "$folder/NOTES.md"

say "the source archive"
archive_sources() {
    git archive --format=tar --prefix="quarry-$version/" HEAD | gzip -9 --no-name \
        > "$folder/quarry-$version.tar.gz"
}
twice sources "quarry-$version.tar.gz" archive_sources

say "the libraries and the command"
if cargo auditable --version > /dev/null 2>&1; then
    export AUDITABLE=auditable
else
    skip "the list of packages inside the command: no cargo-auditable (scripts/setup.sh release)"
fi
quiet build make --no-print-directory build
[[ -z ${AUDITABLE:-} || $(readelf -SW "$CARGO_TARGET_DIR/tools/quarry") == *.dep-v0* ]] \
    || fail "the command does not list its packages"
say "the ABI, beside that of the last version"
if command -v abidiff > /dev/null; then
    quiet abi env scripts/abi.sh
    sed 's/^/    /' "$logs/abi"
else
    skip "the comparison of ABIs: no abidiff (Debian's abigail-tools)"
fi

say "the wheel and the package for npm"
packages() {
    QUARRY_IS_BUILT=yes scripts/wheel.sh \
        && { ! command -v npm > /dev/null || QUARRY_IS_BUILT=yes scripts/wheel.sh --npm; } \
        && cp "$target"/packages/*.{whl,tgz} "$folder"
}
twice packages "*.whl *malloc*.tgz" packages

say "Debian packages"
quiet debian-build make --no-print-directory packaged
debian_packages() {
    QUARRY_IS_BUILT=yes scripts/deb.sh && cp "$CARGO_TARGET_DIR"/deb/*.deb "$folder"
}
twice debian "*_amd64.deb" debian_packages
if command -v aarch64-linux-gnu-gcc > /dev/null \
    && [[ $(rustup target list --installed 2> /dev/null) == *aarch64-unknown-linux-gnu* ]]; then
    arm64_packages() { scripts/deb.sh --arm64 && cp "$CARGO_TARGET_DIR"/deb-arm64/*.deb "$folder"; }
    twice debian-arm64 "*_arm64.deb" arm64_packages
else
    skip "the packages for arm64: no aarch64-linux-gnu-gcc, or no target of rustup for aarch64"
fi

if [[ ${1:-} == --quick ]]; then
    skip "the archive of make dist: --quick"
else
    say "the archive of make dist"
    dist() { scripts/dist.sh && cp "$target"/dist/*.tar.gz "$folder"; }
    twice dist "quarry-$version-$machine-linux.tar.gz" dist
fi

say "bills of materials"
if cargo cyclonedx --version > /dev/null 2>&1; then
    # The tool writes one beside the manifest of each package of the workspace, with its path. It
    # takes the features of all: that of the library lists allocator-api2, which is not in it.
    bills() {
        cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps \
            --target "$machine-unknown-linux-gnu" --override-filename release-bill \
            && sed "s|file://$PWD|file:///quarry|" malloc/preload/release-bill.json \
                > "$folder/libquarry.so.cdx.json" \
            && sed "s|file://$PWD|file:///quarry|" bench/cli/release-bill.json \
                > "$folder/quarry.cdx.json" \
            && git ls-files -z --others '*/release-bill.json' | xargs -0 rm
    }
    twice bills "*.cdx.json" bills
else
    skip "bills of materials: no cargo-cyclonedx (scripts/setup.sh release installs it)"
fi

say "the crates, in the order in which they depend on each other"
crates=()
for manifest in {malloc,bench}/*/Cargo.toml; do
    grep -q '^publish = false' "$manifest" \
        || crates+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n1)")
done
# scripts/crates-test.sh, which is part of `make test-all`, compiles each from its package.
quiet crates cargo publish --dry-run --no-verify --locked --target-dir "$target/crates" \
    "${crates[@]}"
sed -n 's/^ *Uploading \([^ ]* [^ ]*\).*/    \1/p' "$logs/crates"
last=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2> /dev/null || true)
if [[ -z $last ]]; then
    skip "cargo semver-checks: there is no earlier version to compare with"
elif cargo semver-checks --version > /dev/null 2>&1; then
    quiet semver cargo semver-checks --baseline-rev "$last" -p quarry-alloc
else
    skip "cargo semver-checks: it is not installed"
fi

say "signed sums"
key=${QUARRY_SIGNING_KEY:-$logs/key}
if [[ -z ${QUARRY_SIGNING_KEY:-} ]]; then
    ssh-keygen -q -t ed25519 -N '' -C 'a dry run of the release' -f "$key"
    skip "the key of the release: QUARRY_SIGNING_KEY is not set, and a key was made for this run"
fi
(
    cd "$folder"
    sha256sum -- * > SHA256SUMS
    ssh-keygen -q -Y sign -n quarry-release -f "$key" SHA256SUMS 2> /dev/null
    printf 'quarry namespaces="quarry-release" %s\n' "$(cut -d' ' -f1,2 "$key.pub")" > signers
)
# genuine FILE: whether the signature is that of FILE.
genuine() {
    ssh-keygen -Y verify -n quarry-release -I quarry -f "$folder/signers" \
        -s "$folder/SHA256SUMS.sig" < "$1" > /dev/null 2>&1
}
genuine "$folder/SHA256SUMS" || fail "the signature is not that of SHA256SUMS"
sed '1s/^./x/' "$folder/SHA256SUMS" > "$logs/forged"
! genuine "$logs/forged" || fail "the signature is also that of another file"
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)

say "ready in $folder, $(du -sh "$folder" | cut -f1) in $(ls "$folder" | wc -l) files"
for it in "${skipped[@]}"; do
    echo "    not done: $it"
done
cat << END
    To publish: git tag --sign --file $folder/NOTES.md v$version
                cargo publish --locked ${crates[*]}
                the files of $folder onto the page of the release, then pip and npm
END
