//! The command under test.

#[path = "../../../../bench/cli/tests/shared/streams.rs"]
pub(crate) mod streams;
#[path = "../../../../bench/cli/tests/shared/workshop.rs"]
mod workshop;

use assert_cmd::Command;
use std::path::Path;
pub(crate) use workshop::{Workshop, real_library, skipped, without_settings};

/// The command, without settings from the environment.
pub(crate) fn lab() -> Command {
    without_settings(Command::new(Path::new(env!("CARGO_BIN_EXE_quarry-lab"))))
}

/// The command, bound to the first CPU.
pub(crate) fn lab_on_one_cpu() -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_quarry-lab")]);
    without_settings(command)
}

/// True if `make lab` has built the tracer and the simulator; the test is skipped otherwise.
pub(crate) fn lab_is_built() -> bool {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("<target>/tmp");
    let parts = ["release/libquarry_tracer.so", "tools/quarry-sim"];
    let missing = parts.iter().find(|part| !target.join(part).is_file());
    if let Some(part) = missing {
        skipped(&format!("no {part}: `make lab` builds it"));
    }
    missing.is_none()
}
