//! `quarry lab`, `quarry record` and `quarry simulate`: the command `quarry-lab`, as git finds
//! `git-foo`.

use anyhow::anyhow;
use quarry_cli::exit_status::report;
use quarry_compare::companion;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The command that has the lab.
const LAB: &str = "quarry-lab";

/// The arguments of `quarry-lab`, unread.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Becomes `quarry-lab`, with a verb of it in front. Where it is not, returns the exit status.
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
