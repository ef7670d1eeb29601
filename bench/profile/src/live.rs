//! Takes a profile of a running process.

use crate::bell::Bell;
use crate::raw::Raw;
use anyhow::{Context, Result, bail};
use quarry_live::{Problem, Process};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NAME: &str = "/memfd:quarry-profile (deleted)";
const LOOK: Duration = Duration::from_millis(20);
const END: Duration = Duration::from_secs(2);

/// A request for a profile.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The process.
    pub pid: u32,
    /// The duration of the profile.
    pub time: Duration,
    /// The longest wait for the process to react.
    pub patience: Duration,
    /// Mean bytes from one sample to the next.
    pub mean: usize,
    /// True if frees are traced.
    pub frees: bool,
}

struct Target {
    process: Process,
    pid: u32,
    maps: String,
}

impl Target {
    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pid))
    }

    fn look_at_maps(&mut self) {
        if let Ok(maps) = fs::read_to_string(self.folder().join("maps"))
            && !maps.is_empty()
        {
            self.maps = maps;
        }
    }

    /// The memfd of its own profile; the child of a fork may have its parent's memfd as well.
    fn profile(&self) -> Option<File> {
        let entries = fs::read_dir(self.folder().join("fd")).ok()?;
        let links = entries.flatten().map(|entry| entry.path());
        let named = links.filter(|link| fs::read_link(link).is_ok_and(|to| to.as_os_str() == NAME));
        let files = named.filter_map(|link| File::open(link).ok());
        let own = self.process.own_pid();
        { files }.find(|file| read(file).is_ok_and(|raw| raw.pid == own))
    }
}

fn read(file: &File) -> Result<Raw> {
    let bytes = file.metadata()?.len();
    anyhow::ensure!(bytes < 1 << 30, "the profile is too long");
    let mut copy = vec![0; bytes as usize];
    file.read_exact_at(&mut copy, 0).context("reading the profile")?;
    let mut raw = Raw::parse(&copy)?;
    raw.maps.clear();
    Ok(raw)
}

/// A profile taken from a running process.
pub struct Taken {
    /// The profile, and the mappings of the process.
    pub raw: Raw,
    /// The root folder of its files, as seen by this process.
    pub root: PathBuf,
    /// True if a profile was on already; then this is that profile, from its beginning.
    pub was_on: bool,
}

/// Takes a profile of a process.
///
/// # Errors
/// If the process does not run on Quarry, belongs to another user, or does not react.
pub fn take(wish: &Wish) -> Result<Taken> {
    let process = Process::new(wish.pid)?;
    wait_for_record(&process, wish.patience)?;
    let (record, at) = process.shared_record()?.with_context(|| {
        format!("process {} has closed the descriptor of its statistics page", wish.pid)
    })?;
    let mut target = Target { process, pid: wish.pid, maps: String::new() };
    let before = target.profile().and_then(|file| read(&file).ok());
    let was_on = before.as_ref().is_some_and(|raw| raw.session % 2 == 1);
    let bell = Bell::ring(&record, at, wish.mean, wish.frees)?;
    let file = wait_for_start(&mut target, wish, before.as_ref().map_or(0, |raw| raw.session))?;
    let end = Instant::now() + wish.time;
    let mut next_look = Instant::now();
    while Instant::now() < end && target.process.is_alive() {
        if Instant::now() >= next_look {
            target.look_at_maps();
            next_look = Instant::now() + Duration::from_secs(1);
        }
        thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    target.look_at_maps();
    let mut raw = read(&file)?;
    if raw.stopped_ns == 0 && raw.started_ns != 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        raw.stopped_ns = now.as_nanos() as u64;
    }
    if !was_on {
        let give_up = Instant::now() + END;
        bell.stop(|| {
            let is_over = || read(&file).is_ok_and(|raw| raw.session % 2 == 0);
            Instant::now() >= give_up || !target.process.is_alive() || is_over()
        });
    }
    raw.maps = std::mem::take(&mut target.maps);
    Ok(Taken { raw, root: target.folder().join("root"), was_on })
}

/// Waits for the first record: a process has none shortly after its start or its fork.
fn wait_for_record(process: &Process, patience: Duration) -> Result<(), Problem> {
    let give_up = Instant::now() + patience;
    loop {
        match process.read() {
            Err(problem) if problem.may_pass() && Instant::now() < give_up => thread::sleep(LOOK),
            read => return read.map(|_| ()),
        }
    }
}

fn wait_for_start(target: &mut Target, wish: &Wish, before: u64) -> Result<File> {
    let give_up = Instant::now() + wish.patience;
    loop {
        target.look_at_maps();
        if let Some(file) = target.profile()
            && let Ok(raw) = read(&file)
            && (raw.session % 2 == 1 || raw.session > before)
        {
            return Ok(file);
        }
        if !target.process.is_alive() {
            bail!("process {} has ended before its profile began", wish.pid);
        }
        if Instant::now() >= give_up {
            bail!(
                "process {} has not reacted for {}: it does when it next asks Quarry for memory on \
                 a slow path, so one that sleeps, or that fast paths serve alone, does not; --wait \
                 waits longer, and the signal that QUARRY_SIGNAL named at its start makes it react",
                wish.pid,
                humantime::format_duration(wish.patience)
            );
        }
        thread::sleep(LOOK);
    }
}

/// Reads a profile from a file.
///
/// # Errors
/// If the file cannot be read or is not a profile.
pub fn load(path: &std::path::Path) -> Result<Raw> {
    let mut bytes = Vec::new();
    let of = || path.display().to_string();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).with_context(of)?;
    Raw::parse(&bytes).with_context(of)
}
