//! One sample of the program: its process, what it printed, what it was served by.

use super::asked;
use super::figure::Figure;
use super::interrupt::Interrupt;
use super::reach;
use super::supervisor::{End, Report};
use super::witness::{self, Testimony, Witnesses};
use crate::SUPERVISE_COMMAND;
use crate::contenders::Contender;
use crate::results::{Measurement, Reading, Timeline};
use crate::runner::{self, INTERRUPTED, Taken};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The program, and everything that is the same for all of its samples.
pub(super) struct Bench<'a> {
    /// The file that is executed.
    pub(super) file: &'a Path,
    /// Its name and arguments.
    pub(super) command: &'a [OsString],
    /// When a sample has failed.
    pub(super) timeout: Duration,
    /// What it prints.
    pub(super) figures: &'a [Figure],
    /// Whether all samples must print the same.
    pub(super) check_output: bool,
    /// Tells when to stop.
    pub(super) interrupt: &'a Interrupt,
    scratch: TempDir,
    witnesses: Witnesses,
    stdin: Option<PathBuf>,
    reference: RefCell<Option<Reference>>,
}

/// What the first good sample printed.
struct Reference {
    by: String,
    output: Vec<u8>,
}

/// A sample as it came.
pub(super) struct Raw {
    /// The process.
    pub(super) report: Report,
    /// What its programs said.
    pub(super) said: Vec<Testimony>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// What Quarry counted itself: allocations and frees of objects.
    own_count: Option<(u64, u64)>,
}

impl<'a> Bench<'a> {
    /// Makes the folder that samples write into.
    ///
    /// # Errors
    /// Where that cannot be made, or nothing in it could be preloaded.
    pub(super) fn new(
        file: &'a Path,
        command: &'a [OsString],
        timeout: Duration,
        figures: &'a [Figure],
        check_output: bool,
        interrupt: &'a Interrupt,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("quarry-compare").tempdir()?;
        if !is_expressible(scratch.path()) {
            bail!(
                "TMPDIR: {}: LD_PRELOAD cannot hold a path with a colon or white space",
                scratch.path().display()
            );
        }
        let witnesses = Witnesses::unpack(scratch.path())?;
        Ok(Self {
            file,
            command,
            timeout,
            figures,
            check_output,
            interrupt,
            scratch,
            witnesses,
            stdin: standard_input(),
            reference: RefCell::new(None),
        })
    }

    /// One run of the program under the counter, on glibc.
    ///
    /// # Errors
    /// Where it could not be made, or the program failed.
    pub(super) fn probe(&self, glibc: &Contender) -> Result<Raw> {
        let raw = self.run(glibc, &self.witnesses.counter, false)?;
        match failure_of(&raw, self.timeout) {
            None => Ok(raw),
            Some(failure) => bail!(failure),
        }
    }

    /// Takes a sample. In the warm-up Quarry prints its own statistics, which takes it some time.
    ///
    /// # Errors
    /// Why it does not count.
    pub(super) fn take(&self, contender: &Contender, warm_up: bool) -> Result<Taken, String> {
        if self.interrupt.signal().is_some() {
            return Err(INTERRUPTED.to_owned());
        }
        let raw = self.run(contender, &self.witnesses.witness, warm_up && is_quarry(contender));
        let raw = raw.map_err(|error| format!("{error:#}"))?;
        if raw.report.end == End::Cancelled {
            return Err(INTERRUPTED.to_owned());
        }
        if let Some(failure) = failure_of(&raw, self.timeout) {
            return Err(failure);
        }
        let served_by = reach::served(contender, &raw.report, &raw.said)?;
        self.check(contender, &raw)?;
        self.measured(&raw, served_by)
    }

    fn run(&self, contender: &Contender, witness: &Path, with_statistics: bool) -> Result<Raw> {
        let place = |name: &str| self.scratch.path().join(name);
        let (stdout, stderr, file) = (place("stdout"), place("stderr"), place("witness"));
        witness::create(&file)?;
        // Also where the file has been replaced meanwhile.
        let mut supervisor = Command::new("/proc/self/exe");
        supervisor.arg(SUPERVISE_COMMAND);
        supervisor.arg("--stdout").arg(&stdout).arg("--stderr").arg(&stderr);
        if let Some(stdin) = &self.stdin {
            supervisor.arg("--stdin").arg(stdin);
        }
        supervisor.arg(format!("--timeout-ms={}", self.timeout.as_millis()));
        for key in runner::cleared_variables() {
            supervisor.arg("--unset").arg(key);
        }
        let mut set = |key: &str, value: &OsString| {
            let mut assignment = OsString::from(key);
            assignment.push("=");
            assignment.push(value);
            supervisor.arg("--set").arg(assignment);
        };
        set(witness::variable(), &file.into());
        set("LD_PRELOAD", &preload(witness, &asked::file_of(contender)?)?);
        contender.settings.iter().for_each(|(key, value)| set(key, &value.into()));
        let statistics = place("statistics");
        if with_statistics {
            // Every process appends.
            let _ = fs::remove_file(&statistics);
            set("QUARRY_STATS", &statistics.clone().into());
        }
        supervisor.arg("--").arg(self.file).args(self.command);
        let report = self.answer_of(&mut supervisor)?;
        Ok(Raw {
            report,
            said: witness::read(&place("witness"))?,
            stdout: fs::read(place("stdout")).unwrap_or_default(),
            stderr: fs::read(place("stderr")).unwrap_or_default(),
            own_count: match with_statistics {
                true => fs::read_to_string(&statistics).ok().map(|text| own_count(&text)),
                false => None,
            },
        })
    }

    /// Waits for the supervisor's report. On an interruption its standard input is closed, and
    /// it ends its processes and answers.
    fn answer_of(&self, supervisor: &mut Command) -> Result<Report> {
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The terminal's Ctrl-C is for the command; it tells its supervisor.
        std::os::unix::process::CommandExt::process_group(supervisor, 0);
        let mut child = supervisor.spawn().context("cannot start a sample")?;
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
                drop(child.stdin.take());
            }
            if has_answer {
                let mut part = [0; 16384];
                match pipe.read(&mut part)? {
                    0 => break,
                    length => answer.extend_from_slice(&part[..length]),
                }
            }
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("the sample's supervisor: {}", runner::end_of(&output));
        }
        serde_json::from_slice(&answer).context("unreadable answer of a sample's supervisor")
    }

    fn check(&self, contender: &Contender, raw: &Raw) -> Result<(), String> {
        if !self.check_output {
            return Ok(());
        }
        let mut reference = self.reference.borrow_mut();
        let Some(first) = &*reference else {
            let by = contender.name().to_owned();
            *reference = Some(Reference { by, output: raw.stdout.clone() });
            return Ok(());
        };
        match difference(&first.output, &raw.stdout) {
            None => Ok(()),
            Some(what) => Err(format!("printed something else than on {}: {what}", first.by)),
        }
    }

    fn measured(&self, raw: &Raw, served_by: String) -> Result<Taken, String> {
        let report = &raw.report;
        let cpu_ns = report.user_ns + report.sys_ns;
        let measurement =
            Measurement::of_window(1, report.wall_ns, report.wall_ns, cpu_ns, &served_by);
        let mut measurement = measurement.with(&[
            ("user_ns", report.user_ns),
            ("sys_ns", report.sys_ns),
            ("page_faults", report.minor_faults + report.major_faults),
            ("major_faults", report.major_faults),
            ("switches", report.voluntary_switches + report.involuntary_switches),
            ("involuntary_switches", report.involuntary_switches),
            ("programs", raw.said.len() as u64),
            ("left_running", report.left_running as u64),
        ]);
        let peaks = raw.said.iter().map(|one| one.peak_bytes).chain([report.peak_bytes]);
        if let Some(peak) = peaks.max().filter(|peak| *peak > 0) {
            measurement = measurement.with(&[("peak_bytes", peak)]);
        }
        if let Some(idle) = report.idle_bytes {
            measurement = measurement.with(&[("idle_bytes", idle)]);
        }
        if let Some((allocations, frees)) = raw.own_count {
            let counted = [("quarry_allocations", allocations), ("quarry_frees", frees)];
            measurement = measurement.with(&counted);
        }
        measurement.verified = 1;
        for figure in self.figures {
            let value = figure.find(&raw.stdout).or_else(|| figure.find(&raw.stderr));
            let Some(value) = value else {
                return Err(format!("printed no number that --metric {} finds", figure.name));
            };
            measurement.figures.insert(figure.name.clone(), value);
        }
        let reading = |look: &super::supervisor::Look| Reading {
            ms: look.ms,
            resident: look.resident,
            charged: 0,
        };
        let readings = report.looks.iter().map(reading).collect();
        let timeline = Timeline { readings, phases: Vec::new(), in_group: false };
        Ok(Taken { measurement, timeline: Some(timeline) })
    }
}

fn is_quarry(contender: &Contender) -> bool {
    let file = contender.allocator.preload.as_ref().and_then(|file| file.file_name());
    file.is_some_and(|name| name.as_encoded_bytes().starts_with(b"libquarry"))
}

/// Sums of the numbers behind `operations` in lines of Quarry's `slabinfo`.
fn own_count(statistics: &str) -> (u64, u64) {
    let counts = statistics.lines().filter_map(|line| {
        let mut words = line.rsplit_once(": operations ")?.1.split_whitespace();
        Some((words.next()?.parse::<u64>().ok()?, words.next()?.parse::<u64>().ok()?))
    });
    counts.fold((0, 0), |(allocations, frees), (a, f)| (allocations + a, frees + f))
}

fn is_expressible(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|it| matches!(it, b':' | b' ' | b'\t' | b'\n'))
}

/// The witness, the allocator, and what the user preloads anyway.
fn preload(witness: &Path, allocator: &Path) -> Result<OsString> {
    if !is_expressible(allocator) {
        bail!("{}: LD_PRELOAD cannot hold a path with a colon or white space", allocator.display());
    }
    let mut value = witness.as_os_str().to_owned();
    value.push(":");
    value.push(allocator);
    if let Some(own) = std::env::var_os("LD_PRELOAD").filter(|own| !own.is_empty()) {
        value.push(":");
        value.push(own);
    }
    Ok(value)
}

/// A file at standard input is read anew by every sample; anything else could be read only once.
fn standard_input() -> Option<PathBuf> {
    let path = fs::read_link("/proc/self/fd/0").ok()?;
    path.is_file().then_some(path)
}

fn failure_of(raw: &Raw, timeout: Duration) -> Option<String> {
    let text = match &raw.report.end {
        End::Exited(0) => return None,
        End::Exited(status) => format!("exit status {status}"),
        End::Signalled(signal) => format!("ended by signal {signal}"),
        End::TimedOut => format!("not done after {} (--timeout)", seconds(timeout)),
        End::Cancelled => INTERRUPTED.to_owned(),
        End::NotStarted(error) => format!("cannot be started: {error}"),
    };
    let errors = String::from_utf8_lossy(&raw.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    Some(last.map_or(text.clone(), |last| format!("{text}: {last}")))
}

/// Seconds as people write them.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// The first line in which two outputs differ.
fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let lines = |bytes: &'_ [u8]| -> Vec<Vec<u8>> {
        bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let (expected, found) = (lines(expected), lines(found));
    let at = expected.iter().zip(&found).position(|(a, b)| a != b);
    let at = at.unwrap_or(expected.len().min(found.len()));
    let shown = |lines: &[Vec<u8>]| match lines.get(at) {
        None => "nothing".to_owned(),
        Some(line) => {
            let text: String = String::from_utf8_lossy(line).chars().take(60).collect();
            format!("\"{text}\"")
        }
    };
    Some(format!("line {}: {} instead of {}", at + 1, shown(&found), shown(&expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_line_is_shown() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
        let of = |expected: &str, found: &str| {
            difference(expected.as_bytes(), found.as_bytes()).unwrap()
        };
        assert_eq!(of("a\nb\n", "a\nc\n"), "line 2: \"c\" instead of \"b\"");
        assert_eq!(of("a\n", "a\nc\n"), "line 2: \"c\" instead of \"\"");
        assert_eq!(of("a\nb", "a"), "line 2: nothing instead of \"b\"");
    }

    #[test]
    fn quarrys_own_statistics_are_summed_up() {
        let text = "# name <objs> : operations <alloc> <free> <%fast> <%fast>\n\
                    malloc-48  1 2 : slabdata 1 1 0 : operations   61   60  99  99\n\
                    malloc-64  1 2 : slabdata 1 1 0 : operations    9    5  99  99\n\n\
                    zone->lock 7 0 1\n";
        assert_eq!(own_count(text), (70, 65));
    }

    #[test]
    fn paths_that_cannot_be_preloaded_are_refused() {
        let error = preload(Path::new("/w.so"), Path::new("/a b.so")).unwrap_err().to_string();
        assert!(error.contains("colon or white space"), "{error}");
    }
}
