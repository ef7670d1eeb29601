//! The process that runs one sample: it starts the program, watches all processes that the program
//! starts, and leaves none running.
//!
//! The supervisor is a process of its own for two reasons: the kernel sums up resources of children
//! by process, and a supervisor adopts what the program leaves running (`PR_SET_CHILD_SUBREAPER`).
//! It ends all processes when its standard input closes, so no sample outlives the command. The
//! byte [`FINISH`] on that input tells it to end a server, which would not end by itself.

use super::interrupt::listen_to;
use super::tree::{self, Descendant, Tree};
use anyhow::{Context, Result, bail};
use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use quarry_harness::results::{Reading, Timeline};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time to the first look at the processes; the time between looks doubles up to [`Pace::SLOWEST`].
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// Processes must be idle for this long before their memory counts as idle memory, unless the user
/// says how long.
pub(super) const IDLE: Duration = Duration::from_secs(2);
/// Time without activity, and time between two notes, after which the command is told what the
/// sample waits for.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_NOTES: Duration = Duration::from_secs(1);
/// Clock ticks of CPU time (10 ms each on Linux) that idle processes may use within
/// [`QUIET_WINDOW`]: servers wake up now and then.
const QUIET_TICKS: u64 = 1;
const QUIET_WINDOW: Duration = Duration::from_millis(250);
/// Time between asking processes to end and killing them.
const GRACE: Duration = Duration::from_secs(2);

/// Name of the hidden subcommand that runs one sample of a program.
pub const SUPERVISE_COMMAND: &str = "__supervise";

/// The byte on standard input that reports the end of a server's clients.
pub(super) const FINISH: u8 = b'.';

/// Begins a line on standard output, before the report, that says in words what the sample waits
/// for; [`NOTHING_RUNS`] after it tells that the program does not end, although nothing of it runs.
pub(super) const NOTE: char = '~';
pub(super) const NOTHING_RUNS: &str = "nothing of it runs";

/// Arguments of [`SUPERVISE_COMMAND`].
#[derive(Args)]
pub struct SuperviseArgs {
    /// The file with the [`Order`].
    order: PathBuf,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    /// The file that becomes standard input; `None`: no input.
    pub(super) stdin: Option<OsString>,
    pub(super) stdout: OsString,
    pub(super) stderr: OsString,
    pub(super) timeout: Duration,
    /// See [`IDLE`].
    pub(super) idle_for: Option<Duration>,
    /// Divides shared memory among the processes instead of counting it in each.
    pub(super) proportional: bool,
    pub(super) set: Vec<(OsString, OsString)>,
    pub(super) unset: Vec<OsString>,
    pub(super) file: OsString,
    pub(super) command: Vec<OsString>,
}

/// Takes the sample that the order describes, and prints the report as JSON.
///
/// # Errors
/// If the sample could not be taken.
pub fn supervise(args: &SuperviseArgs, out: &mut dyn Write) -> Result<()> {
    let order: Order = serde_json::from_reader(File::open(&args.order)?)?;
    let report = order.supervise(out)?;
    Ok(writeln!(out, "{}", serde_json::to_string(&report)?)?)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    #[default]
    Cancelled,
    NotStarted(String),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) end: End,
    pub(super) pid: i32,
    pub(super) wall_ns: u64,
    /// CPU times, page faults and context switches of all processes, in six fields.
    pub(super) user_ns: u64,
    pub(super) sys_ns: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) voluntary_switches: u64,
    pub(super) involuntary_switches: u64,
    /// Resident memory of all processes; shared memory counts in each, unless it is to be divided.
    pub(super) timeline: Timeline,
    /// Peak resident memory: the most that a look found in all processes together or, if larger,
    /// the most that the kernel recorded for one process. 0 if neither found any in a short sample.
    pub(super) peak_bytes: u64,
    /// Maximum number of bytes that all processes had in huge pages; `None` if no look found any.
    pub(super) huge_bytes: Option<u64>,
    /// Resident bytes after [`IDLE`] without activity, if a process lives that long.
    pub(super) idle_bytes: Option<u64>,
    /// Resident bytes when [`FINISH`] came.
    pub(super) final_bytes: Option<u64>,
    /// Number of processes that outlived the program, and that the supervisor ended.
    pub(super) left_running: usize,
    /// How long no process had been active when the time was over.
    pub(super) quiet: Duration,
    /// How long each thread waited for a CPU, in ns, as far as the looks at them show.
    pub(super) delays: BTreeMap<i32, u64>,
    /// How long the supervisor waited for a CPU, which makes `wall_ns` longer at most by this.
    pub(super) own_delay_ns: u64,
    /// By process id.
    pub(super) seen: BTreeMap<i32, Descendant>,
}

impl Order {
    /// Runs the sample. A program that fails is no error.
    fn supervise(&self, out: &mut dyn Write) -> Result<Report> {
        set_child_subreaper(true).context("PR_SET_CHILD_SUBREAPER")?;
        let signals = listen_to([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT])?;
        // The kernel's peak of the child includes this process's own, up to the child's exec.
        let own_peak = peak_of(UsageWho::RUSAGE_SELF)?;
        let mut command = self.command()?;
        let start = Instant::now();
        let mut watch = match spawn_unblocked(&mut command)? {
            Ok(child) => Watch::new(child.id() as i32, start, self),
            Err(error) => {
                return Ok(Report { end: End::NotStarted(error.to_string()), ..Report::default() });
            }
        };
        let deadline = start + self.timeout;
        let end = watch.until_end(&signals, deadline, out)?;
        watch.report(end, own_peak)
    }

    fn command(&self) -> Result<Command> {
        let (name, arguments) = self.command.split_first().context("a command has a name")?;
        let mut command = Command::new(&self.file);
        command.arg0(name).args(arguments);
        self.unset.iter().for_each(|key| _ = command.env_remove(key));
        command.envs(self.set.iter().cloned());
        // A signal from the terminal must not reach the child before this process.
        command.process_group(0);
        let named = |path: &OsString| path.display().to_string();
        command.stdin(match &self.stdin {
            Some(path) => File::open(path).with_context(|| named(path))?.into(),
            None => Stdio::null(),
        });
        command.stdout(File::create(&self.stdout).with_context(|| named(&self.stdout))?);
        command.stderr(File::create(&self.stderr).with_context(|| named(&self.stderr))?);
        Ok(command)
    }
}

/// Starts the program with no signal blocked: a server that inherits a blocked SIGTERM never ends.
fn spawn_unblocked(command: &mut Command) -> Result<io::Result<Child>> {
    let mask = SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let child = command.spawn();
    mask.thread_set_mask()?;
    Ok(child)
}

/// Spaces the looks at the processes: the gap doubles up to `SLOWEST`, but is at least 100 times as
/// long as the last look (at most `LONGEST`), and a thousandth of the time so far.
struct Pace {
    next: Instant,
    gap: Duration,
}

impl Pace {
    const SLOWEST: Duration = Duration::from_millis(10);
    const SHARE: u32 = 100;
    /// Longest delay after a slow look: a look is slow mostly because it waits for a busy CPU.
    const LONGEST: Duration = Duration::from_millis(100);

    fn advance(&mut self, start: Instant, looked_for: Duration) {
        let now = Instant::now();
        self.gap = (self.gap * 2).min(Self::SLOWEST);
        let sparse = now.duration_since(start) / 1000;
        let polite = (looked_for * Self::SHARE).min(Self::LONGEST);
        self.next = now + self.gap.max(polite).max(sparse);
    }
}

struct Watch {
    start: Instant,
    main: i32,
    ended: Option<(End, Duration)>,
    tree: Tree,
    pace: Pace,
    activity: Activity,
    told: Instant,
    report: Report,
}

struct Activity {
    window_began: Instant,
    ticks_then: u64,
    last: Instant,
    idle_for: Duration,
    idle: bool,
}

impl Activity {
    fn note(&mut self, now: Instant, ticks: u64) {
        if ticks > self.ticks_then + QUIET_TICKS || ticks < self.ticks_then {
            self.last = now;
        } else if now - self.window_began < QUIET_WINDOW {
            return;
        }
        (self.window_began, self.ticks_then) = (now, ticks);
    }

    /// Returns true once: at the first call after the processes have been idle for long enough.
    fn falls_idle(&mut self, now: Instant) -> bool {
        let was_idle =
            std::mem::replace(&mut self.idle, now.duration_since(self.last) >= self.idle_for);
        self.idle && !was_idle
    }
}

impl Watch {
    fn new(main: i32, start: Instant, order: &Order) -> Self {
        let idle_for = order.idle_for.unwrap_or(IDLE);
        Self {
            start,
            main,
            ended: None,
            tree: Tree::below(std::process::id() as i32, order.proportional),
            pace: Pace { next: start + FIRST_LOOK, gap: FIRST_LOOK },
            activity: Activity {
                window_began: start,
                ticks_then: 0,
                last: start,
                idle_for,
                idle: false,
            },
            told: start,
            report: Report { pid: main, ..Report::default() },
        }
    }

    /// Waits until the program has ended and its other processes are idle or gone, or until the
    /// sample must end. Afterwards no process of the sample runs.
    fn until_end(
        &mut self,
        signals: &SignalFd,
        deadline: Instant,
        out: &mut dyn Write,
    ) -> Result<End> {
        let stdin = io::stdin();
        // A SIGCHLD that came while `spawn_unblocked` had it unblocked is lost, so reap first.
        let mut all_gone = self.reap();
        while !all_gone {
            let wake = self.pace.next.min(deadline);
            let left = wake.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            let mut events = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut events, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => bail!("poll: {error}"),
            }
            let mut told_to_end = events[1].any().unwrap_or(true) && self.hears(stdin.as_fd());
            while let Some(signal) = signals.read_signal()? {
                told_to_end |= signal.ssi_signo != Signal::SIGCHLD as u32;
            }
            all_gone = self.reap();
            if all_gone {
                break;
            }
            if told_to_end || Instant::now() >= deadline {
                self.report.quiet = self.activity.last.elapsed();
                self.end_all();
                return Ok(if told_to_end { End::Cancelled } else { End::TimedOut });
            }
            if Instant::now() >= self.pace.next {
                if self.look() && self.ended.is_some() {
                    self.report.left_running = self.tree.look().len();
                    self.end_all();
                    break;
                }
                self.tell(out)?;
            }
        }
        let (end, _) = self.ended.clone().context("the program ended without a status")?;
        Ok(end)
    }

    /// Tells in words what the sample waits for, where it does not wait for the program's work.
    fn tell(&mut self, out: &mut dyn Write) -> Result<()> {
        let now = Instant::now();
        let quiet = now.duration_since(self.activity.last);
        if now.duration_since(self.told) < BETWEEN_NOTES {
            return Ok(());
        }
        let of = self.activity.idle_for.as_secs_f64();
        match self.ended {
            Some(_) => {
                let (names, quiet) = (self.tree.names().join(", "), quiet.as_secs());
                writeln!(out, "{NOTE}waiting until {names} is idle for {of} s: {quiet} s so far")?;
            }
            None if quiet >= PATIENCE => {
                let quiet = quiet.as_secs();
                writeln!(out, "{NOTE}{NOTHING_RUNS}, for {quiet} s, and it does not end")?;
            }
            None => return Ok(()),
        }
        out.flush()?;
        self.told = now;
        Ok(())
    }

    /// Reads standard input. Returns true if it is closed, so that all processes must end.
    fn hears(&mut self, stdin: BorrowedFd<'_>) -> bool {
        let mut byte = [0];
        match nix::unistd::read(stdin, &mut byte) {
            Ok(1) if byte == [FINISH] => {
                self.look();
                self.report.final_bytes =
                    self.report.timeline.readings.last().map(|it| it.resident);
                // The program may have ended already.
                let _ = kill(Pid::from_raw(self.main), Signal::SIGTERM);
                false
            }
            Err(Errno::EINTR) => false,
            _ => true,
        }
    }

    /// Takes the status of every process that has ended. Returns true if no process remains.
    fn reap(&mut self) -> bool {
        // Also of a zombie, as long as it is one.
        self.tree.note_delays(self.main);
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
                Ok(WaitStatus::StillAlive) => return false,
                Err(Errno::EINTR) => {}
                Err(_) => return true,
                Ok(status) => {
                    let end = match status {
                        WaitStatus::Exited(_, code) => End::Exited(code),
                        WaitStatus::Signaled(_, signal, _) => End::Signalled(signal as i32),
                        _ => continue,
                    };
                    if status.pid() == Some(Pid::from_raw(self.main)) {
                        self.ended = Some((end, self.start.elapsed()));
                        // Processes that live on may become idle from now on.
                        self.activity.last = Instant::now();
                    }
                }
            }
        }
    }

    fn look(&mut self) -> bool {
        let began = Instant::now();
        let living = self.tree.look();
        let own = || living.iter().filter(|process| !process.is_ageing);
        let resident = own().map(|process| process.resident).sum();
        if own().next().is_some() || living.is_empty() {
            let ms = began.duration_since(self.start).as_secs_f64() * 1e3;
            self.report.timeline.readings.push(Reading { ms, resident, charged: 0 });
            let largest = own().map(|process| process.peak).max().unwrap_or(0);
            self.report.peak_bytes = self.report.peak_bytes.max(resident).max(largest);
        }
        if own().next().is_some() {
            let huge = own().map(|process| process.huge).sum();
            self.report.huge_bytes = self.report.huge_bytes.max(Some(huge));
        }
        self.activity.note(began, living.iter().map(|process| process.cpu_ticks).sum());
        if self.activity.falls_idle(began) {
            self.report.idle_bytes = Some(resident);
        }
        self.pace.advance(self.start, began.elapsed());
        self.activity.idle
    }

    /// Ends every process: SIGTERM first, so that parents can end their children in order.
    fn end_all(&mut self) {
        let asked = Instant::now();
        self.tree.signal(Signal::SIGTERM);
        let mut pause = Duration::from_millis(1);
        while !self.reap() {
            if asked.elapsed() > GRACE {
                self.tree.signal(Signal::SIGKILL);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
            // A stopped process handles SIGTERM only after SIGCONT.
            let _ = kill(Pid::from_raw(self.main), Signal::SIGCONT);
        }
    }

    fn report(self, end: End, own_peak: u64) -> Result<Report> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let wall = self.ended.map_or_else(|| self.start.elapsed(), |(_, wall)| wall);
        let exact = peak_of(UsageWho::RUSAGE_CHILDREN)?;
        // A peak that is not above this process's own may not be the child's: see `supervise`.
        let peak_bytes = self.report.peak_bytes.max(if exact > own_peak { exact } else { 0 });
        Ok(Report {
            end,
            wall_ns: wall.as_nanos() as u64,
            user_ns: usage.user_time().num_microseconds() as u64 * 1000,
            sys_ns: usage.system_time().num_microseconds() as u64 * 1000,
            peak_bytes,
            minor_faults: usage.minor_page_faults() as u64,
            major_faults: usage.major_page_faults() as u64,
            voluntary_switches: usage.voluntary_context_switches() as u64,
            involuntary_switches: usage.involuntary_context_switches() as u64,
            delays: self.tree.delays,
            own_delay_ns: tree::delay(std::process::id() as i32),
            seen: self.tree.seen,
            ..self.report
        })
    }
}

fn peak_of(who: UsageWho) -> Result<u64> {
    Ok(getrusage(who)?.max_rss() as u64 * 1024)
}
