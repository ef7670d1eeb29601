//! Settings of the kernel, folders and mounts that are undone when their owner drops them or this
//! process dies, even if it is killed.
//!
//! A shell undoes the changes. It waits for the end of a pipe that only this process writes to; the
//! pipe ends when this process closes it or dies.

use anyhow::{Context, Result, ensure};
use quarry_harness::launch;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Shell commands that ignore the signals of a terminal and wait until standard input ends.
const WAIT: &str = "trap '' INT TERM HUP QUIT; echo ready; read -r _; ";

/// A shell that waits for the end of the process that started it.
struct Keeper(Child);

impl Keeper {
    fn start(script: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Self> {
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
    /// Writes `value` into the file of a setting. If a folder of its path is `*`, writes to every
    /// matching file that accepts the value.
    pub(crate) fn set(setting: &Path, value: &str) -> Result<Self> {
        let shown = || format!("{}: {value}", setting.display());
        let files = files(setting);
        let old = |file: &PathBuf| Some([fs::read_to_string(file).ok()?, file.to_str()?.into()]);
        let saved: Vec<[String; 2]> = files.iter().filter_map(old).collect();
        let words: Vec<&str> = saved.iter().flatten().map(|word| word.trim()).collect();
        let script = "while [ $# -gt 0 ]; do printf %s \"$1\" 2> /dev/null > \"$2\"; shift 2; done";
        let keeper = Keeper::start(script, &words)?;
        let write = |file: &PathBuf| {
            let mut file = File::options().write(true).truncate(true).open(file)?;
            file.write_all(value.as_bytes())
        };
        let mut written = files.iter().map(write).peekable();
        ensure!(written.peek().is_some(), "{}: no such setting", setting.display());
        written.reduce(|any, one| any.or(one)).transpose().with_context(shown)?;
        Ok(Self { _keeper: keeper })
    }
}

/// The files of a setting whose path may have a `*` for a folder.
pub(crate) fn files(setting: &Path) -> Vec<PathBuf> {
    let path = setting.to_string_lossy();
    let Some((parent, rest)) = path.split_once("/*/") else { return vec![setting.to_owned()] };
    let folders = fs::read_dir(parent).into_iter().flatten().flatten();
    // Links are left out: each is another name of a folder that matches as well.
    let folders = folders.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
    folders.map(|it| it.path().join(rest)).collect()
}

/// A new folder, removed with its content at the drop.
pub(crate) struct Folder {
    path: PathBuf,
    _keeper: Keeper,
}

impl Folder {
    /// Creates a folder in `place`.
    pub(crate) fn within(place: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("quarry-lab-").tempdir_in(place);
        let folder = folder.with_context(|| format!("no folder in {}", place.display()))?;
        let keeper = Keeper::start("rm -rf -- \"$1\"", &[folder.path()])?;
        Ok(Self { path: TempDir::keep(folder), _keeper: keeper })
    }

    /// Creates an ext4 file system in a file in `place`, and mounts it on a folder.
    ///
    /// # Errors
    /// If this process may not mount, or there is no ext4.
    pub(crate) fn in_image(place: &Path, bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("quarry-lab-").tempdir_in(place)?;
        let [image, path] = ["image", "mount"].map(|name| folder.path().join(name));
        fs::create_dir(&path)?;
        File::create(&image)?.set_len(bytes)?;
        let script = "umount \"$1/mount\" 2> /dev/null; rm -rf --one-file-system -- \"$1\"";
        let keeper = Keeper::start(script, &[folder.path()])?;
        let _ = TempDir::keep(folder);
        let made = Self { path, _keeper: keeper };
        run("mkfs.ext4", &["-qF".as_ref(), image.as_os_str()])?;
        run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), made.path.as_os_str()])?;
        Ok(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn run(program: &str, arguments: &[&OsStr]) -> Result<()> {
    let path = launch::place_of(program).with_context(|| format!("there is no {program}"))?;
    let output = Command::new(path).args(arguments).output()?;
    ensure!(output.status.success(), "{program}: {}", launch::end_of(&output));
    Ok(())
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
    fn settings_of_all_folders_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).join("order");
        for (name, value) in [("a", "1"), ("b", "2")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(file(name), value).unwrap();
        }
        let values = || ["a", "b"].map(|name| fs::read_to_string(file(name)).unwrap());
        let knob = Knob::set(&folder.path().join("*/order"), "7").unwrap();
        assert_eq!(values(), ["7", "7"]);
        drop(knob);
        assert_eq!(values(), ["1", "2"]);
        assert!(Knob::set(&folder.path().join("*/depth"), "7").is_err());
        assert!(Knob::set(&folder.path().join("none/*/order"), "7").is_err());
    }

    #[test]
    fn a_file_system_in_a_file_goes_with_its_files() {
        let place = tempfile::tempdir().unwrap();
        match Folder::in_image(place.path(), 16 << 20) {
            Ok(folder) => fs::write(folder.path().join("file"), "text").unwrap(),
            Err(error) => println!("skipped: {error:#}"),
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
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
