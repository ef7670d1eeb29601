//! One program, ready to be run: its files in a folder of its own, its command, and its check.

use super::clients::{self, Protocol};
use super::{Content, Proof, RealProgram};
use anyhow::{Context, Result, bail};
use quarry_compare::contenders::Contender;
use quarry_compare::{Clients, Launcher, Probe, Program, Raw, difference};
use quarry_harness::runner::Taken;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A sample that takes so long has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that is there, with its work.
pub(crate) struct Stage {
    /// Which.
    pub(crate) what: &'static RealProgram,
    /// How much of it the allocator is, as a run under the counter showed.
    pub(crate) probe: Probe,
    program: Program,
    amount: u64,
    expected: &'static str,
    reference: Vec<u8>,
    folder: TempDir,
}

impl Stage {
    /// Writes its files, and runs it once on glibc under the counter: what it prints then is what
    /// it must print on every allocator.
    ///
    /// # Errors
    /// Where it does not work here even on glibc.
    pub(crate) fn set(
        what: &'static RealProgram,
        file: PathBuf,
        quick: bool,
        launcher: &Launcher<'_>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("quarry-real").tempdir()?;
        let amount = what.amount(quick);
        let program = program(what, file, folder.path(), amount)?;
        let expected = match what.proof {
            Proof::Prints { full, quick: less } => {
                if quick {
                    less
                } else {
                    full
                }
            }
            Proof::Replies(protocol) => {
                protocol().prepare(folder.path())?;
                ""
            }
        };
        let raw =
            with_clients(what, folder.path(), amount, |clients| launcher.probe(&program, clients));
        let raw = raw.with_context(|| format!("{} on glibc", what.name))?;
        let probe = Probe::of(&raw, &program.file);
        let reference = raw.stdout;
        let stage = Self { what, probe, program, amount, expected, reference, folder };
        if let Err(fault) = stage.check(&stage.reference) {
            bail!("{} on glibc: {fault}", what.name);
        }
        Ok(stage)
    }

    /// Takes a sample on an allocator, and checks what came of it.
    ///
    /// # Errors
    /// Why it does not count.
    pub(crate) fn take(
        &self,
        contender: &Contender,
        launcher: &Launcher<'_>,
    ) -> Result<Taken, String> {
        let (raw, served_by) =
            with_clients(self.what, self.folder.path(), self.amount, |clients| {
                launcher.take(&self.program, contender, false, clients)
            })?;
        self.check(&raw.stdout)?;
        Ok(taken(&raw, &served_by, self.what.is_server()))
    }

    fn check(&self, printed: &[u8]) -> Result<(), String> {
        if self.what.is_server() {
            return Ok(());
        }
        check(printed, self.expected, &self.reference)
    }
}

/// Compares what was printed with what must be: on its last line, and all of it with a first run.
fn check(printed: &[u8], expected: &str, reference: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(printed);
    let last = text.lines().next_back().unwrap_or_default();
    if !last.contains(expected) {
        return Err(format!("a wrong result: printed {last:?} where {expected:?} is right"));
    }
    match difference(reference, printed) {
        None => Ok(()),
        Some(what) => Err(format!("a wrong result: printed something else than on glibc: {what}")),
    }
}

fn taken(raw: &Raw, served_by: &str, is_server: bool) -> Taken {
    let mut measurement = raw.measurement(served_by);
    if !is_server {
        // What it printed was right: the one operation has happened.
        measurement.verified = 1;
    }
    Taken { measurement, timeline: Some(raw.timeline()) }
}

/// Runs `what` with its clients where it is a server, at a socket that is not there yet.
fn with_clients<T>(
    what: &RealProgram,
    folder: &Path,
    amount: u64,
    run: impl FnOnce(Option<Clients<'_>>) -> T,
) -> T {
    let Proof::Replies(protocol) = what.proof else { return run(None) };
    let socket = folder.join("socket");
    // A server that was killed leaves it behind, and some refuse to start then.
    let _ = fs::remove_file(&socket);
    run(Some(&|runs: &dyn Fn() -> bool| {
        let protocol: Box<dyn Protocol> = protocol();
        clients::ask(&*protocol, &socket, amount, runs)
    }))
}

fn program(what: &RealProgram, file: PathBuf, folder: &Path, amount: u64) -> Result<Program> {
    let place = folder.to_str().context("TMPDIR is not UTF-8")?;
    let fill = |text: &str| text.replace("@DIR@", place).replace("@AMOUNT@", &amount.to_string());
    for (name, content) in what.files {
        let text = match content {
            Content::Text(text) => fill(text),
            Content::Made(make) => make(amount),
        };
        fs::write(folder.join(name), text).with_context(|| format!("{place}/{name}"))?;
    }
    let words = std::iter::once(what.executable).chain(what.arguments.iter().copied());
    let set = |(key, value): &(&str, &str)| ((*key).to_owned(), OsString::from(value));
    Ok(Program {
        file,
        command: words.map(|word| fill(word).into()).collect(),
        stdin: what.stdin.map(|name| folder.join(name)),
        variables: what.variables.iter().map(set).collect(),
        timeout: LIMIT,
        may_serve_itself: false,
        proportional: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_programs::ALL;
    use quarry_compare::Interrupt;

    #[test]
    fn wrong_results_are_told() {
        let reference = b"a\n12 nodes\n";
        assert_eq!(check(reference, "12 nodes", reference), Ok(()));
        let fault = check(reference, "13 nodes", reference).unwrap_err();
        assert_eq!(fault, r#"a wrong result: printed "12 nodes" where "13 nodes" is right"#);
        let fault = check(b"b\n12 nodes\n", "12 nodes", reference).unwrap_err();
        let expected = "a wrong result: printed something else than on glibc: \
                        line 1: \"b\" instead of \"a\"";
        assert_eq!(fault, expected);
        assert!(check(b"", "12 nodes", b"").is_err(), "nothing at all");
    }

    #[test]
    fn what_fails_on_glibc_is_told_before_the_first_sample() {
        let interrupt = Interrupt::listen().unwrap();
        let launcher = Launcher::new(&interrupt).unwrap();
        let nowhere = "/no/such/program".into();
        // The supervisor is this executable, which is no `quarry` here.
        let error = Stage::set(&ALL[0], nowhere, true, &launcher).err().unwrap();
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
