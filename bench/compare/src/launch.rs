//! Starts samples of programs under a supervisor, with the witness and an allocator preloaded.

use super::aged::{self, Aged};
use super::interrupt::Interrupt;
use super::raw::{self, Clients, Raw, SERVER_HINT, Served};
use super::reach;
use super::supervisor::{FINISH, NOTE, NOTHING_RUNS, Order, Report, SUPERVISE_COMMAND};
use super::witness::{self, Witnesses};
use crate::allocators;
use crate::contenders::Contender;
use crate::request::Work;
use anyhow::{Context, Error, Result, anyhow, bail};
use indicatif::ProgressBar;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quarry_harness::destination;
use quarry_harness::launch::{
    NOT_PRELOADABLE, cleared_variables, end_of, is_preloadable, preload_value,
};
use quarry_harness::sampler::NoSample;
use quarry_harness::usage::Usage;
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Most bytes of the statistics of a program's processes, which the program could write as well.
const MOST_STATISTICS: u64 = 64 << 20;

/// A program, and the conditions that all of its samples share.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The file to execute.
    pub file: PathBuf,
    /// Its name and arguments.
    pub command: Vec<OsString>,
    /// The file that the program reads as standard input; `None`: nothing.
    pub stdin: Option<PathBuf>,
    /// Environment variables to set.
    pub variables: Vec<(String, OsString)>,
    /// Time after which a sample has failed.
    pub timeout: Duration,
    /// True if the program may bring its own allocator. The contender then has to serve only the
    /// process that is started, which may be a script that starts the program.
    pub may_serve_itself: bool,
    /// True if shared memory is divided among the processes instead of counted in each.
    pub proportional: bool,
    /// A shell command that runs before each sample; its time is not counted.
    pub prepare: Option<OsString>,
    /// How long processes must be idle before their memory counts as idle memory; `None`: 2 s.
    pub idle_for: Option<Duration>,
    /// The plan by which the heap is aged before `main`; `None`: it is fresh.
    pub plan: Option<PathBuf>,
    /// True if a sample counts with any exit status. A signal or the timeout still fails it.
    pub ignore_failure: bool,
}

impl Program {
    /// The program of a request, with no further variables; the contender serves all its processes.
    pub(super) fn of(
        work: &Work,
        stdin: Option<PathBuf>,
        timeout: Duration,
        ignore_failure: bool,
    ) -> Self {
        Self {
            file: work.file.clone(),
            command: work.variant.command.clone(),
            stdin,
            timeout,
            prepare: work.variant.prepare.clone(),
            ignore_failure,
            ..Self::default()
        }
    }
}

/// Starts samples, one at a time.
pub struct Launcher {
    interrupt: Rc<Interrupt>,
    scratch: TempDir,
    witnesses: Witnesses,
    is_open: Cell<bool>,
    /// Where to show what a sample waits for.
    progress: RefCell<Option<ProgressBar>>,
    has_hinted: Cell<bool>,
    /// Number of plans so far.
    plans: Cell<usize>,
}

impl Launcher {
    /// Makes the folder that samples write into.
    ///
    /// # Errors
    /// If the folder cannot be made, or its path cannot stand in `LD_PRELOAD`.
    pub fn new(interrupt: Rc<Interrupt>) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("quarry-lab").tempdir();
        let scratch = scratch.map_err(|error| destination::no_temporary(&error))?;
        if !is_preloadable(scratch.path()) {
            bail!(Usage(format!("TMPDIR: {}: {NOT_PRELOADABLE}", scratch.path().display())));
        }
        let witnesses = Witnesses::unpack(scratch.path())?;
        Ok(Self {
            interrupt,
            scratch,
            witnesses,
            is_open: Cell::new(false),
            progress: RefCell::default(),
            has_hinted: Cell::new(false),
            plans: Cell::new(0),
        })
    }

    /// Shows what a sample waits for beside a bar of progress, and hints at what a server needs.
    pub(super) fn show_on(&self, progress: &ProgressBar) {
        *self.progress.borrow_mut() = Some(progress.clone());
    }

    fn note(&self, note: &str) {
        let Some(progress) = &*self.progress.borrow() else { return };
        progress.set_message(note.to_owned());
        if note.starts_with(NOTHING_RUNS) && !self.has_hinted.replace(true) {
            // Standard error may be closed; the hint is no result.
            let _ =
                progress.suspend(|| writeln!(std::io::stderr(), "quarry: {note}; {SERVER_HINT}"));
        }
    }

    /// Makes the witness usable for programs of other users, because some servers give up root.
    ///
    /// # Errors
    /// If the folder belongs to another user.
    pub fn open_to_others(&self) -> Result<()> {
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        set(self.scratch.path(), 0o711)?;
        set(&self.witnesses.witness, 0o644)?;
        set(&self.witnesses.counter, 0o644)?;
        set(&self.witnesses.ager, 0o644)?;
        self.is_open.set(true);
        Ok(())
    }

    /// Copies an allocator to a place where every user can read it.
    pub fn within_reach(&self, contender: &mut Contender) -> Result<()> {
        let Some(file) = &mut contender.allocator.preload else { return Ok(()) };
        let copy = self.scratch.path().join(file.file_name().context("an allocator is a file")?);
        fs::copy(&*file, &copy).with_context(|| copy.display().to_string())?;
        fs::set_permissions(&copy, Permissions::from_mode(0o644))?;
        *file = copy;
        Ok(())
    }

    /// Runs a program once on glibc, with its calls of malloc counted.
    ///
    /// # Errors
    /// If the run could not be made, or the program failed.
    pub fn probe(&self, program: &Program, clients: Option<&Clients>) -> Result<Raw> {
        let glibc = Contender::from(allocators::glibc());
        match self.sample(program, &glibc, &self.witnesses.counter, false, clients) {
            Ok(raw) => Ok(raw),
            Err(NoSample::Failed(failure)) => bail!(failure),
            Err(_) => bail!("interrupted"),
        }
    }

    /// Runs a program once on glibc, and makes a plan of the sizes and lifetimes of its blocks, for
    /// [`Program::plan`].
    ///
    /// # Errors
    /// If the run could not be made, the program failed, or it hardly allocates.
    pub(super) fn plan(&self, program: &Program) -> Result<PathBuf> {
        let glibc = Contender::from(allocators::glibc());
        match self.sample(program, &glibc, &self.witnesses.recorder, false, None) {
            Ok(_) => {}
            Err(NoSample::Failed(failure)) => bail!("--aged: {failure}"),
            Err(_) => bail!("interrupted"),
        }
        let number = self.plans.replace(self.plans.get() + 1);
        let plan = self.scratch.path().join(format!("plan-{number}"));
        aged::write_plan(&witness::histograms(&self.scratch.path().join("witness"))?, &plan)?;
        Ok(plan)
    }

    /// Takes a sample, and proves which object served it. With `with_statistics` Quarry also prints
    /// its statistics, which takes some time.
    ///
    /// # Errors
    /// The reason why the sample does not count.
    pub fn take(
        &self,
        program: &Program,
        contender: &Contender,
        with_statistics: bool,
        clients: Option<&Clients>,
    ) -> Result<(Raw, String), NoSample> {
        let with_statistics = with_statistics && is_quarry(contender);
        let witness = match program.plan {
            Some(_) => &self.witnesses.ager,
            None => &self.witnesses.witness,
        };
        let raw = self.sample(program, contender, witness, with_statistics, clients)?;
        if program.plan.is_some() && Aged::of(&raw.said).is_none() {
            return Err("the heap was not aged: the recorded program did not run".into());
        }
        let served_by = reach::served(contender, &raw.report, &raw.said, program.may_serve_itself)?;
        Ok((raw, served_by))
    }

    /// Runs a program once with only the witness preloaded. Returns the object that serves its
    /// busiest process, unless that is the C library.
    pub(super) fn as_it_is(&self, program: &Program) -> Result<Option<PathBuf>, NoSample> {
        let witness = &self.witnesses.witness;
        let nothing = Contender::from(allocators::preloaded("as it is", witness.clone(), None));
        let raw = self.sample(program, &nothing, witness, false, None)?;
        Ok(reach::own_malloc(&raw.report, &raw.said))
    }

    /// Runs the command that precedes a sample, on the C library's allocator, and ends processes
    /// that it leaves running.
    fn prepare(&self, program: &Program) -> Result<(), NoSample> {
        let Some(command) = &program.prepare else { return Ok(()) };
        let place = |name: &str| self.scratch.path().join(name);
        let stderr = place("prepare-stderr");
        let order = Order {
            stdin: None,
            stdout: place("prepare-stdout").into(),
            stderr: stderr.clone().into(),
            timeout: program.timeout,
            idle_for: None,
            proportional: false,
            set: Vec::new(),
            unset: Vec::new(),
            file: "/bin/sh".into(),
            command: vec!["sh".into(), "-c".into(), command.clone()],
        };
        let (report, _) = self.answer_of(&order, None)?;
        let raw = Raw { report, stderr: fs::read(&stderr).unwrap_or_default(), ..Raw::default() };
        raw.check(program.timeout, false).map_err(|no_sample| match no_sample {
            NoSample::Failed(failure) => format!("--prepare: {failure}").into(),
            other => other,
        })
    }

    fn sample(
        &self,
        program: &Program,
        contender: &Contender,
        witness: &Path,
        with_statistics: bool,
        clients: Option<&Clients>,
    ) -> Result<Raw, NoSample> {
        if self.interrupt.signal().is_some() {
            return Err(NoSample::Interrupted);
        }
        self.prepare(program)?;
        let place = |name: &str| self.scratch.path().join(name);
        let (stdout, stderr, file) = (place("stdout"), place("stderr"), place("witness"));
        witness::create(&file)?;
        if self.is_open.get() {
            fs::set_permissions(&file, Permissions::from_mode(0o666)).map_err(Error::from)?;
        }
        let mut set = vec![
            (witness::variable().into(), file.clone().into()),
            ("LD_PRELOAD".into(), preload(witness, &contender.allocator.file()?)?),
        ];
        set.extend(program.variables.iter().map(|(key, value)| (key.into(), value.clone())));
        set.extend(contender.settings.iter().map(|(key, value)| (key.into(), value.into())));
        if let Some(plan) = &program.plan {
            let variable = witness::layout::AGE_VARIABLE.to_string_lossy();
            set.push((variable.into_owned().into(), plan.clone().into()));
        }
        let statistics = place("statistics");
        if with_statistics {
            // Every process appends to this file.
            let _ = fs::remove_file(&statistics);
            set.push(("QUARRY_STATS".into(), statistics.clone().into()));
        }
        let order = Order {
            stdin: program.stdin.clone().map(PathBuf::into_os_string),
            stdout: stdout.clone().into(),
            stderr: stderr.clone().into(),
            timeout: program.timeout,
            idle_for: program.idle_for,
            proportional: program.proportional,
            set,
            unset: cleared_variables(),
            file: program.file.clone().into(),
            command: program.command.clone(),
        };
        let (report, served) = self.answer_of(&order, clients)?;
        let raw = Raw {
            report,
            served,
            said: witness::read(&file)?,
            stdout: fs::read(&stdout).unwrap_or_default(),
            stderr: fs::read(&stderr).unwrap_or_default(),
            own_count: match with_statistics {
                true => quarry_wary::read(&statistics, MOST_STATISTICS)
                    .ok()
                    .map(|text| raw::own_count(&String::from_utf8_lossy(&text))),
                false => None,
            },
        };
        raw.check(program.timeout, program.ignore_failure)?;
        Ok(raw)
    }

    /// Starts a supervisor, and waits for its report and for the clients' result.
    fn answer_of(
        &self,
        order: &Order,
        clients: Option<&Clients>,
    ) -> Result<(Report, Option<Result<Served>>)> {
        let place = self.scratch.path().join("order");
        fs::write(&place, serde_json::to_vec(order)?)?;
        // The executable of this process, even if its file was replaced since the start.
        let mut supervisor = Command::new("/proc/self/exe");
        supervisor.arg(SUPERVISE_COMMAND).arg(place);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C of the terminal reaches only the command, which then tells its supervisor.
        supervisor.process_group(0);
        let mut child = supervisor.spawn().context("cannot start a sample")?;
        let (runs, stdin) = (AtomicBool::new(true), Mutex::new(child.stdin.take()));
        let (answer, served) = thread::scope(|scope| {
            let thread = clients.map(|clients| {
                scope.spawn(|| {
                    let served = clients(&|| runs.load(Ordering::Relaxed));
                    if let Some(stdin) = &mut *stdin.lock().unwrap_or_else(PoisonError::into_inner)
                    {
                        // The supervisor may have ended; its report shows that.
                        let _ = stdin.write_all(&[FINISH]);
                    }
                    served
                })
            });
            let answer = self.hear(&mut child, &stdin);
            runs.store(false, Ordering::Relaxed);
            let panicked = |_| Err(anyhow!("the clients panicked"));
            (answer, thread.map(|thread| thread.join().unwrap_or_else(panicked)))
        });
        let answer = answer?;
        drop(stdin);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("the sample's supervisor: {}", end_of(&output));
        }
        let report = serde_json::from_slice(last_line(&answer));
        Ok((report.context("unreadable answer of a sample's supervisor")?, served))
    }

    /// Reads the supervisor's answer to its end. An interruption closes the supervisor's standard
    /// input: the supervisor then ends its processes and answers.
    fn hear(&self, child: &mut Child, stdin: &Mutex<Option<ChildStdin>>) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        let mut pipe = child.stdout.take().context("no pipe")?;
        loop {
            let mut events = [
                PollFd::new(pipe.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.interrupt.descriptor(), PollFlags::POLLIN),
            ];
            match poll(&mut events, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => bail!("poll: {error}"),
            }
            let has_answer = events[0].any().unwrap_or(true);
            if self.interrupt.signal().is_some() {
                drop(stdin.lock().unwrap_or_else(PoisonError::into_inner).take());
            }
            if has_answer {
                let mut part = [0; 16384];
                match pipe.read(&mut part)? {
                    0 => return Ok(answer),
                    length => answer.extend_from_slice(&part[..length]),
                }
                if let Some(note) = note_in(&answer) {
                    self.note(note);
                }
            }
        }
    }
}

/// The supervisor's last complete line, if that is a note.
fn note_in(answer: &[u8]) -> Option<&str> {
    let line = last_line(answer.strip_suffix(b"\n")?);
    std::str::from_utf8(line).ok()?.strip_prefix(NOTE)
}

fn last_line(answer: &[u8]) -> &[u8] {
    let lines = answer.strip_suffix(b"\n").unwrap_or(answer);
    lines.rsplit(|byte| *byte == b'\n').next().unwrap_or_default()
}

fn is_quarry(contender: &Contender) -> bool {
    let file = contender.allocator.preload.as_ref().and_then(|file| file.file_name());
    file.is_some_and(|name| name.as_encoded_bytes().starts_with(b"libquarry"))
}

/// The value of `LD_PRELOAD`: witness, allocator, and the libraries that the user preloads.
fn preload(witness: &Path, allocator: &Path) -> Result<OsString> {
    if !is_preloadable(allocator) {
        bail!("{}: {NOT_PRELOADABLE}", allocator.display());
    }
    Ok(preload_value(&[witness, allocator], std::env::var_os("LD_PRELOAD")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_before_the_report() {
        assert_eq!(note_in(b"~one\n~two\n"), Some("two"));
        assert_eq!((note_in(b"~one\n~tw"), note_in(b"~one\n{}\n")), (None, None));
        assert_eq!((last_line(b"~one\n{}\n"), last_line(b"{}")), (&b"{}"[..], &b"{}"[..]));
    }

    #[test]
    fn paths_that_cannot_be_preloaded_are_refused() {
        let error = preload(Path::new("/w.so"), Path::new("/a b.so")).unwrap_err().to_string();
        assert!(error.contains("colon or white space"), "{error}");
    }
}
