//! Finds or builds the shared object under test.

use quarry_mm::slab::{RegisteredPolicy, SLAB_POLICIES};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns whether another allocator stands in for Quarry, to try the programs themselves.
pub(crate) fn testing_a_peer() -> bool {
    std::env::var_os("TEST_PEER").is_some()
}

/// The shared object to preload: `QUARRY_LIBRARY`, or the release build, made at the first call.
/// `None` only when a peer is tested and no library is named: plain glibc.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_deref()
}

/// The slab policy of a shared object, by its name: `libquarry.so` has the default one.
pub(crate) fn slab_policy(library: &Path) -> &str {
    let name = library.file_name().and_then(|name| name.to_str()).expect("a file");
    let policy = name.strip_prefix("libquarry-").and_then(|name| name.strip_suffix(".so"));
    policy.unwrap_or(SLAB_POLICIES[0].name)
}

/// The shared objects of all slab policies that lie beside the one under test.
pub(crate) fn libraries() -> impl Iterator<Item = PathBuf> {
    let own = library().expect("the library is under test");
    let name = |policy: &RegisteredPolicy| match policy.name == SLAB_POLICIES[0].name {
        true => "libquarry.so".to_owned(),
        false => format!("libquarry-{}.so", policy.name),
    };
    let all = SLAB_POLICIES.iter().map(move |policy| own.with_file_name(name(policy)));
    all.filter(|file| file.exists())
}

fn find() -> Option<PathBuf> {
    match std::env::var_os("QUARRY_LIBRARY") {
        Some(file) => {
            let file = PathBuf::from(file);
            Some(file.canonicalize().unwrap_or_else(|error| {
                panic!("QUARRY_LIBRARY={} cannot be used: {error}", file.display())
            }))
        }
        None if testing_a_peer() => None,
        None => Some(build()),
    }
}

/// Builds the release shared object into the target directory that these tests were built in.
fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("<target>/tmp");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "quarry-preload", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "the library does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = target.join("release/libquarry.so");
    let strip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/strip.sh");
    let stripped = Command::new(strip).arg(&file).status().expect("the script runs");
    assert!(stripped.success(), "{} cannot be stripped", file.display());
    file
}
