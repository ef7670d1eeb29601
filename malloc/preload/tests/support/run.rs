//! One run of one program: its input, its output, and a description if it failed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use quarry_mm::heap::options::RECORD_OPTIONS;

use super::{Group, Stats, full_library, library, testing_a_peer};

/// Far longer than our programs run, so that only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(90);

/// How many times as long programs may run: `TEST_PATIENCE`, for emulated machines.
fn patience() -> u32 {
    std::env::var("TEST_PATIENCE").map_or(1, |times| times.parse().expect("a number"))
}

/// Variables of the environment that would change the program under test; they are removed.
const CLEARED: [&str; 6] = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "PYTHONMALLOC",
];

/// Folder in which this test run compiles and writes. It stays until the next run removes it.
pub(crate) fn own_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libquarry");
        for old in fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(old.file_name()).exists() {
                // Another test run that starts now may be removing the same folder.
                let _ = fs::remove_dir_all(old.path());
            }
        }
        let own = all.join(std::process::id().to_string());
        fs::create_dir_all(&own).expect("the target directory is writable");
        own
    })
}

/// Makes a new empty folder at each call.
pub(crate) fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = own_folder().join(format!("run-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&folder).expect("the number of the folder is new");
    folder
}

/// A program about to run under the library.
pub(crate) struct Run {
    command: Command,
    library: Option<&'static Path>,
    beside: Option<PathBuf>,
    scratch: PathBuf,
    input: Option<PathBuf>,
    stats: Option<PathBuf>,
    limit: Duration,
}

impl Run {
    /// `program` with the library preloaded and its statistics written at exit.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut run = Self::bare(program);
        run.preload(library());
        // `TEST_MODE=QUARRY_HARDEN=1 cargo test ..` runs as many programs as possible in that mode.
        if let Some((name, value)) =
            std::env::var("TEST_MODE").ok().as_deref().and_then(|mode| mode.split_once('='))
        {
            run = run.env(name, value);
        }
        if !testing_a_peer() {
            let file = run.scratch.join("stats");
            run.command.env("QUARRY_STATS", &file);
            run.stats = Some(file);
        }
        run
    }

    /// `program` with the library that has all functions of `quarry.h`.
    pub(crate) fn full(program: impl AsRef<OsStr>) -> Self {
        let mut run = Self::new(program);
        run.preload(full_library());
        run
    }

    /// `program`, which contains Quarry, with its statistics written at exit.
    pub(crate) fn containing(program: impl AsRef<OsStr>) -> Self {
        let mut run = Self::bare(program);
        let file = run.scratch.join("stats");
        run.command.env("QUARRY_STATS", &file);
        run.stats = Some(file);
        run
    }

    fn preload(&mut self, library: Option<&'static Path>) {
        self.library = library.or(self.library);
        let all: Vec<_> = self.library.into_iter().chain(self.beside.as_deref()).collect();
        if let Ok(all) = std::env::join_paths(all)
            && !all.is_empty()
        {
            self.command.env("LD_PRELOAD", all);
        }
    }

    /// A shared object that is preloaded after the library.
    pub(crate) fn beside(mut self, plugin: &Path) -> Self {
        self.beside = Some(plugin.to_owned());
        self.preload(None);
        self
    }

    /// The folder of this run.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// `program` without the library.
    pub(crate) fn bare(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUARRY_") {
                command.env_remove(name);
            }
        }
        for name in CLEARED {
            command.env_remove(name);
        }
        let (library, beside, input, stats) = (None, None, None, None);
        Self { command, library, beside, scratch: scratch(), input, stats, limit: LIMIT }
    }

    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// More arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// One variable of the environment. For a variable that switches checks on, the run also uses
    /// the library with the checks, as `quarry run` does.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        if name.strip_prefix("QUARRY_").is_some_and(|name| RECORD_OPTIONS.named(name).is_some()) {
            self.preload(full_library());
        }
        self.command.env(name, value);
        self
    }

    /// The program's working directory.
    pub(crate) fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// A file for standard input, which is empty otherwise.
    pub(crate) fn input(mut self, file: &Path) -> Self {
        self.input = Some(file.to_owned());
        self
    }

    /// The longest time of a program that runs longer than ours.
    pub(crate) fn limit_s(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Requests no statistics at exit: the program ends in a way that cannot write them, or its
    /// standard error is compared byte by byte.
    pub(crate) fn without_stats(mut self) -> Self {
        self.command.env_remove("QUARRY_STATS");
        self.stats = None;
        self
    }

    /// Puts the program into a control group, and tells it where to read the group's memory use.
    pub(crate) fn in_group(mut self, group: &Group) -> Self {
        let file = File::options().write(true).open(group.processes_file());
        let mut file = file.expect("the group is ours");
        // SAFETY: writing to an open file is a bare system call, allowed between fork and exec; "0"
        // stands for the writing process.
        unsafe { self.command.pre_exec(move || file.write_all(b"0")) };
        self.command.env("TEST_GROUP_USAGE", group.usage_file());
        self
    }

    /// The command itself, for a test that starts it differently.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Starts the program, for a test that talks to it while it runs.
    pub(crate) fn start(mut self) -> Running {
        let out = self.scratch.join("stdout");
        let err = self.scratch.join("stderr");
        let input = self.input.as_deref().unwrap_or(Path::new("/dev/null"));
        self.command
            .stdin(File::open(input).unwrap_or_else(|e| panic!("{}: {e}", input.display())))
            .stdout(Stdio::from(File::create(&out).expect("scratch is writable")))
            .stderr(Stdio::from(File::create(&err).expect("scratch is writable")))
            .process_group(0);
        // A shell starts background commands with SIGINT and SIGQUIT ignored, and the tests of
        // CPython raise SIGINT.
        // SAFETY: signal is async-signal-safe, so it may be called between fork and exec.
        unsafe {
            self.command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                Ok(())
            });
        }
        let story = describe(&self.command);
        let child =
            self.command.spawn().unwrap_or_else(|error| panic!("cannot start `{story}`: {error}"));
        Running { child, story, scratch: self.scratch, stats: self.stats, limit: self.limit }
    }

    /// Runs the program to its end.
    pub(crate) fn finish(self) -> Outcome {
        self.start().finish()
    }
}

/// A running program.
pub(crate) struct Running {
    child: Child,
    story: String,
    scratch: PathBuf,
    stats: Option<PathBuf>,
    limit: Duration,
}

impl Running {
    /// Returns what the program has written to standard output so far.
    pub(crate) fn stdout_so_far(&self) -> String {
        read(&self.scratch.join("stdout"))
    }

    /// Returns the program's file `name` in `/proc`.
    pub(crate) fn proc_file(&self, name: &str) -> String {
        read(&Path::new("/proc").join(self.child.id().to_string()).join(name))
    }

    /// Returns whether the program has ended, without waiting for it.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_some()
    }

    /// Waits for the end; describes and kills a program that hangs.
    pub(crate) fn finish(self) -> Outcome {
        let Self { mut child, story, scratch, stats, limit } = self;
        let limit = limit * patience();
        let pid = child.id();
        let (sender, receiver) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let status = child.wait().expect("the child is ours");
            // The receiver is missing only if the test has panicked.
            let _ = sender.send(status);
        });
        let mut hang = None;
        let status = receiver.recv_timeout(limit).unwrap_or_else(|_| {
            hang = Some(describe_hang(pid));
            kill_group(pid);
            receiver.recv().expect("a killed process ends")
        });
        waiter.join().expect("the waiter does not panic");
        let outcome = Outcome {
            stdout: read(&scratch.join("stdout")),
            stderr: read(&scratch.join("stderr")),
            status,
            story,
            stats,
        };
        if let Some(hang) = hang {
            panic!("still running after {} s\n{hang}\n{outcome}", limit.as_secs());
        }
        outcome
    }
}

/// How a run ended.
pub(crate) struct Outcome {
    /// Exit code or signal.
    pub(crate) status: ExitStatus,
    /// All of standard output.
    pub(crate) stdout: String,
    /// All of standard error.
    pub(crate) stderr: String,
    story: String,
    stats: Option<PathBuf>,
}

impl Outcome {
    /// Demands exit code 0 and, if statistics were requested, that Quarry served allocations.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert!(self.status.success(), "the program failed\n{self}");
        if let Some(file) = &self.stats {
            let stats = Stats::read(file).unwrap_or_else(|why| panic!("{why}\n{self}"));
            assert!(
                stats.object_allocs() > 0,
                "no allocation reached Quarry; its statistics:\n{}\n{self}",
                stats.text()
            );
        }
        self
    }

    /// The statistics written at exit.
    #[track_caller]
    pub(crate) fn stats(&self) -> Stats {
        let file = self.stats.as_ref().expect("the run asked for statistics");
        Stats::read(file).unwrap_or_else(|why| panic!("{why}\n{self}"))
    }

    /// Demands death by SIGABRT and exactly `line` on standard error.
    #[track_caller]
    pub(crate) fn aborted_with(&self, line: &str) {
        // A mode that looks for errors prints more lines.
        let has_mode = std::env::var_os("TEST_MODE").is_some();
        let is_said = match self.stderr.strip_prefix(line) {
            Some(rest) if has_mode => rest.starts_with('\n'),
            rest => rest == Some("\n"),
        };
        assert!(
            self.status.signal() == Some(libc::SIGABRT) && is_said,
            "expected SIGABRT and `{line}`\n{self}"
        );
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command: {}", self.story)?;
        writeln!(f, "ended with: {}", self.status)?;
        writeln!(f, "--- stdout\n{}", tail(&self.stdout))?;
        write!(f, "--- stderr\n{}", tail(&self.stderr))
    }
}

/// Returns the end of a long output, which usually has the cause.
fn tail(text: &str) -> &str {
    const BYTES: usize = 8000;
    let mut start = text.len().saturating_sub(BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The file as text; empty if it cannot be read, for example because its process has ended.
fn read(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

/// The command as a line for a shell.
fn describe(command: &Command) -> String {
    let mut words: Vec<OsString> = command
        .get_envs()
        .filter_map(|(name, value)| {
            let mut word = name.to_owned();
            word.push("=");
            word.push(value?);
            Some(word)
        })
        .collect();
    words.push(command.get_program().to_owned());
    words.extend(command.get_args().map(OsStr::to_owned));
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Describes the threads of the processes in the group `group`, from /proc and by the debugger if
/// there is one. Often a child hangs, and its parent only waits.
fn describe_hang(group: u32) -> String {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|process| process.path())
        .filter(|folder| group_of(folder) == Some(group))
        .take(4)
        .map(|folder| describe_process(&folder))
        .collect()
}

/// The process group: the third word after the command in parentheses.
fn group_of(process: &Path) -> Option<u32> {
    let stat = read(&process.join("stat"));
    stat.rsplit_once(") ")?.1.split_whitespace().nth(2)?.parse().ok()
}

fn describe_process(process: &Path) -> String {
    let command = read(&process.join("cmdline")).replace('\0', " ");
    let mut text = format!("{}: {command}\n", process.display());
    for task in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
        let call = read(&task.path().join("syscall"));
        text += &format!("  thread {:?}: system call {call}", task.file_name());
    }
    let pid = process.file_name().unwrap_or_default();
    let debugger = Command::new("gdb")
        .args(["--batch", "-nx", "-ex", "thread apply all backtrace 30", "-p"])
        .arg(pid)
        .stdin(Stdio::null())
        .output();
    match debugger {
        Ok(answer) => text + &String::from_utf8_lossy(&answer.stdout),
        Err(_) => text,
    }
}

/// Kills the process and all processes that it has started.
fn kill_group(pid: u32) {
    let group = -i32::try_from(pid).expect("a pid fits");
    // SAFETY: kill has no memory preconditions, and the group is the one that we have created.
    unsafe { libc::kill(group, libc::SIGKILL) };
}
