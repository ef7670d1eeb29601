//! Finds or builds the shared object under test.

use quarry_mm::slab::{DefaultSlab, SlabPolicy};
use quarry_sys::percpu::NativeSlots;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The slab policy of `libquarry.so`.
pub(crate) const DEFAULT_SLAB: &str = <DefaultSlab as SlabPolicy<NativeSlots>>::NAME;

/// Returns whether another allocator replaces Quarry, to test the programs themselves.
pub(crate) fn testing_a_peer() -> bool {
    std::env::var_os("TEST_PEER").is_some()
}

/// The shared object to preload: `QUARRY_LIBRARY`, or the release build, made at the first call.
/// `None` only when a peer is tested and no library is named: plain glibc.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_deref()
}

/// The shared object with all functions of `quarry.h` and the checks: the one under test if it has
/// them, otherwise `libquarry-full.so` beside it.
pub(crate) fn full_library() -> Option<&'static Path> {
    static FULL: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let own = library()?;
        if is_full(own) {
            return Some(own.to_owned());
        }
        let full = own.with_file_name("libquarry-full.so");
        assert!(full.exists(), "{} is missing: `make build` makes it", full.display());
        Some(full)
    };
    FULL.get_or_init(find).as_deref()
}

/// Returns whether a shared object has the functions and checks that `libquarry.so` lacks.
pub(crate) fn is_full(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name != "libquarry.so")
}

/// The slab policy of a shared object, by the file's name: `libquarry.so` and `libquarry-full.so`
/// have the default policy.
pub(crate) fn slab_policy(library: &Path) -> &str {
    let name = library.file_name().and_then(|name| name.to_str()).expect("a file");
    let policy = name.strip_prefix("libquarry-").and_then(|name| name.strip_suffix(".so"));
    policy.filter(|policy| *policy != "full").unwrap_or(DEFAULT_SLAB)
}

/// `libquarry.so`, `libquarry-full.so` and the shared objects of other slab policies: those that
/// are beside the one under test, and for its C library.
pub(crate) fn libraries() -> impl Iterator<Item = PathBuf> {
    let folder = library().and_then(Path::parent).expect("the library is under test");
    let files = folder.read_dir().expect("its folder").map(|entry| entry.expect("a file").path());
    files.filter(|file| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix("libquarry").and_then(|rest| rest.strip_suffix(".so"));
        let rest = rest.filter(|rest| !rest.ends_with("-musl"));
        rest.is_some_and(|policy| policy.is_empty() || policy.starts_with('-'))
    })
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

/// The shared objects of the release, in the target directory in which these tests were built.
fn build() -> PathBuf {
    made("stripped-libraries").join("libquarry.so")
}

/// `libquarry.a`, made anew at the first call.
pub(crate) fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| made("static").join("libquarry.a"))
}

/// The folder of the release, after `make GOAL`.
fn made(goal: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("<target>/tmp");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new("make");
    let make = make.arg(goal).env("CARGO_TARGET_DIR", target).current_dir(root);
    let output = make.output().expect("make runs");
    assert!(
        output.status.success(),
        "make {goal} fails:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    target.join("release")
}
