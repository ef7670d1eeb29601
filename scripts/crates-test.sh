#!/usr/bin/env bash
# Packages the crates that may be published, and compiles each from its package alone, as
# `cargo publish` does. The manifests of all others have `publish = false`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=()
for manifest in {malloc,bench}/*/Cargo.toml; do
    grep -q '^publish = false' "$manifest" \
        || packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n1)")
done
echo "packages: ${packages[*]}"
trap 'rm -rf "$target/crates"' EXIT
# Cargo unpacks each package into a folder that is named by this folder and the version, and does
# not notice when the package has changed: so the folders of earlier runs are removed first.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{src,cache}/-*/quarry-*
cargo package --allow-dirty --target-dir "$target/crates" "${packages[@]}"
# The folder below the packages holds what was compiled.
ls "$target"/crates/package/*.crate
# Programs use the library without the feature `internals`: there it must have no warning, either.
for features in '' override; do
    RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check -p quarry-alloc --features "$features" \
        --target-dir "$target/crates/package"
done

# The lock file of a program that depends on the packages, with all features: its reviewers read it.
user=$target/crates/user
wanted='libc quarry-alloc quarry-cache quarry-mm quarry-record quarry-sys quarry-watch user'
mkdir -p "$user/src"
touch "$user/src/lib.rs"
{
    printf '[package]\nname = "user"\nedition = "2024"\n[workspace]\n[dependencies]\n'
    printf 'quarry-alloc = { version = "0.1", features = [%s] }\n' \
        '"checks", "override", "page-cache", "profile"'
    printf '[patch.crates-io]\n'
    for name in $wanted; do
        [[ $name == quarry-* ]] || continue
        tar --extract --directory "$user" --file "$target/crates/package/$name"-*.crate
        printf '%s = { path = "%s" }\n' "$name" "$(basename "$user/$name"-*)"
    done
} > "$user/Cargo.toml"
cargo generate-lockfile --quiet --manifest-path "$user/Cargo.toml"
found=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$user/Cargo.lock" | xargs)
[[ $found == "$wanted" ]] || {
    echo "crates-test: a lock file gains '$found', and may gain '$wanted'" >&2
    exit 1
}
echo "a lock file gains: ${wanted% user}"

# A stripped program that only sets the global allocator may grow by this much, with fat LTO too,
# which copies functions into all their callers: into the standard library the fast `free`.
most=$((588 << 10))
service=$target/crates/service
mkdir -p "$service/src"
cat > "$service/Cargo.toml" <<TOML
[package]
name = "service"
edition = "2024"
[workspace]
[dependencies]
quarry = { package = "quarry-alloc", path = "$PWD/malloc/quarry", optional = true }
[profile.release]
strip = true
[profile.lto]
inherits = "release"
lto = true
TOML
cat > "$service/src/main.rs" <<'RUST'
#[cfg(feature = "quarry")]
#[global_allocator]
static A: quarry::Quarry = quarry::Quarry;

fn main() {
    let threads = (0..4).map(|it| std::thread::spawn(move || vec![it; 1000].len()));
    println!("{}", threads.map(|it| it.join().unwrap()).sum::<usize>());
}
RUST
for profile in release lto; do
    declare -A bytes=()
    for features in '' quarry; do
        cargo build --quiet --profile "$profile" --manifest-path "$service/Cargo.toml" \
            --features "$features" --target-dir "$service/target"
        bytes[with$features]=$(stat -c %s "$service/target/$profile/service")
    done
    more=$((bytes[withquarry] - bytes[with]))
    echo "a stripped service, profile $profile: ${bytes[with]} bytes, with Quarry $more more"
    ((more <= most)) || { echo "crates-test: $most bytes are the most" >&2; exit 1; }
done
