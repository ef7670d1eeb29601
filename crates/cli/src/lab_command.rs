//! `quarry lab`, `quarry record` and `quarry simulate`: the command `quarry-lab`, as git finds
//! `git-foo`.

use quarry_cli::exit_status::report;
use quarry_compare::companion;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The command that has the lab.
const LAB: &str = "quarry-lab";

/// What `quarry-lab` is given, unread.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Becomes `quarry-lab`, with a verb of it in front. Returns the exit status if it is not there.
    pub(crate) fn become_lab(&self, verb: Option<&str>) -> i32 {
        let failure = match companion::find(LAB, "QUARRY_LAB") {
            Ok(file) => {
                let error = Command::new(&file).args(verb).args(&self.arguments).exec();
                anyhow::Error::new(error).context(file.display().to_string())
            }
            Err(error) => error,
        };
        report(Err(failure.context(match verb {
            Some(verb) => format!("`quarry {verb}` needs the lab"),
            None => "the lab is not part of this command".to_owned(),
        })))
    }
}
