//! OpenSSH's server, with a real login over the loopback. Before authentication it talks to the
//! client in a process with a seccomp filter, which kills it at any call that is not on a list.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use super::{answer, installed};
use crate::support::{Run, Running, scratch, skipped};

/// A server with its own keys, port and users.
struct Server {
    folder: PathBuf,
    port: u16,
    /// `None` once the server was stopped.
    running: Option<Running>,
}

impl Server {
    fn start(folder: PathBuf) -> Self {
        for name in ["host", "user"] {
            let mut command = Command::new(installed("ssh-keygen", "openssh-client"));
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]);
            answer(command.arg(folder.join(name)));
        }
        let port = free_port();
        let path = |name: &str| folder.join(name).display().to_string();
        let settings = [
            format!("Port {port}"),
            "ListenAddress 127.0.0.1".into(),
            format!("HostKey {}", path("host")),
            format!("PidFile {}", path("pid")),
            format!("AuthorizedKeysFile {}", path("user.pub")),
            // Needed, because the folder is in one to which others may write.
            "StrictModes no".into(),
            "UsePAM no".into(),
            "PermitRootLogin yes".into(),
            "PasswordAuthentication no".into(),
        ];
        fs::write(folder.join("config"), settings.join("\n") + "\n").expect("scratch is writable");
        // The server does not start without this folder, which Debian's service makes.
        fs::create_dir_all("/run/sshd").expect("root may");
        let running = Run::new(installed("sshd", "openssh-server"))
            .args(["-D", "-e", "-f"])
            .arg(folder.join("config"))
            .without_stats()
            .start();
        let mut server = Self { folder, port, running: Some(running) };
        while server.pid().is_none() {
            assert!(!server.running().has_ended(), "sshd has ended");
            std::thread::yield_now();
        }
        server
    }

    /// The server writes this file as soon as it listens.
    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// Logs in as root, runs a command, and returns its output.
    fn login(&self, command: &str) -> String {
        let known = self.folder.join("known");
        let mut client = Command::new(installed("ssh", "openssh-client"));
        client.args(["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]);
        client.arg("-o").arg(format!("UserKnownHostsFile={}", known.display()));
        client.arg("-i").arg(self.folder.join("user")).args(["-p", &self.port.to_string()]);
        answer(client.args(["root@127.0.0.1", command]))
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it is running until it is stopped")
    }

    fn stop(mut self) {
        let running = self.running.take().expect("it is running");
        self.terminate();
        running.finish().success();
    }

    fn terminate(&self) {
        if let Some(pid) = self.pid() {
            // SAFETY: kill has no memory preconditions; the process is ours and has not been
            // waited for.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Only if a test has failed.
            self.terminate();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback is there");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn sshd_lets_somebody_in() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        skipped("only root can log in as another user");
        return;
    }
    let mut server = Server::start(scratch());
    let maps = server.running().proc_file("maps");
    assert!(maps.contains("libquarry"), "the library is not mapped:\n{maps}");
    assert_eq!(server.login("echo $((6 * 7)) from inside"), "42 from inside\n");
    // This session's output exceeds the buffers that the server has at its start.
    let lines = server.login("seq 1 300000");
    assert_eq!(lines.lines().count(), 300_000);
    server.stop();
}
