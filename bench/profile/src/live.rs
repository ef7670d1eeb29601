//! Takes a profile of a running process.

use crate::bell::Bell;
use crate::raw::{MOST_BYTES, Raw};
use anyhow::{Context, Result, bail};
use quarry_live::{Problem, Process};
use quarry_record::profile_bell::{wish_for, wish_for_pins};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NAME: &str = "/memfd:quarry-profile (deleted)";
const LOOK: Duration = Duration::from_millis(20);
const NO_PINS: &str = "another profile is on, or the process has another version of Quarry";
const END: Duration = Duration::from_secs(2);

/// A request for a profile.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The longest wait for the process to react.
    pub patience: Duration,
    /// Mean bytes from one sample to the next.
    pub mean: usize,
    /// True if frees are traced.
    pub frees: bool,
    /// True if samples in slabs stay there, to tell what they pin.
    pub pins: bool,
}

struct Target {
    process: Process,
    maps: Vec<u8>,
}

impl Target {
    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.process.who().pid))
    }

    fn look_at_maps(&mut self) {
        if let Ok(maps) = quarry_wary::read(self.folder().join("maps"), MOST_BYTES)
            && !maps.is_empty()
        {
            self.maps = maps;
        }
    }

    /// The memfd of this process's profile; the child of a fork may also have that of its parent.
    fn profile(&self) -> Option<File> {
        let entries = fs::read_dir(self.folder().join("fd")).ok()?;
        let links = entries.flatten().map(|entry| entry.path());
        let named = links.filter(|link| fs::read_link(link).is_ok_and(|to| to.as_os_str() == NAME));
        let files = named.filter_map(|link| quarry_wary::open(link).ok());
        let own = self.process.own_pid();
        { files }.find(|file| read(file).is_ok_and(|raw| raw.pid == own))
    }
}

fn read(file: &File) -> Result<Raw> {
    let bytes = file.metadata()?.len();
    anyhow::ensure!(bytes <= MOST_BYTES, "the profile is too long");
    let mut copy = vec![0; bytes as usize];
    file.read_exact_at(&mut copy, 0).context("reading the profile")?;
    let mut raw = Raw::parse(&copy)?;
    raw.maps.clear();
    Ok(raw)
}

/// A profile taken from a running process. If a profile of the process was on already, this is that
/// profile, from its own start on.
pub struct Taken {
    /// The profile, and the mappings of the process.
    pub(crate) raw: Raw,
    /// The root folder of the profiled process's files, as this command sees it.
    pub(crate) root: PathBuf,
}

/// Takes a profile of a process, from the moment at which the process reacts until `is_over`
/// returns true or the process ends. `is_over` gets the time since the reaction; `None` before it.
///
/// # Errors
/// If the process does not run on Quarry, belongs to another user, or does not react.
pub fn take(
    process: Process,
    wish: &Wish,
    is_over: impl Fn(Option<Duration>) -> bool,
) -> Result<Taken> {
    let mut running = Running::start(process, wish, || is_over(None))?;
    let began = Instant::now();
    running.wait(|| is_over(Some(began.elapsed())));
    running.tell_if_it_was_on();
    running.finish()
}

/// A profile that is on in a process, because this value lives or because it was on already.
pub(crate) struct Running {
    target: Target,
    file: File,
    bell: Bell,
    was_on: bool,
    pins: bool,
}

impl Running {
    /// Waits until the process has begun a profile.
    pub(crate) fn start(process: Process, wish: &Wish, is_over: impl Fn() -> bool) -> Result<Self> {
        wait_for_record(&process, wish.patience)?;
        let (record, at) = process.shared_record()?.with_context(|| {
            format!("{} has closed the descriptor of its statistics page", process.who())
        })?;
        let mut target = Target { process, maps: Vec::new() };
        let before = target.profile().and_then(|file| read(&file).ok()).map_or(0, |it| it.session);
        let was_on = before % 2 == 1;
        let wished =
            if wish.pins { wish_for_pins(wish.mean) } else { wish_for(wish.mean, wish.frees) };
        let bell = Bell::ring(&record, at, wished)?;
        let file = wait_for_start(&mut target, wish.patience, before, is_over)?;
        Ok(Self { target, file, bell, was_on, pins: wish.pins })
    }

    /// Tells the user if this profile began before it was asked for.
    pub(crate) fn tell_if_it_was_on(&self) {
        if self.was_on {
            let who = self.target.process.who();
            eprintln!("quarry: a profile of {who} was on already: this is it, from its start");
        }
    }

    /// Waits until `is_over` returns true; returns false if the process ended before.
    pub(crate) fn wait(&mut self, is_over: impl Fn() -> bool) -> bool {
        let mut next_look = Instant::now();
        while !is_over() {
            if !self.target.process.is_alive() {
                return false;
            }
            if Instant::now() >= next_look {
                self.target.look_at_maps();
                next_look = Instant::now() + Duration::from_secs(1);
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// The profile until now.
    pub(crate) fn so_far(&mut self) -> Result<Taken> {
        self.target.look_at_maps();
        let mut raw = read(&self.file)?;
        anyhow::ensure!(!self.pins || raw.has_pins, "{}", NO_PINS);
        if raw.stopped_ns == 0 && raw.started_ns != 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            raw.stopped_ns = now.as_nanos() as u64;
        }
        raw.maps.clone_from(&self.target.maps);
        Ok(Taken { raw, root: self.target.folder().join("root") })
    }

    /// Ends the profile, unless it was on before.
    pub(crate) fn finish(mut self) -> Result<Taken> {
        let mut taken = self.so_far()?;
        if !self.was_on {
            let give_up = Instant::now() + END;
            self.bell.stop(|| {
                let is_over = || read(&self.file).is_ok_and(|raw| raw.session % 2 == 0);
                Instant::now() >= give_up || !self.target.process.is_alive() || is_over()
            });
            if self.pins {
                // The process counts pins at the end.
                Raw { sites: taken.raw.sites, words: taken.raw.words, .. } = read(&self.file)?;
            }
        }
        Ok(taken)
    }
}

/// Waits until the process has a record, which it lacks shortly after its start or its fork.
pub(crate) fn wait_for_record(process: &Process, patience: Duration) -> Result<(), Problem> {
    let began = Instant::now();
    loop {
        match process.read() {
            Err(problem) if problem.may_pass() && began.elapsed() < patience => thread::sleep(LOOK),
            read => return read.map(|_| ()),
        }
    }
}

fn wait_for_start(
    target: &mut Target,
    patience: Duration,
    before: u64,
    is_over: impl Fn() -> bool,
) -> Result<File> {
    let began = Instant::now();
    loop {
        target.look_at_maps();
        if let Some(file) = target.profile()
            && let Ok(raw) = read(&file)
            && (raw.session % 2 == 1 || raw.session > before)
        {
            return Ok(file);
        }
        if !target.process.is_alive() {
            bail!("{} has ended before its profile began", target.process.who());
        }
        if began.elapsed() >= patience || is_over() {
            let longer = if patience < Duration::MAX { "--wait waits longer, " } else { "" };
            bail!(
                "{} has not reacted for {}: it does when it next asks Quarry for memory on \
                 a slow path, so one that sleeps, or that fast paths serve alone, does not; \
                 {longer}QUARRY_RECORD=live at its start makes it react at once, or a signal that \
                 QUARRY_SIGNAL named at its start",
                target.process.who(),
                humantime::format_duration(Duration::from_secs(began.elapsed().as_secs()))
            );
        }
        thread::sleep(LOOK);
    }
}

/// Reads a profile from a file, which the user has named.
pub(crate) fn load(path: &Path) -> Result<Raw> {
    parsed(path, File::open(path).and_then(|file| quarry_wary::read_whole(file, MOST_BYTES)))
}

/// Reads a profile from a file in a folder where a program has written.
pub(crate) fn load_written(path: &Path) -> Result<Raw> {
    parsed(path, quarry_wary::read(path, MOST_BYTES))
}

fn parsed(path: &Path, bytes: std::io::Result<Vec<u8>>) -> Result<Raw> {
    let of = || quarry_wary::plain(&path.to_string_lossy()).into_owned();
    Raw::parse(&bytes.with_context(of)?).with_context(of)
}
