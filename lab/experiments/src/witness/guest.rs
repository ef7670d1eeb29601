//! A kernel in `qemu-system-x86_64`, whose initrd takes samples; `scripts/witness-init` is its
//! first process. Orders and answers are lines of text on the second serial port.
//!
//! A guest has one of two clocks. With the host's clock it has two CPUs, and counts are those of a
//! machine whose CPUs run in parallel. With the clock of its own instructions, each of which takes
//! a nanosecond, it has one CPU; a time is then a number of instructions, and does not depend on
//! the host.

use anyhow::{Context, Result, bail};
use quarry_harness::launch::{self, Order};
use quarry_harness::results::Measurement;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The kernel and the initrd in a guest's folder.
pub(crate) const FILES: [&str; 2] = ["vmlinuz", "initrd"];
/// The guest's folders for files: one on a file system in a file, one in memory.
pub(crate) const FOLDERS: [&str; 2] = ["/disk", "/dev/shm"];
/// The guest empties this folder, in both of [`FOLDERS`], before each sample.
pub(crate) const FOLDER: &str = "sample";
/// The guest's memory in bytes.
pub(crate) const MEMORY: u64 = 1 << 30;

/// A clock of instructions counts each repetition of a string instruction. Without `erms` and
/// `fsrm` the kernel clears and copies by words; by bytes, a page would take 4,096 repetitions.
const PROCESSOR: &str = "max,la57=off,erms=off,fsrm=off";
/// Mitigations are off: the kernel would choose them for the emulated processor.
const COMMAND_LINE: &str =
    "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clock {
    Host,
    Instructions,
}

impl Clock {
    pub(crate) fn cpus(self) -> Vec<usize> {
        match self {
            Self::Host => vec![0, 1],
            Self::Instructions => vec![0],
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["-smp", "2", "-accel", "tcg,thread=multi"],
            // Linux 5.10 does not start a second CPU with this clock.
            Self::Instructions => &["-smp", "1", "-accel", "tcg", "-icount", "shift=0"],
        }
    }
}

pub(crate) struct Guest {
    machine: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Guest {
    /// Boots the kernel of `folder` and waits until it accepts orders. A boot that fails is
    /// repeated once, because on a busy host a kernel may find its emulated timers too inaccurate.
    ///
    /// # Errors
    /// If there is no such kernel or no emulator, or the kernel does not come up.
    pub(crate) fn boot(folder: &Path, clock: Clock) -> Result<Self> {
        Self::try_boot(folder, clock).or_else(|_| Self::try_boot(folder, clock))
    }

    fn try_boot(folder: &Path, clock: Clock) -> Result<Self> {
        let [kernel, initrd] = FILES.map(|name| folder.join(name));
        // The machine must not outlive this process, even if this process is killed.
        let mut machine = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(clock.options())
            .args("-m 1G -nic none -display none -no-reboot -serial null -serial stdio".split(' '))
            .args(["-cpu", PROCESSOR, "-append", COMMAND_LINE, "-kernel"])
            .args([kernel, PathBuf::from("-initrd"), initrd])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("no setpriv that would start qemu-system-x86_64")?;
        let orders = machine.stdin.take().context("the machine has a pipe")?;
        let answers = BufReader::new(machine.stdout.take().context("the machine has a pipe")?);
        let mut guest = Self { machine, orders, answers };
        let said = guest.line().with_context(|| folder.display().to_string())?;
        if !said.starts_with("ready ") {
            bail!("{}: the guest says {said}", folder.display());
        }
        Ok(guest)
    }

    /// Takes a sample in a fresh process of the guest.
    pub(crate) fn sample(&mut self, order: &Order) -> Result<Measurement> {
        let command = launch::command(order, None, &[])?;
        let words: Vec<_> = command.get_args().skip(1).map(|it| it.to_string_lossy()).collect();
        writeln!(self.orders, "{}", words.join(" ")).context("the guest takes no orders")?;
        let answer = self.line()?;
        serde_json::from_str(&answer).with_context(|| format!("the guest says {answer}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the emulated machine has ended");
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}
