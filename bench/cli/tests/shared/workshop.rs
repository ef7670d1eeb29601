//! A stand-in for the library, and the path of the library itself. The tests of the lab include
//! this file as well.

use assert_cmd::Command;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder with a shared object that only reports that it was loaded.
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// Builds the stand-ins for the default library and for the one with the policy `slub-4.9`.
    pub(crate) fn new() -> Self {
        let shop = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        shop.compile("libquarry.so", "int quarry_stand_in;\n", &["-shared", "-fPIC"]);
        fs::copy(shop.path("libquarry.so"), shop.path("libquarry-slub-4.9.so")).expect("a copy");
        shop
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles C with `cc`.
    pub(crate) fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (input, output) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&input, source).expect("a source file");
        let mut cc = std::process::Command::new("cc");
        let status = cc.args(options).arg("-o").arg(&output).arg(&input).status();
        assert!(status.expect("cc is installed").success(), "{name}");
        output
    }

    /// Writes an executable file.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path
    }
}

/// The command without the variables `QUARRY_*` that the environment may have.
pub(crate) fn without_settings(mut command: Command) -> Command {
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("QUARRY_")) {
        command.env_remove(key);
    }
    command.env_remove("LD_PRELOAD");
    command
}

/// `libquarry.so` itself: `QUARRY_LIBRARY`, else the release build beside these tests; without one
/// there is nothing to test, and a line reports it. `scripts/test.sh` builds it first.
pub(crate) fn real_library() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("release/libquarry.so");
    let library = std::env::var_os("QUARRY_LIBRARY").map_or(built, PathBuf::from);
    if library.is_file() {
        return Some(library);
    }
    skipped(&format!("no {}", library.display()));
    None
}

/// Reports that the running test, or the part of it that `why` names first, is skipped. Writes past
/// the test harness, which captures the output of tests that pass.
pub(crate) fn skipped(why: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("it is open");
}
