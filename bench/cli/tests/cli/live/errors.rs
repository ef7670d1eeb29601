//! Processes whose statistics cannot be read: each says why, and what can be done.

use super::served::{Served, eventually, python};
use crate::support::{quarry, real_library, skipped};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

fn line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_process_without_quarry_and_no_process() {
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    // The kernel lets a parent go on before it renames the child.
    eventually("it has its name", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", sleep.id())).unwrap();
        if name == "sleep\n" { Ok(()) } else { Err(name) }
    });
    for verb in ["slabinfo", "buddyinfo", "zoneinfo", "vmstat", "lockstat", "top", "metrics", "ps"]
    {
        let mut command = quarry();
        let output = command.args([verb, "--pid", &sleep.id().to_string()]).output().unwrap();
        let line = line(&output);
        assert!(line.starts_with("quarry: sleep["), "{verb}: {line}");
        assert!(line.contains("does not run on Quarry: start it by `quarry run"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
    let pid = sleep.id().to_string();
    sleep.kill().unwrap();
    // A zombie has no files left.
    eventually("it has ended", || {
        let output = quarry().args(["slabinfo", "--pid", &pid]).output().unwrap();
        let line = line(&output);
        if line.contains("has ended") { Ok(()) } else { Err(line) }
    });
    sleep.wait().unwrap();
    let output = quarry().args(["slabinfo", "--pid", "4194304"]).output().unwrap();
    assert!(line(&output).starts_with("quarry: no process 4194304 here"));
    quarry().args(["slabinfo", "--pid", "0"]).assert().code(2);
}

#[test]
fn quarry_that_publishes_nothing() {
    let Some(library) = real_library() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.env("QUARRY_LIBRARY", &library).env("QUARRY_RECORD", "0");
    command.args(["run", "--", "/usr/bin/python3", "-c", &python("")]);
    let served = Served::spawn(command);
    let line = line(&served.look(&["slabinfo"]));
    assert!(line.contains("has Quarry loaded and publishes nothing"), "{line}");
}

/// The process asks for no memory after its first moments, and does not know that a reader waits.
#[test]
fn a_process_that_is_idle_from_its_start_on() {
    let idle = ["sh", "-c", "echo ready; exec sleep 1000"];
    let Some(library) = real_library() else { return };
    let recorded = |record: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
        command.env("QUARRY_LIBRARY", &library).env("QUARRY_RECORD", record);
        command.args(["run", "--"]).args(idle);
        Served::spawn(command)
    };
    let served = recorded("1");
    for verb in
        [&["top", "--once"][..], &["slabinfo"], &["profile", "--wait", "0", "--seconds", "0"]]
    {
        let output = served.look(verb);
        // On a slow machine the process may have published while it was starting.
        if !output.status.success() {
            let line = line(&output);
            assert!(line.contains(" MiB in memory, and has published nothing yet"), "{line}");
            assert!(line.contains("QUARRY_RECORD=live"), "{line}");
        }
    }
    let text = recorded("live").text(&["top", "--once"]);
    assert!(text.contains("malloc-"), "{text}");
}

const CLOSE: &str = "os.closerange(48, 8192)";
/// Gives the number of the page's descriptor to another file; the number exceeds the soft limit.
const REUSE: &str = "import resource as r; n = max(map(int, os.listdir('/proc/self/fd')))\n\
                     hard = r.getrlimit(r.RLIMIT_NOFILE)[1]\n\
                     r.setrlimit(r.RLIMIT_NOFILE, (hard, hard)); os.closerange(48, 8192)\n\
                     os.dup2(os.open('/dev/zero', os.O_RDONLY), n)";

/// Programs as a user without rights, in a folder that this user can read.
struct OtherUser {
    folder: TempDir,
    library: PathBuf,
}

impl OtherUser {
    /// `None` where the tests do not run as root, and so cannot become others.
    fn new() -> Option<Self> {
        let original = real_library()?;
        if !nix_is_root() {
            skipped("only root can become another user");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let library = folder.path().join("libquarry.so");
        fs::copy(original, &library).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_quarry"), folder.path().join("quarry")).unwrap();
        Some(Self { folder, library })
    }

    fn quarry(&self, user: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]);
        command.arg(self.folder.path().join("quarry")).env("QUARRY_LIBRARY", &self.library);
        command.current_dir(self.folder.path());
        command
    }

    /// A program that has its page from the start on.
    fn served(&self, user: &str, before: &str) -> Served {
        let mut command = self.quarry(user);
        command.env("QUARRY_RECORD", "1");
        command.args(["run", "--", "/usr/bin/python3", "-c", &python(before)]);
        Served::spawn(command)
    }

    fn look(&self, user: &str, served: &Served) -> Output {
        self.quarry(user).args(["slabinfo", "--pid", &served.pid()]).output().unwrap()
    }
}

fn nix_is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]))
}

#[test]
fn the_same_user_needs_no_rights_and_another_is_refused() {
    let Some(users) = OtherUser::new() else { return };
    let served = users.served("65533", "");
    eventually("the same user reads", || {
        let output = users.look("65533", &served);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(error) }
    });
    let refused = line(&users.look("65532", &served));
    assert!(refused.contains("belongs to user 65533: ask as that user"), "{refused}");
    let mut profile = users.quarry("65532");
    let refused = line(&profile.args(["profile", "--pid", &served.pid()]).output().unwrap());
    assert!(refused.starts_with("quarry: python3[") && refused.lines().count() == 1, "{refused}");
    let list = line(&users.quarry("65532").args(["ps", "--cgroup", "/"]).output().unwrap());
    assert!(list.starts_with("quarry: processes that this user may not look at: "), "{list}");
    assert!(served.text(&["slabinfo"]).starts_with("slabinfo - "), "root reads");
}

#[test]
fn a_process_that_is_not_dumpable_is_for_root() {
    let Some(users) = OtherUser::new() else { return };
    // PR_SET_DUMPABLE
    let served = users.served("65533", "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)");
    let line = line(&users.look("65533", &served));
    assert!(line.contains("is not dumpable") && line.contains("ask as root"), "{line}");
    assert!(served.text(&["slabinfo"]).starts_with("slabinfo - "), "root reads");
}

#[test]
fn a_closed_descriptor_is_for_root() {
    let Some(users) = OtherUser::new() else { return };
    for close in [CLOSE, REUSE] {
        let served = users.served("65533", close);
        let line = line(&users.look("65533", &served));
        assert!(line.contains("has closed the descriptor of its statistics"), "{line}");
        // The kernel lets only root follow the links of map_files.
        assert!(served.text(&["slabinfo"]).starts_with("slabinfo - "), "root reads");
    }
}

/// A page of a later layout: the error names that layout and the reader's.
#[test]
fn another_version_says_which() {
    let page = "page = os.memfd_create('quarry-record')\nos.ftruncate(page, 262144)\n\
                os.dup2(page, 48)\n\
                os.pwrite(48, b'QUARRYRC' + (99).to_bytes(4, 'little'), 0)\n";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", &python(page)]);
    let served = Served::spawn(command);
    let line = line(&served.look(&["slabinfo"]));
    assert!(line.contains("publishes layout 99, and this command reads layout"), "{line}");
    assert!(line.contains("use the command `quarry` that came with its library"), "{line}");
}
