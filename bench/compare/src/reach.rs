//! Decides whether an allocator can make a difference to a program; if not, names a remedy.

use super::raw::Raw;
use super::supervisor::Report;
use super::tree::Descendant;
use super::weight::{Influence, LONG_NS};
use super::witness::{Calls, ProcessRecord};
use crate::contenders::Contender;
use crate::interpose::{Obstacle, obstacle};
use crate::known::KNOWN;
use crate::{allocators, inside};
use object::read::ReadCache;
use quarry_harness::table::counted;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// If less than this share of the CPU time is spent in the allocator, including page faults of
/// requested memory, differences between runs must have other causes than the allocator.
const NEGLIGIBLE: f64 = 0.01;
/// The same share for a CPython whose own allocator serves most requests and malloc only the rest.
const NEGLIGIBLE_IN_PYTHON: f64 = 0.05;
/// The time of a page fault: a low estimate for most machines.
const FAULT_NS: f64 = 500.0;
const PAGE_BYTES: f64 = 4096.0;
/// If a program requests fewer bytes than this in total, no allocator changes its memory much.
const LITTLE_HEAP: u64 = 1 << 20;
/// A program waits if it does so for more than this part of its time, and this long.
const WAITS_SHARE: u64 = 20;
const WAITS_SLACK_NS: u64 = 2_000_000;
const PYMALLOC: &str = "Python serves its small objects itself (pymalloc): with \
                        PYTHONMALLOC=malloc allocators get them, too";
/// Short runs whose majority decides if a program is out of reach: a run may miss a process.
const LOOKS: usize = 3;
/// A sample counts only if other allocators served at most this share of the CPU time.
const MOST_UNSERVED: f64 = 0.1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoVerdict {
    pub(super) why: String,
    pub(super) remedy: String,
    /// True if an allocator serves the program but hardly makes a difference.
    pub(super) can_be_forced: bool,
}

impl fmt::Display for NoVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no verdict: {}\nwhat would help: {}", self.why, self.remedy)
    }
}

/// Returns why no verdict is possible, if that is known before the program runs. `program` is the
/// file whose code runs in the end; `library` is one of those to preload.
pub(super) fn before_it_runs(program: &Path, library: &Path) -> Option<NoVerdict> {
    let obstacle = obstacle(program, library).filter(|obstacle| !obstacle.is_partial())?;
    Some(no_verdict_of(program, &obstacle))
}

fn no_verdict_of(program: &Path, obstacle: &Obstacle) -> NoVerdict {
    let why = format!("{} {obstacle}", program.display());
    NoVerdict { why, remedy: remedy(obstacle).to_owned(), can_be_forced: false }
}

fn remedy(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Static => {
            "link it dynamically, or build each allocator into it (in Rust: #[global_allocator])"
        }
        Obstacle::Go | Obstacle::GoWithC => {
            "nothing outside it: Go has one allocator; GOGC and GOMEMLIMIT tune it"
        }
        Obstacle::SetId | Obstacle::Capabilities => {
            "compare a copy of it that gains no privileges (cp drops the bits)"
        }
        Obstacle::OtherLibc { .. } => "build it for glibc",
        Obstacle::OtherMachine { .. } => "compare it where it runs without emulation",
        Obstacle::Sanitizer(_) => "build it without -fsanitize",
        Obstacle::OwnMalloc | Obstacle::OwnAllocator(_) => {
            "relink it without an allocator of its own (redis: make MALLOC=libc; Rust: remove \
             #[global_allocator])"
        }
        Obstacle::Unreadable(_) => "make it readable",
    }
}

fn allocator_inside(program: &Path) -> Option<&'static str> {
    let cache = ReadCache::new(quarry_wary::open(program).ok()?);
    let file = inside::Program::parse(&cache).ok()?;
    inside::allocator(&file).map(|found| found.name)
}

/// The result of one run with its calls of malloc counted.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Calls of all processes.
    pub calls: Calls,
    /// CPU time of all processes, including the time of counting.
    pub(super) cpu_ns: u64,
    pub(super) wall_ns: u64,
    /// How long all threads together waited for a CPU, if the kernel tells.
    pub(super) delay_ns: Option<u64>,
    /// How much longer `wall_ns` may be because the supervisor waited for a CPU.
    pub(super) own_delay_ns: u64,
    pub(super) threads: u64,
    pub(super) peak_bytes: u64,
    is_on_pymalloc: bool,
    /// The program that used the most CPU time of those into which nothing was preloaded; `None` if
    /// these used at most [`MOST_UNSERVED`] of the CPU time.
    unserved: Option<PathBuf>,
    busiest: PathBuf,
}

impl Probe {
    /// Sums up a run with its calls of malloc counted.
    pub fn of(raw: &Raw, program: &Path) -> Self {
        let Raw { report, said, .. } = raw;
        let mut calls = Calls::default();
        said.iter().for_each(|one| calls += one.calls);
        let busiest = report.seen.values().filter(|it| it.cpu_ticks > 0);
        let busiest = busiest.max_by_key(|it| it.cpu_ticks).map(|it| it.executable.clone());
        let python = std::env::var_os("PYTHONMALLOC");
        let has_spoken = |path: &Path| said.iter().any(|one| one.executable == path);
        let silent = unserved_of(report, |path| (!has_spoken(path)).then(String::new));
        Self {
            calls,
            cpu_ns: report.user_ns + report.sys_ns,
            wall_ns: report.wall_ns,
            delay_ns: raw.delay_ns(),
            own_delay_ns: report.own_delay_ns,
            threads: report.seen.values().map(|it| it.threads).max().unwrap_or(0),
            peak_bytes: report.peak_bytes,
            is_on_pymalloc: said.iter().any(|one| one.has_python)
                && chooses_pymalloc(python.as_deref()),
            unserved: silent.map(|(path, _)| path),
            busiest: busiest.unwrap_or_else(|| program.to_owned()),
        }
    }

    /// Why time on the wall clock decides; `None` if CPU time does, because one thread runs at a
    /// time, and waits only for a CPU.
    pub(super) fn waits(&self) -> Option<String> {
        let ran = self.cpu_ns + self.delay_ns.unwrap_or(0);
        let (wall, slack) = (self.wall_ns, self.wall_ns / WAITS_SHARE + WAITS_SLACK_NS);
        let percent = |part: u64| 100.0 * part as f64 / wall.max(1) as f64;
        if ran > wall + slack {
            let threads = ran as f64 / wall.max(1) as f64;
            return Some(format!("about {threads:.1} of its threads run at once"));
        }
        let waited = wall.saturating_sub(ran);
        (waited > slack + self.own_delay_ns)
            .then(|| format!("it waits for {:.0} % of the time", percent(waited)))
    }

    /// The time on the wall clock that the program would have taken on a quiet machine.
    fn own_wall_ns(&self) -> u64 {
        let delay = self.delay_ns.unwrap_or(0) + self.own_delay_ns;
        self.wall_ns.saturating_sub(delay).max(self.cpu_ns.min(self.wall_ns))
    }

    /// Share of the CPU time spent in calls of malloc.
    pub fn share(&self) -> f64 {
        (self.calls.ns as f64 / self.cpu_ns.max(1) as f64).min(1.0)
    }

    /// Share of the CPU time on which an allocator has an influence: the time in its calls, and the
    /// time of the page faults that bring in the requested memory.
    pub(super) fn influence(&self) -> f64 {
        let faults = self.calls.bytes as f64 / PAGE_BYTES * FAULT_NS;
        self.share() + faults / self.cpu_ns.max(1) as f64
    }

    /// The reason why no allocator can make a difference, whatever its share of the time.
    pub(super) fn obstacle(&self, library: &Path) -> Option<NoVerdict> {
        let program = self.unserved.as_ref()?;
        Some(match obstacle(program, library) {
            Some(obstacle) => no_verdict_of(program, &obstacle),
            None => NoVerdict {
                why: format!("nothing could be preloaded into {}", program.display()),
                remedy: "let it keep LD_PRELOAD and QUARRYLAB_WITNESS in its environment".into(),
                can_be_forced: false,
            },
        })
    }

    pub(super) fn is_out_of_reach(&self) -> bool {
        self.unserved.is_some()
    }

    /// The influence that a comparison can show. With `time_alone`, or if the program requests
    /// little, only the wall time can show it; the time that the program waits then hides a part.
    pub(super) fn seen(&self, time_alone: bool) -> Influence {
        let busy = match time_alone || self.calls.bytes < LITTLE_HEAP {
            true => (self.cpu_ns as f64 / self.own_wall_ns().max(1) as f64).min(1.0),
            false => 1.0,
        };
        Influence { share: self.influence() * busy, wall_ns: self.wall_ns }
    }

    /// An allocator inside the program that serves a part of its requests.
    pub(super) fn inside(&self) -> Option<String> {
        if self.is_on_pymalloc {
            return Some(PYMALLOC.to_owned());
        }
        let name = allocator_inside(&self.busiest)?;
        let program = self.busiest.display();
        Some(format!("{program} carries {name} inside, which serves some requests itself"))
    }

    /// The share of the CPU time below which a comparison is not worth making.
    pub(super) fn negligible(&self) -> f64 {
        if self.is_on_pymalloc { NEGLIGIBLE_IN_PYTHON } else { NEGLIGIBLE }
    }

    pub(super) fn no_verdict(&self) -> NoVerdict {
        let (reason, remedy) = self.reason();
        let waits = match self.own_wall_ns() > 2 * self.cpu_ns {
            true => format!(", and waits for most of its {:.3} s", self.wall_ns as f64 / 1e9),
            false => String::new(),
        };
        let why = format!(
            "{} asked for memory {} in {:.3} s of CPU time, about {:.1} % of it{waits}{reason}",
            self.busiest.display(),
            counted(self.calls.allocations, "time"),
            self.cpu_ns as f64 / 1e9,
            100.0 * self.share(),
        );
        NoVerdict { why, remedy, can_be_forced: true }
    }

    fn reason(&self) -> (String, String) {
        if self.is_on_pymalloc {
            let why = ": Python serves its small objects itself";
            return (why.to_owned(), "set PYTHONMALLOC=malloc".to_owned());
        }
        let name = self.busiest.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut runtimes = KNOWN.runtimes.iter();
        if let Some(own) = runtimes.find(|it| name.starts_with(&it.executable)) {
            return (format!(": {}", own.why), own.remedy.clone());
        }
        if let Some(inside) = allocator_inside(&self.busiest) {
            let why = format!(": it carries {inside} inside");
            return (why, format!("relink it without {inside}"));
        }
        let remedy = "a workload that allocates more; no allocator changes what this one does";
        (String::new(), remedy.to_owned())
    }
}

/// Returns whether pymalloc serves the small objects of CPython; `setting` is PYTHONMALLOC's value.
fn chooses_pymalloc(setting: Option<&OsStr>) -> bool {
    !setting.is_some_and(|it| it.as_encoded_bytes().starts_with(b"malloc"))
}

/// Decides from the runs so far whether a program is out of reach; `None`: one more run is needed.
/// A long run decides alone, as does a first run within reach; else the majority of [`LOOKS`] does.
pub(super) fn agreement(probes: &[Probe]) -> Option<bool> {
    let last = probes.last()?;
    let out = probes.iter().filter(|probe| probe.is_out_of_reach()).count();
    let within = probes.len() - out;
    match LOOKS / 2 {
        _ if last.wall_ns >= LONG_NS => Some(last.is_out_of_reach()),
        _ if out == 0 => Some(false),
        half if out > half => Some(true),
        half if within > half => Some(false),
        _ => None,
    }
}

/// Checks that a contender served a sample, and returns the object that served it. The error names
/// a program that another allocator served. A process that was only forked has no record, so
/// another record of its executable counts. With `only_start`, other allocators may serve children.
pub(super) fn served(
    contender: &Contender,
    report: &Report,
    said: &[ProcessRecord],
    only_start: bool,
) -> Result<String, String> {
    let name = contender.name();
    let mut faults: BTreeMap<&Path, Option<String>> = BTreeMap::new();
    for one in said {
        let malloc = malloc_of(one);
        let is_right = contender.allocator.is_in(Path::new(malloc));
        let fault = (!is_right).then(|| format!("its malloc is that of {malloc}"));
        let known = faults.entry(&one.executable).or_default();
        *known = known.take().or(fault);
    }
    let silent = || Some("nothing was preloaded into it".to_owned());
    let fault = |executable: &Path| faults.get(executable).cloned().unwrap_or_else(silent);
    let refusal = |executable: &Path, fault: String| {
        format!("not served by {name}: {}: {fault}", executable.display())
    };
    if !only_start && let Some((executable, fault)) = unserved_of(report, fault) {
        return Err(refusal(&executable, fault));
    }
    let main = said.iter().rfind(|one| one.pid == report.pid);
    let Some(main) = main else {
        return Err(format!("not served by {name}: nothing was preloaded into the program"));
    };
    match fault(&main.executable) {
        Some(fault) => Err(refusal(&main.executable, fault)),
        None => Ok(malloc_of(main).to_owned()),
    }
}

/// The object that serves the busiest process of a sample without a preloaded allocator; `None`:
/// the C library serves it.
pub(super) fn own_malloc(report: &Report, said: &[ProcessRecord]) -> Option<PathBuf> {
    let ticks = |one: &ProcessRecord| {
        let seen = report.seen.values().filter(|it| it.executable == one.executable);
        seen.map(|it| it.cpu_ticks).sum::<u64>()
    };
    let busiest = said.iter().max_by_key(|one| (ticks(one), one.pid == report.pid))?;
    let object = PathBuf::from(malloc_of(busiest));
    (object.is_absolute() && !allocators::glibc().is_in(&object)).then_some(object)
}

/// The object that serves a program. If a program at a fixed address only refers to `malloc`, the
/// loader may find that reference, so this function looks for a definition in the file. A name
/// without a slash is the program's: the loader names it by the word that started it.
fn malloc_of(one: &ProcessRecord) -> &str {
    let is_executable = |path: &Path| path.canonicalize().is_ok_and(|it| it == one.executable);
    let in_executable = !one.malloc.contains('/') || is_executable(Path::new(&one.malloc));
    let is_own = || {
        let library = Path::new(&one.next_malloc);
        matches!(obstacle(&one.executable, library), Some(Obstacle::OwnMalloc))
    };
    if in_executable && !is_own() { &one.next_malloc } else { &one.malloc }
}

/// The program that used the most CPU time of those in which `fault` finds a fault, and its fault;
/// `None` if these programs used at most [`MOST_UNSERVED`] of the CPU time.
fn unserved_of(
    report: &Report,
    fault: impl Fn(&Path) -> Option<String>,
) -> Option<(PathBuf, String)> {
    let this = std::env::current_exe().unwrap_or_default();
    let (mut all, mut unserved, mut worst) = (0, 0, None::<(u64, PathBuf, String)>);
    // Before its exec a process shows this executable, and near its end it shows none.
    let is_known = |it: &Path| it != this && !it.as_os_str().is_empty();
    for Descendant { executable, cpu_ticks, .. } in report.seen.values() {
        if !is_known(executable) {
            continue;
        }
        // A process too short for a clock tick counts as one tick.
        let weight = cpu_ticks + 1;
        all += weight;
        let Some(fault) = fault(executable) else { continue };
        unserved += weight;
        if worst.as_ref().is_none_or(|(most, ..)| weight > *most) {
            worst = Some((weight, executable.clone(), fault));
        }
    }
    let (_, executable, fault) = worst?;
    (unserved as f64 > MOST_UNSERVED * all as f64).then_some((executable, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::{self, Weight};

    const LIBC: &str = "libc";

    fn scene(
        seen: &[(i32, &str, u64)],
        said: &[(i32, &str, &str)],
    ) -> (Contender, Report, Vec<ProcessRecord>) {
        let contender = Contender::from(allocators::glibc());
        let libc = contender.allocator.file().unwrap().display().to_string();
        let of = |(pid, path, cpu_ticks): &(i32, &str, u64)| {
            let executable = PathBuf::from(path);
            (*pid, Descendant { executable, cpu_ticks: *cpu_ticks, threads: 1 })
        };
        let seen = seen.iter().map(of);
        let report = Report { pid: 1, seen: seen.collect(), ..Report::default() };
        let record = |(pid, path, malloc): &(i32, &str, &str)| ProcessRecord {
            pid: *pid,
            executable: PathBuf::from(path),
            malloc: malloc.replace(LIBC, &libc),
            ..ProcessRecord::default()
        };
        let said = said.iter().map(record).collect();
        (contender, report, said)
    }

    fn fault(seen: &[(i32, &str, u64)], said: &[(i32, &str, &str)]) -> Option<String> {
        let (contender, report, said) = scene(seen, said);
        served(&contender, &report, &said, false).err()
    }

    #[test]
    fn forks_of_a_served_program_are_served() {
        assert_eq!(fault(&[(1, "/sh", 5), (2, "/sh", 50)], &[(1, "/sh", LIBC)]), None);
        assert_eq!(fault(&[], &[(1, "/sh", LIBC)]), None, "too short to be seen");
        assert_eq!(fault(&[(1, "", 0)], &[(1, "/sh", LIBC)]), None, "seen when it had ended");
    }

    #[test]
    fn programs_that_say_nothing_are_named_where_they_matter() {
        let said = [(1, "/sh", LIBC)];
        let error = fault(&[(1, "/sh", 1), (2, "/static", 99)], &said).unwrap();
        assert_eq!(error, "not served by glibc: /static: nothing was preloaded into it");
        assert_eq!(fault(&[(1, "/sh", 99), (2, "/static", 1)], &said), None, "one per cent");
        // The shell executed the program without a fork, in its own process.
        let error = fault(&[(1, "/static", 0)], &said).unwrap();
        assert_eq!(error, "not served by glibc: /static: nothing was preloaded into it");
        let error = fault(&[], &[]).unwrap();
        assert_eq!(error, "not served by glibc: nothing was preloaded into the program");
    }

    #[test]
    fn another_malloc_is_named() {
        let said = [(1, "/redis", "/usr/lib/libother.so")];
        let error = fault(&[(1, "/redis", 9)], &said).unwrap();
        let expected = "not served by glibc: /redis: its malloc is that of /usr/lib/libother.so";
        assert_eq!(error, expected);
        assert_eq!(fault(&[], &said).unwrap(), expected);
    }

    #[test]
    fn a_program_that_refers_to_malloc_by_its_own_name_is_served_by_the_next() {
        let (contender, report, mut said) = scene(&[(1, "/python", 9)], &[(1, "/python", LIBC)]);
        let libc = std::mem::replace(&mut said[0].malloc, "python".to_owned());
        said[0].next_malloc = libc.clone();
        assert_eq!(served(&contender, &report, &said, false), Ok(libc));
    }

    #[test]
    fn the_busiest_process_says_what_a_program_runs_on() {
        let of = |ticks: [u64; 2], mallocs: [&str; 2]| {
            let seen = [(1, "/sh", ticks[0]), (2, "/redis", ticks[1])];
            let said = [(1, "/sh", mallocs[0]), (2, "/redis", mallocs[1])];
            let (_, report, said) = scene(&seen, &said);
            own_malloc(&report, &said)
        };
        let other = "/usr/lib/libother.so";
        assert_eq!(of([1, 50], [LIBC, other]), Some(PathBuf::from(other)));
        assert_eq!(of([50, 1], [LIBC, other]), None);
        assert_eq!(of([0, 0], [other, LIBC]), Some(PathBuf::from(other)), "the program itself");
        assert_eq!(own_malloc(&Report::default(), &[]), None);
    }

    fn probe(allocations: u64, ns: u64, bytes: u64, is_on_pymalloc: bool) -> Probe {
        let calls = Calls { allocations, bytes, ns, ..Calls::default() };
        let busiest = PathBuf::from("/no/such");
        let (cpu_ns, wall_ns) = (1_000_000_000, 1_000_000_000);
        Probe {
            calls,
            cpu_ns,
            wall_ns,
            delay_ns: Some(0),
            own_delay_ns: 0,
            threads: 1,
            peak_bytes: 0,
            is_on_pymalloc,
            unserved: None,
            busiest,
        }
    }

    fn weight(probe: &Probe) -> Weight {
        weight::of(&[probe.seen(false)], probe.negligible())
    }

    #[test]
    fn few_calls_give_no_verdict_and_many_bytes_do() {
        let many = probe(1_000_000, 90_000_000, 1 << 26, false);
        assert_eq!(weight(&many), Weight::Enough);
        let few = probe(100, 10_000, 1 << 12, false);
        assert_eq!(weight(&few), Weight::Nothing);
        let expected =
            "/no/such asked for memory 100 times in 1.000 s of CPU time, about 0.0 % of it";
        assert_eq!(few.no_verdict().why, expected);
        // A thousand blocks of 1 MiB: malloc takes little time, the page faults much.
        assert_eq!(weight(&probe(1000, 1_000_000, 1000 << 20, false)), Weight::Enough);
    }

    #[test]
    fn one_run_does_not_put_a_short_program_out_of_reach() {
        let runs = |seen: &[bool], wall_ns: u64| {
            let of = |seen: &bool| Probe {
                wall_ns,
                unserved: seen.then(|| PathBuf::from("/static")),
                ..probe(1, 1, 1, false)
            };
            let all: Vec<Probe> = seen.iter().map(of).collect();
            agreement(&all)
        };
        let short = |seen: &[bool]| runs(seen, 1_000_000);
        assert_eq!(short(&[false]), Some(false));
        assert_eq!(short(&[true]), None);
        assert_eq!(short(&[true, false]), None);
        assert_eq!(short(&[true, false, false]), Some(false));
        assert_eq!(short(&[true, true]), Some(true));
        assert_eq!(short(&[true, false, true]), Some(true));
        assert_eq!(runs(&[true], LONG_NS), Some(true));
        assert_eq!(agreement(&[]), None);
    }

    /// `sleep` spends much of its CPU time in malloc, but this time is a tiny part of a second.
    #[test]
    fn what_cannot_be_seen_in_wall_time_gives_no_verdict() {
        let sleeps = |bytes| Probe { cpu_ns: 1_000_000, ..probe(100, 100_000, bytes, false) };
        assert_eq!(weight(&sleeps(10_000)), Weight::Nothing);
        assert!(sleeps(10_000).no_verdict().why.ends_with(", and waits for most of its 1.000 s"));
        assert_eq!(weight(&sleeps(10 << 20)), Weight::Enough, "its memory is compared");
        let mut busy = Probe { delay_ns: Some(999_000_000), ..sleeps(10_000) };
        assert_eq!(weight(&busy), Weight::Enough, "others had the CPU");
        busy.calls.allocations = 0;
        assert!(!busy.no_verdict().why.contains("waits"));
        let time_alone = [sleeps(10 << 20).seen(true)];
        assert_eq!(weight::of(&time_alone, NEGLIGIBLE), Weight::Nothing);
    }

    #[test]
    fn a_busy_machine_makes_no_thread_wait() {
        let of = |cpu_ms: u64, wall_ms: u64, delay_ms: Option<u64>| {
            let (cpu_ns, wall_ns) = (cpu_ms * 1_000_000, wall_ms * 1_000_000);
            let delay_ns = delay_ms.map(|it| it * 1_000_000);
            Probe { cpu_ns, wall_ns, delay_ns, ..probe(1, 1, 1, false) }.waits()
        };
        assert_eq!(of(1000, 1010, Some(0)), None);
        assert_eq!(of(1000, 5000, Some(3950)), None, "the others had the CPU");
        assert_eq!(of(1000, 1010, None), None);
        assert_eq!(of(2, 4, Some(0)), None, "the start of a process");
        assert_eq!(of(1000, 2000, Some(0)).unwrap(), "it waits for 50 % of the time");
        assert_eq!(of(1000, 5000, Some(2000)).unwrap(), "it waits for 40 % of the time");
        assert_eq!(of(2000, 1000, Some(500)).unwrap(), "about 2.5 of its threads run at once");
    }

    #[test]
    fn an_allocator_inside_is_named() {
        let inside = probe(20_000, 20_000_000, 1 << 20, true).inside().unwrap();
        assert!(inside.contains("pymalloc") && inside.contains("PYTHONMALLOC=malloc"), "{inside}");
        assert_eq!(probe(1, 1, 1, false).inside(), None);
    }

    #[test]
    fn python_has_a_remedy() {
        let probe = probe(20_000, 20_000_000, 1 << 20, true);
        let on_own = probe.no_verdict();
        assert!(on_own.why.ends_with(": Python serves its small objects itself"));
        assert_eq!(on_own.remedy, "set PYTHONMALLOC=malloc");
        assert_eq!(weight(&probe), Weight::Nothing);
        assert_eq!(weight(&Probe { is_on_pymalloc: false, ..probe }), Weight::Enough);
        assert!(chooses_pymalloc(None) && chooses_pymalloc(Some(OsStr::new("pymalloc"))));
        assert!(!chooses_pymalloc(Some(OsStr::new("malloc"))));
    }
}
