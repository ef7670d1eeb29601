//! Settings of the kernel that are restored, and folders that are removed, when their owner drops
//! them or this process dies, even if it is killed.
//!
//! A shell does this: it waits for the end of a pipe that only this process writes to, so the pipe
//! ends when this process closes it or dies.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Waits for a line that never comes; ignores the signals of a terminal.
const WAIT: &str = "trap '' INT TERM HUP QUIT; echo ready; read -r _; ";

/// A shell that waits for the end of its holder.
struct Keeper(Child);

impl Keeper {
    fn start(script: &str, arguments: &[&Path]) -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("{WAIT}{script}"), "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("no shell that would put things in order")?;
        let mut ready = String::new();
        let answer = shell.stdout.take().context("the shell has a pipe")?;
        BufReader::new(answer).read_line(&mut ready)?;
        ensure!(ready == "ready\n", "the shell that would put things in order does not run");
        Ok(Self(shell))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A changed setting of the kernel, restored at the drop.
pub(crate) struct Knob {
    _keeper: Keeper,
}

impl Knob {
    /// Writes `value` into the file of a setting.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn set(file: &Path, value: &str) -> Result<Self> {
        let old = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let keeper = Keeper::start("printf %s \"$1\" > \"$2\"", &[Path::new(old.trim()), file])?;
        fs::write(file, value).with_context(|| format!("{}: {value}", file.display()))?;
        Ok(Self { _keeper: keeper })
    }
}

/// A new folder, removed with its content at the drop.
pub(crate) struct Folder {
    path: PathBuf,
    _keeper: Keeper,
}

impl Folder {
    /// Creates a folder in `place`.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub(crate) fn within(place: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("quarry-lab-").tempdir_in(place);
        let folder = folder.with_context(|| format!("no folder in {}", place.display()))?;
        let keeper = Keeper::start("rm -rf -- \"$1\"", &[folder.path()])?;
        Ok(Self { path: TempDir::keep(folder), _keeper: keeper })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn setting() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("setting");
        fs::write(&file, "7\n").unwrap();
        (folder, file)
    }

    #[test]
    fn a_setting_comes_back_when_it_is_dropped() {
        let (_folder, file) = setting();
        let knob = Knob::set(&file, "8").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "8");
        drop(knob);
        assert_eq!(fs::read_to_string(&file).unwrap(), "7");
        assert!(Knob::set(Path::new("/no/such/setting"), "8").is_err());
    }

    #[test]
    fn a_folder_goes_with_its_files() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::within(place.path()).unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    /// The test starts itself as the holder, then kills the holder.
    #[test]
    fn a_setting_comes_back_when_its_holder_is_killed() {
        const HOLDS: &str = "QUARRY_TEST_HOLDS";
        if let Some(file) = std::env::var_os(HOLDS) {
            let _knob = Knob::set(Path::new(&file), "8").unwrap();
            thread::sleep(Duration::from_secs(60));
            return;
        }
        let (_folder, file) = setting();
        let name = "witness::knob::tests::a_setting_comes_back_when_its_holder_is_killed";
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(HOLDS, &file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let wait_for = |value: &str| {
            while fs::read_to_string(&file).unwrap() != value {
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for("8");
        holder.kill().unwrap();
        holder.wait().unwrap();
        wait_for("7");
    }
}
