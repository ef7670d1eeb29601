//! A setting of the kernel that comes back when its holder is gone, killed or not.
//!
//! The one who restores is another process: a shell that waits for the end of a pipe which only
//! this process holds. The pipe ends when this process drops the setting, and also when it dies of
//! any signal.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Reads one line at most, which never comes, and writes the old value; signals of a terminal are
/// not for it.
const RESTORE: &str = "trap '' INT TERM HUP QUIT; echo ready; read -r _; printf %s \"$1\" > \"$2\"";

/// A setting that is changed as long as this lives.
pub(crate) struct Knob {
    keeper: Child,
}

impl Knob {
    /// Writes `value` into the file of a setting.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn set(file: &Path, value: &str) -> Result<Self> {
        let old = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut keeper = Command::new("sh")
            .args(["-c", RESTORE, "sh", old.trim()])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("no shell that would restore the setting")?;
        let mut ready = String::new();
        let answer = keeper.stdout.take().context("the shell has a pipe")?;
        BufReader::new(answer).read_line(&mut ready)?;
        ensure!(ready == "ready\n", "the shell that would restore the setting does not run");
        let knob = Self { keeper };
        fs::write(file, value).with_context(|| format!("{}: {value}", file.display()))?;
        Ok(knob)
    }
}

impl Drop for Knob {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
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

    /// The test starts itself as the holder, and kills it.
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
