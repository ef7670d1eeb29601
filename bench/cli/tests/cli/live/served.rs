//! A program on Quarry that runs while a test looks at it.

use crate::support::{quarry, real_library};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything that a test waits for; a stalled machine needs minutes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Python program that runs `before`, reports that it is ready, and then allocates without end,
/// so that it publishes again and again.
pub(crate) fn python(before: &str) -> String {
    format!(
        "import ctypes, mmap, os, time\n{before}\nprint('ready', os.getpid(), flush=True)\n\
         kept = []\n\
         while True:\n    \
             kept = [bytes(n % 3000) for n in range(20000)]\n    \
             time.sleep(0.02)\n"
    )
}

/// A running program; dropping the value kills it.
pub(crate) struct Served {
    child: Child,
    /// Kept open, because the program's children write there as well.
    _output: BufReader<ChildStdout>,
}

impl Served {
    /// Python with a script of `python`, once it is ready; `None` where there is no library.
    pub(crate) fn python(before: &str) -> Option<Self> {
        Self::start(&["/usr/bin/python3", "-c", &python(before)])
    }

    /// A program that prints `ready` when it is.
    pub(crate) fn start(command: &[&str]) -> Option<Self> {
        let library = real_library()?;
        let mut run = Command::new(env!("CARGO_BIN_EXE_quarry"));
        run.env("QUARRY_LIBRARY", &library).args(["run", "--"]).args(command);
        Some(Self::spawn(run))
    }

    /// A command that becomes a program that prints `ready` when it is.
    pub(crate) fn spawn(mut run: Command) -> Self {
        let mut child = run.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it writes");
        assert!(line.starts_with("ready"), "{run:?} ended before it was ready: {line}");
        Self { child, _output: output }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Runs `quarry VERB.. --pid` on the program.
    pub(crate) fn look(&self, verb: &[&str]) -> Output {
        let mut command = quarry();
        command.args(verb).args(["--pid", &self.pid()]);
        command.output().expect("it runs")
    }

    /// Standard output of [`look`](Self::look), once the program has published.
    pub(crate) fn text(&self, verb: &[&str]) -> String {
        eventually(&format!("{verb:?}"), || {
            let output = self.look(verb);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.success() {
                true => Ok(String::from_utf8(output.stdout).expect("it is text")),
                false => Err(error),
            }
        })
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Tries until `step` succeeds; fails the test with its last error after a long time.
pub(super) fn eventually<T>(what: &str, mut step: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match step() {
            Ok(value) => return value,
            Err(error) if Instant::now() > deadline => panic!("{what}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
