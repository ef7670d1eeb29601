//! Programs that a script drives: servers with their databases, and work that takes more than one
//! command.
//!
//! A script is `NAME.sh VERB FOLDER SIZE`, where SIZE is `full` or `quick`:
//!
//! ```text
//! about    describes the program on lines `KEY: VALUE` ([`Script`]); if the program is absent it
//!          fails, and its last line on standard error says what to install
//! prepare  puts into FOLDER what samples need; its time is not measured
//! run      does the work in FOLDER, checks it, prints the same every time, and leaves no process
//! ```
//!
//! If `LAB_REST` is set, a server's script pauses, and adds lines `COUNTER BYTES` to FOLDER/rest.

use crate::ready_program::{Check, Label, ReadyProgram};
use anyhow::{Context, Result, bail};
use quarry_compare::{Launcher, Program};
use quarry_harness::launch::{end_of, last_line, preload_into};
use quarry_harness::usage::Usage;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of a sample; one that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(180);
/// The ending of scripts. Files of their folder with another ending are what scripts need.
const ENDING: &str = "sh";
/// The name of a file that scripts share; it is not a script itself.
const SHARED: &str = "common";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    label: Label,
    /// Maximum number of pairs of samples (`rounds`), for programs that take long.
    pub(crate) rounds: Option<u32>,
    /// True if each run has the same amount of work (`work: fixed`), so that times can be compared.
    /// Scripts with `work: random` kill something at a random moment.
    pub(crate) is_fixed: bool,
    /// True if a server is driven (`kind: server`).
    pub(crate) is_server: bool,
    /// True if the program has its own allocator, and a preloaded one serves only the remaining
    /// calls (`malloc: own`).
    pub(crate) has_own_malloc: bool,
    file: PathBuf,
}

impl Script {
    /// Names of the scripts in `folder`, sorted.
    pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
        let entries = fs::read_dir(folder).map_err(|error| {
            let folder = folder.display();
            Usage(format!("--scripts {folder}: {error}; accepted: scripts/programs of the source"))
        })?;
        let name = |path: PathBuf| {
            let is_script = path.extension().is_some_and(|ending| ending == ENDING);
            let name = path.file_stem()?.to_str()?.to_owned();
            (is_script && name != SHARED).then_some(name)
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| name(entry.path())).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Runs a script's `about`.
    ///
    /// # Errors
    /// The program is absent (what to install), or `about` is incomplete (what is missing).
    pub(crate) fn ask(folder: &Path, name: &str) -> Result<Self> {
        let file = folder.join(name).with_extension(ENDING).canonicalize()?;
        let output = Command::new("bash").arg(&file).arg("about").output().context("bash")?;
        if !output.status.success() {
            let said = last_line(&output.stderr);
            bail!("{name}: {}", said.as_deref().unwrap_or("`about` failed"));
        }
        Self::parse(name, file, &String::from_utf8_lossy(&output.stdout))
    }

    fn parse(name: &str, file: PathBuf, text: &str) -> Result<Self> {
        let pairs: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once(": ")).collect();
        let word = |key: &str| {
            let value = pairs.get(key).with_context(|| format!("{name}: about: no {key}"))?;
            Ok::<_, anyhow::Error>((*value).to_owned())
        };
        let choice = |key: &str, usual: &str, other: &str| match pairs.get(key) {
            Some(value) if *value == other => Ok(true),
            Some(value) if *value != usual => {
                bail!("{name}: about: {key}: {value}; accepted: {usual}, {other}")
            }
            _ => Ok(false),
        };
        let rounds = pairs.get("rounds").map(|text| text.parse());
        Ok(Self {
            label: Label { name: name.to_owned(), version: word("version")?, what: word("what")? },
            rounds: rounds.transpose().with_context(|| format!("{name}: about: rounds"))?,
            is_fixed: !choice("work", "fixed", "random")?,
            is_server: choice("kind", "program", "server")?,
            has_own_malloc: choice("malloc", "preloaded", "own")?,
            file,
        })
    }

    /// Lets the script prepare a folder, and runs it once on glibc, with calls of malloc counted.
    pub(crate) fn make_ready(self, quick: bool, launcher: &Launcher) -> Result<ReadyProgram> {
        let folder = tempfile::Builder::new().prefix("quarry-driven").tempdir()?;
        // Lets servers that refuse to run as root reach their folders below this one.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        let size = if quick { "quick" } else { "full" };
        self.prepare(folder.path(), size)?;
        let words = [self.file.as_os_str(), "run".as_ref(), folder.path().as_os_str()];
        let words = ["bash".as_ref()].into_iter().chain(words).chain([size.as_ref()]);
        let program = Program {
            file: "/bin/bash".into(),
            command: words.map(ToOwned::to_owned).collect(),
            stdin: None,
            variables: Vec::new(),
            timeout: LIMIT,
            may_serve_itself: self.has_own_malloc,
            proportional: true,
            prepare: None,
            ignore_failure: false,
            idle_for: None,
            plan: None,
        };
        let Self { label, rounds, is_fixed, .. } = self;
        let mut ready =
            ReadyProgram::new(label, program, Check::Output(String::new()), folder, launcher)?;
        ready.last_round = rounds.unwrap_or(u32::MAX);
        ready.is_fixed = is_fixed;
        Ok(ready)
    }

    /// Prepares `folder` by the script, on the C library's allocator.
    fn prepare(&self, folder: &Path, size: &str) -> Result<()> {
        let mut command = Command::new("bash");
        command.arg(&self.file).arg("prepare").arg(folder).arg(size);
        preload_into(&mut command, None);
        let output = command.output().context("bash")?;
        if !output.status.success() {
            bail!("{}: prepare: {}", self.label.name, end_of(&output));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Script> {
        Script::parse("x", PathBuf::new(), text)
    }

    #[test]
    fn a_script_says_what_it_is() {
        let script = parsed("version: X 1.2\nwhat: counts: to ten\n").unwrap();
        let Label { version, what, .. } = &script.label;
        assert_eq!((version.as_str(), what.as_str()), ("X 1.2", "counts: to ten"));
        assert_eq!((script.rounds, script.is_fixed, script.has_own_malloc), (None, true, false));
        let text = "version: X\nwhat: y\nrounds: 3\nwork: random\nmalloc: own\n";
        let script = parsed(text).unwrap();
        assert_eq!((script.rounds, script.is_fixed, script.has_own_malloc), (Some(3), false, true));
    }

    #[test]
    fn what_a_script_leaves_out_or_misspells_is_told() {
        assert_eq!(parsed("what: y\n").unwrap_err().to_string(), "x: about: no version");
        let error = parsed("version: X\nwhat: y\nwork: some\n").unwrap_err().to_string();
        assert_eq!(error, "x: about: work: some; accepted: fixed, random");
        assert!(parsed("version: X\nwhat: y\nrounds: few\n").is_err());
    }

    #[test]
    fn scripts_are_listed_without_what_they_share() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.sh", "a.sh", "common.sh", "a.sql"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(Script::names(folder.path()).unwrap(), ["a", "b"]);
        assert!(Script::names(&folder.path().join("none")).is_err());
    }

    #[test]
    fn an_absent_program_is_told_in_the_words_of_its_script() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.sh"), "echo >&2 'apt-get install it'; exit 3").unwrap();
        let error = Script::ask(folder.path(), "a").unwrap_err().to_string();
        assert_eq!(error, "a: apt-get install it");
    }
}
