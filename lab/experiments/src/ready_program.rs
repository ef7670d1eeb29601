//! A program and its work, ready to run on one allocator after the other.

use anyhow::{Context, Result, bail};
use quarry_compare::contenders::Contender;
use quarry_compare::{Clients, Launcher, Probe, Program, Raw, difference};
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use tempfile::TempDir;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) what: String,
}

pub(crate) enum Check {
    /// The program must print the same as in the first run on glibc, and its last line must contain
    /// these words.
    Output(String),
    Clients(Server),
}

pub(crate) struct Server {
    /// The socket, which is removed before each run: a killed server leaves it, and some servers
    /// then refuse to start.
    pub(crate) socket: PathBuf,
    pub(crate) clients: Box<Clients>,
}

/// An installed program with its work.
pub(crate) struct ReadyProgram {
    pub(crate) label: Label,
    /// The share of the program's time in the allocator, from a run that counted calls of malloc.
    pub(crate) probe: Probe,
    pub(crate) last_round: u32,
    /// True if each run has the same amount of work, so that times can be compared.
    pub(crate) is_fixed: bool,
    program: Program,
    check: Check,
    reference: Vec<u8>,
    folder: TempDir,
}

impl ReadyProgram {
    /// Runs the program once on glibc, with its calls of malloc counted ([`Launcher::probe`]). Its
    /// output there is the reference for every allocator.
    pub(crate) fn new(
        label: Label,
        program: Program,
        check: Check,
        folder: TempDir,
        launcher: &Launcher,
    ) -> Result<Self> {
        let on_glibc = || format!("{} on glibc", label.name);
        let raw = with_clients(&check, |clients| launcher.probe(&program, clients));
        let raw = raw.with_context(on_glibc)?;
        let probe = Probe::of(&raw, &program.file);
        if let Err(fault) = check.holds(&raw.stdout, &raw.stdout) {
            bail!("{}: {fault}", on_glibc());
        }
        Ok(Self {
            label,
            probe,
            last_round: u32::MAX,
            is_fixed: true,
            program,
            check,
            reference: raw.stdout,
            folder,
        })
    }

    /// Decides whether a server rests in the samples to come (`driven`).
    pub(crate) fn resting(mut self, rests: bool) -> Self {
        self.program.variables.extend(rests.then(|| ("LAB_REST".to_owned(), "yes".into())));
        self
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self.check, Check::Clients(_))
    }

    /// Takes a sample on an allocator, and checks the result.
    pub(crate) fn take(
        &self,
        contender: &Contender,
        launcher: &Launcher,
    ) -> Result<Taken, NoSample> {
        let (raw, served_by) = with_clients(&self.check, |clients| {
            launcher.take(&self.program, contender, false, clients)
        })?;
        self.check.holds(&raw.stdout, &self.reference)?;
        Ok(self.taken(&raw, &served_by))
    }

    fn taken(&self, raw: &Raw, served_by: &str) -> Taken {
        let mut measurement = raw.measurement(served_by);
        if !self.is_server() {
            // The output was right, so the one operation counts.
            measurement.verified = 1;
        }
        let rested = fs::read_to_string(self.folder.path().join("rest")).unwrap_or_default();
        let held = rested.lines().filter_map(|line| line.split_once(' '));
        let held = held.filter_map(|(name, bytes)| Some((name.to_owned(), bytes.parse().ok()?)));
        measurement.counters.extend(held);
        Taken { measurement, timeline: Some(raw.timeline()) }
    }
}

impl Check {
    fn holds(&self, printed: &[u8], reference: &[u8]) -> Result<(), String> {
        let Self::Output(expected) = self else { return Ok(()) };
        let text = String::from_utf8_lossy(printed);
        let last = text.lines().next_back().unwrap_or_default();
        if !last.contains(expected.as_str()) {
            return Err(format!("a wrong result: printed {last:?} where {expected:?} is right"));
        }
        let wrong = |what| format!("a wrong result: printed something else than on glibc: {what}");
        difference(reference, printed).map_or(Ok(()), |what| Err(wrong(what)))
    }
}

fn with_clients<T>(check: &Check, run: impl FnOnce(Option<&Clients>) -> T) -> T {
    match check {
        Check::Output(_) => run(None),
        Check::Clients(server) => {
            let _ = fs::remove_file(&server.socket);
            run(Some(&*server.clients))
        }
    }
}

pub(crate) struct ReadyPrograms {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) programs: Rc<Vec<ReadyProgram>>,
    pub(crate) launcher: Launcher,
}

impl Sampler for ReadyPrograms {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        let program = &self.programs[key.workload];
        if key.round > program.last_round {
            return Err(NoSample::LeftOut);
        }
        program.take(&self.contenders[key.variant], &self.launcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_told() {
        let reference = b"a\n12 nodes\n";
        let output = |expected: &str| Check::Output(expected.to_owned());
        let check = |printed: &[u8], expected| output(expected).holds(printed, reference);
        assert_eq!(check(reference, "12 nodes"), Ok(()));
        let fault = check(reference, "13 nodes").unwrap_err();
        assert_eq!(fault, r#"a wrong result: printed "12 nodes" where "13 nodes" is right"#);
        let fault = check(b"b\n12 nodes\n", "12 nodes").unwrap_err();
        let expected = "a wrong result: printed something else than on glibc: \
                        line 1: \"b\" instead of \"a\"";
        assert_eq!(fault, expected);
        assert!(output("12 nodes").holds(b"", b"").is_err(), "nothing at all");
    }
}
