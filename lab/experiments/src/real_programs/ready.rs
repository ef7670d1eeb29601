//! Makes a program ready: its files in a new folder, its command, its check.

use super::{Proof, RealProgram, clients};
use crate::ready_program::{Check, Label, ReadyProgram, Server};
use anyhow::{Context, Result};
use quarry_compare::{Launcher, Program, allocators};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time of a sample; a longer one has failed.
const LIMIT: Duration = Duration::from_secs(60);

impl RealProgram {
    /// Writes the program's files, and runs it once on glibc, with its calls of malloc counted.
    /// `file` is its executable.
    pub(crate) fn make_ready(
        &self,
        file: PathBuf,
        quick: bool,
        launcher: &Launcher,
    ) -> Result<ReadyProgram> {
        let folder = tempfile::Builder::new().prefix("quarry-real").tempdir()?;
        let amount = self.amount(quick);
        let program = program(self, file, folder.path(), amount)?;
        let check = match &self.proof {
            Proof::Prints { full, quick: less } => {
                Check::Output(if quick { less } else { full }.clone())
            }
            &Proof::Replies(server) => {
                server.protocol().prepare(folder.path())?;
                let socket = folder.path().join("socket");
                let place = socket.clone();
                let clients = Box::new(move |runs: &dyn Fn() -> bool| {
                    clients::ask(&*server.protocol(), &place, amount, runs)
                });
                Check::Clients(Server { socket, clients })
            }
        };
        let package = allocators::installed(&self.package);
        let label = Label {
            name: self.name.to_owned(),
            version: package.unwrap_or_else(|| self.name.to_owned()),
            what: self.what.clone(),
        };
        ReadyProgram::new(label, program, check, folder, launcher)
    }
}

fn program(what: &RealProgram, file: PathBuf, folder: &Path, amount: u64) -> Result<Program> {
    let place = folder.to_str().context("TMPDIR is not UTF-8")?;
    let fill = |text: &str| text.replace("@DIR@", place).replace("@AMOUNT@", &amount.to_string());
    for (name, content) in &what.files {
        let text = fill(&content.text(amount));
        fs::write(folder.join(name), text).with_context(|| format!("{place}/{name}"))?;
    }
    let words = std::iter::once(&what.executable).chain(&what.arguments);
    let set = |(key, value): (&String, &String)| (key.clone(), OsString::from(value));
    Ok(Program {
        file,
        command: words.map(|word| fill(word).into()).collect(),
        stdin: what.stdin.as_ref().map(|name| folder.join(name)),
        variables: what.variables.iter().map(set).collect(),
        timeout: LIMIT,
        may_serve_itself: false,
        proportional: true,
        prepare: None,
        ignore_failure: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_programs::ALL;
    use quarry_compare::Interrupt;
    use std::rc::Rc;

    #[test]
    fn what_fails_on_glibc_is_told_before_the_first_sample() {
        let launcher = Launcher::new(Rc::new(Interrupt::listen().unwrap())).unwrap();
        let nowhere = "/no/such/program".into();
        // In this test the supervisor would be the test's executable, not `quarry`.
        let error = ALL[0].make_ready(nowhere, true, &launcher).err().unwrap();
        assert!(format!("{error:#}").starts_with("redis on glibc: "), "{error:#}");
    }

    #[test]
    fn places_and_amounts_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let lua = ALL.iter().find(|it| it.name == "lua").unwrap();
        let program = program(lua, "/bin/lua".into(), folder.path(), 9).unwrap();
        let script = folder.path().join("trees.lua");
        assert_eq!(program.command, ["lua5.4".into(), script.clone().into_os_string()]);
        assert!(fs::read_to_string(script).unwrap().contains("local depth = 9\n"));
    }
}
