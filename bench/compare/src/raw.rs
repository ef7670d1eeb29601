//! A sample of a program before it is judged.

use super::aged::Aged;
use super::supervisor::{End, Report};
use super::witness::ProcessRecord;
use anyhow::Result;
use quarry_harness::launch::last_line;
use quarry_harness::results::{Measurement, Timeline};
use quarry_harness::sampler::NoSample;
use std::time::Duration;

/// The work of a server's clients, after which the server is asked to end. Its argument is a
/// function that returns whether the server still runs.
pub type Clients = dyn Fn(&dyn Fn() -> bool) -> Result<Served> + Sync;

/// Result of the clients of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests that were sent.
    pub requests: u64,
    /// Requests that got the correct reply.
    pub right: u64,
    /// Time from the first request to the last reply.
    pub wall_ns: u64,
}

/// The beginning of the reason for a failure by the exit status.
pub(super) const EXIT_STATUS: &str = "exit status ";
/// The way out for a user who meets such a failure.
pub(super) const IGNORE_FAILURE: &str =
    "-i (--ignore-failure) counts runs whatever their exit status is";
/// The way out for a user whose program does not end.
pub(super) const SERVER_HINT: &str = concat!(
    "a server needs a script that starts it in the background, gives it work and ends: ",
    "`man quarry-compare` has one"
);
/// A program that ends by the timeout hangs or serves if it has not run for this long.
pub(super) const QUIET: Duration = Duration::from_secs(2);

/// A sample before it is judged.
#[derive(Default)]
pub struct Raw {
    pub(super) report: Report,
    pub(super) said: Vec<ProcessRecord>,
    /// Standard output of the program.
    pub stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Numbers of allocations and frees that Quarry counted.
    pub(super) own_count: Option<(u64, u64)>,
    pub(super) served: Option<Result<Served>>,
}

impl Raw {
    /// Checks that the sample counts: the program ended well or, with `ignore_failure`, by itself,
    /// and the clients had no error.
    pub(super) fn check(&self, timeout: Duration, ignore_failure: bool) -> Result<(), NoSample> {
        let text = match &self.report.end {
            End::Cancelled => return Err(NoSample::Interrupted),
            End::Exited(_) if ignore_failure => return Ok(()),
            End::Exited(0) => match &self.served {
                Some(Err(error)) => return Err(format!("its client: {error:#}").into()),
                _ => return Ok(()),
            },
            End::Exited(status) => format!("{EXIT_STATUS}{status}"),
            End::Signalled(signal) => format!("ended by signal {signal}"),
            End::TimedOut => match self.report.quiet {
                quiet if quiet < QUIET => {
                    format!("not done after {} (--timeout)", seconds(timeout))
                }
                _ => format!(
                    "not done after {} (--timeout), and nothing of it has run for the last {:.0} \
                     s; {SERVER_HINT}",
                    seconds(timeout),
                    self.report.quiet.as_secs_f64()
                ),
            },
            End::NotStarted(error) => format!("cannot be started: {error}"),
        };
        let last = last_line(&self.stderr);
        Err(last.map_or(text.clone(), |last| format!("{text}: {last}")).into())
    }

    /// Returns the measurement. An operation is one run of the program, or one request to a server;
    /// only replies of a server are verified here.
    pub fn measurement(&self, served_by: &str) -> Measurement {
        let report = &self.report;
        let found = Aged::of(&self.said);
        let aged = found.unwrap_or_default();
        let wall_ns = report.wall_ns.saturating_sub(aged.wall_ns);
        let user_ns = report.user_ns.saturating_sub(aged.user_ns);
        let sys_ns = report.sys_ns.saturating_sub(aged.sys_ns);
        let faults = report.minor_faults + report.major_faults;
        let switches = report.voluntary_switches + report.involuntary_switches;
        let own = |bytes: Option<u64>| bytes.map(|bytes| bytes.saturating_sub(aged.kept));
        let measurement = Measurement::of_window(1, wall_ns, wall_ns, user_ns + sys_ns, served_by);
        let mut measurement = measurement.with(&[
            ("user_ns", user_ns),
            ("sys_ns", sys_ns),
            ("page_faults", faults.saturating_sub(aged.faults)),
            ("major_faults", report.major_faults),
            ("switches", switches.saturating_sub(aged.switches)),
            ("involuntary_switches", report.involuntary_switches.saturating_sub(aged.involuntary)),
            ("programs", self.said.len() as u64),
            ("left_running", report.left_running as u64),
        ]);
        let peaks = self.said.iter().map(|one| one.peak_bytes).chain([report.peak_bytes]);
        let peak = peaks.max().filter(|peak| *peak > 0);
        let known = [
            ("peak_bytes", own(peak)),
            ("huge_bytes", report.huge_bytes),
            ("idle_bytes", own(report.idle_bytes)),
            ("final_bytes", own(report.final_bytes)),
            ("ageing_ns", found.map(|it| it.wall_ns)),
            ("ageing_kept_bytes", found.map(|it| it.kept)),
            ("cpu_delay_ns", self.delay_ns()),
            ("quarry_allocations", self.own_count.map(|it| it.0)),
            ("quarry_frees", self.own_count.map(|it| it.1)),
        ];
        for (name, value) in known {
            measurement.counters.extend(value.map(|value| (name.to_owned(), value)));
        }
        if let Some(Ok(Served { requests, right, wall_ns })) = self.served {
            measurement.operations = requests;
            measurement.verified = right;
            measurement = measurement.with(&[("requests", requests), ("client_ns", wall_ns)]);
        }
        measurement
    }

    /// How long all threads together waited for a CPU; `None` if the kernel does not tell. What a
    /// process says at its end is later than the last look at it.
    pub(super) fn delay_ns(&self) -> Option<u64> {
        let mut delays = self.report.delays.clone();
        for one in &self.said {
            let seen = delays.entry(one.pid).or_default();
            *seen = one.delay_ns.max(*seen);
        }
        Some(delays.values().sum()).filter(|_| !self.report.delays.is_empty())
    }

    /// Memory over time.
    pub fn timeline(&self) -> Timeline {
        self.report.timeline.clone()
    }
}

/// Sums allocations and frees of objects, blocks and mappings: `operations` in Quarry's statistics.
pub(super) fn own_count(statistics: &str) -> (u64, u64) {
    let counts = statistics.lines().filter_map(|line| {
        let mut words = line.rsplit_once(": operations ")?.1.split_whitespace();
        Some((words.next()?.parse::<u64>().ok()?, words.next()?.parse::<u64>().ok()?))
    });
    counts.fold((0, 0), |(allocations, frees), (a, f)| (allocations + a, frees + f))
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// The first line in which two outputs differ.
pub fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let lines = |bytes| <[u8]>::split(bytes, |byte| *byte == b'\n');
    let same = lines(expected).zip(lines(found)).take_while(|(a, b)| a == b).count();
    let shown = |bytes| match lines(bytes).nth(same) {
        None => "nothing".to_owned(),
        Some(line) => format!("\"{:.60}\"", String::from_utf8_lossy(line)),
    };
    Some(format!("line {}: {} instead of {}", same + 1, shown(found), shown(expected)))
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
        let large = "# large requests : operations <alloc> <free> <resize>\n\
                     blocks           : operations          2          2          7\n\
                     mappings         : operations         80         79          0\n";
        assert_eq!(own_count(large), (82, 81));
        assert_eq!(own_count(&[text, large, text].concat()), (222, 211));
    }

    fn raw(end: End, served: Option<Result<Served>>) -> Raw {
        Raw {
            report: Report { end, ..Report::default() },
            said: Vec::new(),
            stdout: Vec::new(),
            stderr: b"cannot\n\n".to_vec(),
            own_count: None,
            served,
        }
    }

    #[test]
    fn the_end_of_a_server_says_more_than_its_clients() {
        let limit = Duration::from_secs(1);
        let of = |end, served| raw(end, served).check(limit, false);
        let complaint = || Some(Err(anyhow::anyhow!("no reply")));
        let failed = |text: &str| Err(NoSample::from(text));
        assert_eq!(of(End::Signalled(11), complaint()), failed("ended by signal 11: cannot"));
        assert_eq!(of(End::Exited(0), complaint()), failed("its client: no reply"));
        assert_eq!(of(End::Exited(0), Some(Ok(Served::default()))), Ok(()));
        assert_eq!(of(End::Exited(0), None), Ok(()));
        assert_eq!(raw(End::Exited(7), complaint()).check(limit, true), Ok(()));
        assert_eq!(of(End::Cancelled, None), Err(NoSample::Interrupted));
    }

    #[test]
    fn requests_are_the_operations_of_a_server() {
        let served = Served { requests: 10, right: 9, wall_ns: 5 };
        let measurement = raw(End::Exited(0), Some(Ok(served))).measurement("x");
        assert_eq!((measurement.operations, measurement.verified), (10, 9));
        assert_eq!(measurement.figure("client_ns"), Some(5.0));
        let alone = raw(End::Exited(0), None).measurement("x");
        assert_eq!((alone.operations, alone.verified), (1, 0));
        assert_eq!(alone.figure("client_ns"), None);
    }
}
