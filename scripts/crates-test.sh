#!/usr/bin/env bash
# Packages the crates that the registry may get, and compiles each from its package alone, as
# `cargo publish` does. Those that stay here say so in their manifests.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=()
for manifest in {crates,bench,lab}/*/Cargo.toml; do
    grep -q '^publish = false' "$manifest" \
        || packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n1)")
done
echo "packages: ${packages[*]}"
trap 'rm -rf "$target/crates"' EXIT
# Cargo unpacks each package below a name that stands for this folder and the version, and never
# looks again whether it is the same: what an earlier run has left there goes first.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{src,cache}/-*/quarry-*
cargo package --allow-dirty --target-dir "$target/crates" "${packages[@]}"
# The folder below the packages holds what was compiled.
ls "$target"/crates/package/*.crate
# Without the feature that opens its inside, as programs have it, the library has no warning.
RUSTFLAGS="${RUSTFLAGS:-} -D warnings" \
    cargo check -p quarry-alloc --target-dir "$target/crates/package"
