//! The command that is tested.

#[path = "../shared/streams.rs"]
pub(crate) mod streams;
#[path = "../shared/workshop.rs"]
mod workshop;

use assert_cmd::Command;
use std::path::Path;
pub(crate) use workshop::{Workshop, real_library, skipped, without_settings};

impl Workshop {
    /// `quarry run` with the stand-ins; the caller adds options and the program.
    pub(crate) fn run(&self) -> Command {
        let mut command = quarry();
        command.env("QUARRY_LIBRARY", self.path("")).arg("run");
        command
    }
}

/// The command, without the variables `QUARRY_*` that the environment may have.
pub(crate) fn quarry() -> Command {
    without_settings(Command::new(Path::new(env!("CARGO_BIN_EXE_quarry"))))
}
