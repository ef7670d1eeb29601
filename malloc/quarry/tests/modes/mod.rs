//! Runs the tests of a binary once more in each mode of `docs/safety.md`.

use std::path::Path;
use std::process::Command;

/// The name of the tests that do so; a run in a mode leaves them out.
const OWN: &str = "in_every_mode";

const PROFILE: (&str, &str) = ("QUARRY_PROFILE_MEAN", "16");
const ALL: &[(&str, &str)] =
    &[("QUARRY_DEBUG", "FZPU"), ("QUARRY_HARDEN", "1"), ("QUARRY_GUARD", "1"), PROFILE];

const OTHERS: [&[(&str, &str)]; 4] = [
    &[("QUARRY_DEBUG", "FZPU")],
    &[("QUARRY_HARDEN", "1")],
    &[("QUARRY_GUARD", "all")],
    &[PROFILE],
];

/// Runs the tests of this binary, but for those whose names contain one of `left_out`, in a process
/// for each mode; where `TEST_STEP` asks for fewer cases, as `make test` does, with all instruments
/// at once.
pub(crate) fn run(left_out: &[&str]) {
    let binary = std::env::current_exe().expect("tests know where they are");
    let name = format!("modes-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir(&folder).expect("it is new");
    let others: &[_] = if std::env::var_os("TEST_STEP").is_some() { &[] } else { &OTHERS };
    for variables in [ALL].into_iter().chain(others.iter().copied()) {
        let mut command = Command::new(&binary);
        command.args(left_out.iter().chain([&OWN]).flat_map(|name| ["--skip", name]));
        if variables.contains(&PROFILE) {
            command.env("QUARRY_PROFILE", folder.join("%p"));
        }
        let output = command.envs(variables.iter().copied()).output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variables:?}: {}\n{told}\n{said}", output.status);
        assert!(!told.contains(" 0 passed"), "there are tests:\n{told}");
    }
    std::fs::remove_dir_all(folder).expect("it is ours");
}
