//! `quarry lab`, `quarry record` and `quarry simulate`: run `quarry-lab`, as git runs `git-foo`.

use anyhow::anyhow;
use quarry_cli::exit_status::report;
use quarry_compare::companion;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const LAB: &str = "quarry-lab";

/// The arguments of `quarry-lab`, unread.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Executes `quarry-lab` with `verb` before the arguments; if that fails, returns a status.
    pub(crate) fn become_lab(&self, verb: Option<&str>) -> i32 {
        let Ok(file) = companion::find(LAB, "QUARRY_LAB") else {
            return report(Err(anyhow!(
                "`quarry {}` needs {LAB}, which is not beside this command: build it (`make lab`) \
                 or name it in QUARRY_LAB",
                verb.unwrap_or("lab"),
            )));
        };
        let error = Command::new(&file).args(verb).args(&self.arguments).exec();
        report(Err(anyhow::Error::new(error).context(file.display().to_string())))
    }
}
