//! `quarry lab`, `quarry record` and `quarry simulate`: run `quarry-lab`, as git runs `git-foo`.

use quarry_cli::completions::VARIABLE;
use quarry_cli::exit_status::report;
use quarry_compare::companion;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const LAB: &str = "quarry-lab";

/// Lets `quarry-lab` complete a command line that it would run; returns for any other line.
pub(crate) fn complete() {
    const INDEX: &str = "_CLAP_COMPLETE_INDEX";
    let index = env::var(INDEX).ok().and_then(|it| it.parse::<usize>().ok());
    let words: Vec<OsString> = env::args_os().skip_while(|it| it != "--").skip(1).collect();
    let (Some(verb), Some(_)) = (words.get(1), env::var_os(VARIABLE)) else { return };
    let dropped = match verb.to_str() {
        Some("lab") => 2,
        Some("record" | "simulate") => 1,
        _ => return,
    };
    let Ok(file) = companion::find(LAB, "QUARRY_LAB") else { return };
    if words.len() > dropped {
        let mut command = Command::new(file);
        if let Some(index) = index {
            command.env(INDEX, (index + 1).saturating_sub(dropped).to_string());
        }
        // If the execution fails, this command completes what it can.
        let _ = command.arg("--").arg(LAB).args(&words[dropped..]).exec();
    }
}

/// The arguments of `quarry-lab`, unread.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    /// The pages quarry-lab(1), quarry-lab-record(1) and quarry-lab-simulate(1) list the options.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Executes `quarry-lab` with `verb` before the arguments; if that fails, returns a status.
    pub(crate) fn become_lab(&self, verb: Option<&str>) -> i32 {
        let file = match companion::find(LAB, "QUARRY_LAB") {
            Ok(file) => file,
            Err(error) => {
                let verb = verb.unwrap_or("lab");
                return report(Err(error.context(format!("`quarry {verb}` needs {LAB}"))));
            }
        };
        let error = Command::new(&file).args(verb).args(&self.arguments).exec();
        report(Err(anyhow::Error::new(error).context(file.display().to_string())))
    }
}
