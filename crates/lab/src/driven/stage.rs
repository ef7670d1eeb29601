//! One program, prepared: its folder, a first run on glibc, its samples.

use super::Script;
use anyhow::{Context, Result};
use quarry_compare::contenders::Contender;
use quarry_compare::{Launcher, Probe, Program, difference};
use quarry_harness::runner::Taken;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

/// A sample that takes so long has failed.
const LIMIT: Duration = Duration::from_secs(180);

/// A program that is there, with its work.
pub(crate) struct Stage {
    /// Which.
    pub(crate) script: Script,
    /// How much of it the allocator is, as a run under the counter showed.
    pub(crate) probe: Probe,
    program: Program,
    reference: Vec<u8>,
    _folder: TempDir,
}

impl Stage {
    /// Prepares its folder, and runs it once on glibc under the counter: what it prints then is
    /// what it must print on every allocator.
    ///
    /// # Errors
    /// Where it does not work here even on glibc.
    pub(crate) fn set(script: Script, quick: bool, launcher: &Launcher<'_>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("quarry-driven").tempdir()?;
        // Servers that refuse to run as root have folders of their own in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        let size = if quick { "quick" } else { "full" };
        script.prepare(folder.path(), size)?;
        let words = [script.file.as_os_str(), "run".as_ref(), folder.path().as_os_str()];
        let words = ["bash".as_ref()].into_iter().chain(words).chain([size.as_ref()]);
        let program = Program {
            file: "/bin/bash".into(),
            command: words.map(ToOwned::to_owned).collect(),
            stdin: None,
            variables: Vec::new(),
            timeout: LIMIT,
            may_serve_itself: script.has_own_malloc,
            proportional: true,
        };
        let raw = launcher.probe(&program, None);
        let raw = raw.with_context(|| format!("{} on glibc", script.name))?;
        let probe = Probe::of(&raw, &program.file);
        Ok(Self { script, probe, program, reference: raw.stdout, _folder: folder })
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
        let (raw, served_by) = launcher.take(&self.program, contender, false, None)?;
        if let Some(what) = difference(&self.reference, &raw.stdout) {
            return Err(format!("a wrong result: printed something else than on glibc: {what}"));
        }
        let mut measurement = raw.measurement(&served_by);
        measurement.verified = 1;
        Ok(Taken { measurement, timeline: Some(raw.timeline()) })
    }
}
