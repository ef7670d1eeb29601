//! Metrics for Prometheus: OpenMetrics 1.0, or the older text format 0.0.4.

use crate::place::Pods;
use crate::services::{COUNTS, Ledger, Series};
use crate::snapshot::{Cache, FRAME_BYTES, Lock, Snapshot};
use std::fmt::{Display, Write};
use std::path::PathBuf;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0: `# TYPE` names a counter without its `_total`, and `# EOF` ends the text.
    OpenMetrics,
    /// The text format 0.0.4, which the textfile collector of `node_exporter` takes.
    Text,
}

impl Format {
    /// The content type for HTTP.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Name, help and value of a metric.
type Metric<T, V = u64> = (&'static str, &'static str, fn(&T) -> V);

const ESSENTIAL: [Metric<Snapshot, Option<u64>>; 6] = [
    ("quarry_resident_bytes", "Memory that the process has in RAM.", |it| it.resident),
    ("quarry_live_bytes", "Memory of malloc that the program has.", |it| Some(it.live())),
    ("quarry_parked_bytes", "Freed memory that CPUs and barns hold.", |it| Some(it.parked())),
    ("quarry_dirty_bytes", "Other free memory that is in RAM.", |it| Some(it.dirty())),
    ("quarry_returned_bytes", "Free memory that is not in RAM.", |it| Some(it.free_returned())),
    ("quarry_used_bytes", "Memory that counts against the limit.", |it| Some(it.budget.used)),
];

/// Names and help of the counts of [`Series::counts`].
const COUNTERS: [(&str, &str); COUNTS] = [
    ("quarry_allocations", "Requests that were served."),
    ("quarry_reclaims", "Requests that found too little memory, and reclaimed first."),
];

const CACHE_COUNTERS: [Metric<Cache>; 4] = [
    ("quarry_cache_allocations", "Objects handed out.", |it| it.allocs),
    ("quarry_cache_fast_allocations", "Objects that a fast path handed out.", |it| it.fast_allocs),
    ("quarry_cache_frees", "Objects freed.", |it| it.frees),
    ("quarry_cache_fast_frees", "Objects that a fast path took back.", |it| it.fast_frees),
];

const CACHE_GAUGES: [Metric<Cache>; 4] = [
    ("quarry_cache_live_objects", "Objects that the program has.", |it| it.live),
    ("quarry_cache_parked_objects", "Freed objects that CPUs and barns hold.", |it| it.parked),
    ("quarry_cache_slab_bytes", "Memory of the slabs of a cache.", Cache::slab_bytes),
    ("quarry_cache_object_bytes", "Bytes of an object.", |it| it.object_bytes),
];

const LOCK_METRICS: [(Metric<Lock>, Kind); 3] = [
    (
        ("quarry_locks", "Locks of a kind: groups of CPUs may have several.", |it| it.locks),
        Kind::Gauge,
    ),
    (
        ("quarry_lock_acquisitions", "Times that a kind of lock was taken.", |it| it.acquisitions),
        Kind::Counter,
    ),
    (
        ("quarry_lock_contentions", "Times that a task had to wait for it.", |it| it.contentions),
        Kind::Counter,
    ),
];

/// The amount of detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// A dozen series for each service: the processes of one name in one unit, pod or group.
    #[default]
    Essential,
    /// All series, for each process.
    All,
}

/// Writes metrics, and remembers the counts of workers that have ended: a service's counter only
/// rises, also when its workers are replaced.
#[derive(Debug)]
pub struct Exporter {
    level: Level,
    pods: PathBuf,
    ledger: Ledger,
}

impl Exporter {
    /// An exporter that looks for the names of pods in `pods`; see [`Pods::read`].
    #[must_use]
    pub fn new(level: Level, pods: PathBuf) -> Self {
        Self { level, pods, ledger: Ledger::default() }
    }

    /// The metrics of processes. O(processes * caches).
    #[must_use]
    pub fn text(&mut self, snapshots: &[Snapshot], format: Format) -> String {
        let pods = Pods::read(&self.pods);
        let series = match self.level {
            Level::Essential => self.ledger.services(snapshots, &pods),
            Level::All => snapshots.iter().map(|it| Series::of_process(it, &pods)).collect(),
        };
        let mut writer = Writer { text: String::new(), format, series: &series };
        writer.head(("quarry_processes", "Processes that have figures here.", Kind::Gauge));
        let _ = writeln!(writer.text, "quarry_processes {}", snapshots.len());
        essential(&mut writer);
        if self.level == Level::All {
            memory(&mut writer);
            caches(&mut writer);
            locks(&mut writer);
            events(&mut writer);
        }
        if format == Format::OpenMetrics {
            writer.text.push_str("# EOF\n");
        }
        writer.text
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

struct Writer<'a> {
    text: String,
    format: Format,
    series: &'a [Series],
}

impl<'a> Writer<'a> {
    /// Writes the lines before the samples of a metric; returns the suffix of the samples' name.
    fn head(&mut self, (name, help, kind): (&str, &str, Kind)) -> &'static str {
        let (kind, suffix, of_samples) = match (kind, self.format) {
            (Kind::Gauge, _) => ("gauge", "", ""),
            (Kind::Counter, Format::OpenMetrics) => ("counter", "", "_total"),
            (Kind::Counter, Format::Text) => ("counter", "_total", "_total"),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
        of_samples
    }

    /// Writes a metric with a sample of each series, or none.
    fn one<V: Display>(
        &mut self,
        metric: (&str, &str, Kind),
        value: impl Fn(&'a Series) -> Option<V>,
    ) {
        self.write(metric, |it| value(it).map(|value| (String::new(), value)));
    }

    /// Writes a metric with the samples of every series. A sample is a value and its labels besides
    /// those of the series; label values must not contain quotes or backslashes.
    fn write<V: Display, S: IntoIterator<Item = (String, V)>>(
        &mut self,
        (name, help, kind): (&str, &str, Kind),
        samples: impl Fn(&'a Series) -> S,
    ) {
        let of_samples = self.head((name, help, kind));
        for series in self.series {
            let of_series = &series.labels;
            for (labels, value) in samples(series) {
                let comma = if labels.is_empty() { "" } else { "," };
                let _ =
                    writeln!(self.text, "{name}{of_samples}{{{of_series}{comma}{labels}}} {value}");
            }
        }
    }
}

fn essential(writer: &mut Writer<'_>) {
    writer.write(("quarry_build", "What serves the process.", Kind::Gauge), |it| {
        let it = &it.figures.process;
        let labels = format!(
            "version=\"{}\",slab=\"{}\",pages=\"{}\",backend=\"{}\"",
            it.version, it.slab_policy, it.page_policy, it.backend
        );
        [(labels, 1)]
    });
    let age = ("quarry_age_seconds", "Time since the process wrote its figures.", Kind::Gauge);
    writer.one(age, |it| it.figures.age_ms.map(thousandths));
    let workers = ("quarry_workers", "Processes of which a series has the sum.", Kind::Gauge);
    writer.one(workers, |it| Some(it.workers));
    for (name, help, of) in ESSENTIAL {
        writer.one((name, help, Kind::Gauge), |it| of(&it.figures));
    }
    let share = "The share of its limit that a process uses, the largest of a service's workers.";
    writer
        .one(("quarry_limit_used_ratio", share, Kind::Gauge), |it| it.limit_used.map(thousandths));
    for (at, (name, help)) in COUNTERS.into_iter().enumerate() {
        writer.one((name, help, Kind::Counter), |it| Some(it.counts[at]));
    }
}

fn thousandths(number: u64) -> String {
    format!("{}.{:03}", number / 1000, number % 1000)
}

fn memory(writer: &mut Writer<'_>) {
    let state = ("quarry_memory_bytes", "Memory of the heap by what it is used for.", Kind::Gauge);
    writer.write(state, |series| {
        let it = &series.figures.memory;
        let states = [
            ("objects", it.objects),
            ("parked", it.parked),
            ("free_in_slabs", it.free_in_slabs),
            ("empty_slabs", it.empty_slabs),
            ("around_objects", it.around_objects),
            ("blocks", it.blocks),
            ("page_cache", it.page_cache),
            ("page_lists", it.page_lists),
            ("free_dirty", it.free_dirty),
            ("free_returned", series.figures.free_returned()),
            ("mappings", it.mappings),
            ("mappings_kept", it.mappings_cached),
            ("descriptors", series.figures.descriptors()),
        ];
        states.map(|(state, bytes)| (format!("state=\"{state}\""), bytes))
    });
    let limit = ("quarry_limit_bytes", "The limit, where there is one.", Kind::Gauge);
    writer.one(limit, |it| it.figures.budget.limit);
    writer.write(("quarry_zone_free_bytes", "Free memory of a zone.", Kind::Gauge), |it| {
        it.figures
            .zones
            .iter()
            .map(|zone| (format!("node=\"{}\"", zone.node), zone.free.saturating_mul(FRAME_BYTES)))
    });
}

fn caches(writer: &mut Writer<'_>) {
    let counters = CACHE_COUNTERS.map(|it| (it, Kind::Counter));
    let gauges = CACHE_GAUGES.map(|it| (it, Kind::Gauge));
    for ((name, help, of), kind) in counters.into_iter().chain(gauges) {
        writer.write((name, help, kind), |it| {
            let caches = it.figures.caches.iter();
            caches.map(move |cache| (format!("cache=\"{}\"", cache.name), of(cache)))
        });
    }
}

fn locks(writer: &mut Writer<'_>) {
    for ((name, help, of), kind) in LOCK_METRICS {
        writer.write((name, help, kind), |it| {
            it.figures.locks.iter().map(move |lock| (format!("lock=\"{}\"", lock.name), of(lock)))
        });
    }
}

/// Writes all events as two metrics, with each name as a label: a process may publish any name.
fn events(writer: &mut Writer<'_>) {
    for (is_gauge, name, kind) in
        [(false, "quarry_events", Kind::Counter), (true, "quarry_states", Kind::Gauge)]
    {
        writer.write((name, "Counts as in /proc/vmstat.", kind), |it| {
            let events = it.figures.events.iter().filter(move |it| it.is_gauge == is_gauge);
            events.map(|event| (format!("event=\"{}\"", event.name), event.count))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::snapshot::{Budget, Identity};

    fn example() -> Snapshot {
        let process = Identity { pid: 7, name: "redis".into(), ..Identity::default() };
        let cache = Cache { name: "kmalloc-64".into(), allocs: 5, live: 3, ..Cache::default() };
        let budget = Budget { limit: Some(1 << 30), ..Budget::default() };
        Snapshot { process, caches: vec![cache], budget, age_ms: Some(1250), ..Snapshot::default() }
    }

    fn text(snapshots: &[Snapshot], format: Format) -> String {
        Exporter::new(Level::All, PathBuf::new()).text(snapshots, format)
    }

    #[test]
    fn counters_have_their_suffix_and_the_text_has_an_end() {
        let text = text(&[example()], Format::OpenMetrics);
        let of = "pid=\"7\",process=\"redis\"";
        for line in [
            "# TYPE quarry_cache_allocations counter".to_owned(),
            format!("quarry_cache_allocations_total{{{of},cache=\"kmalloc-64\"}} 5"),
            format!("quarry_cache_live_objects{{{of},cache=\"kmalloc-64\"}} 3"),
            format!("quarry_limit_bytes{{{of}}} 1073741824"),
            format!("quarry_age_seconds{{{of}}} 1.250"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_format_names_counters_with_their_suffix() {
        let text = text(&[example()], Format::Text);
        assert!(text.contains("# TYPE quarry_cache_allocations_total counter\n"));
        assert!(!text.contains("# EOF"));
    }

    #[test]
    fn processes_are_counted_also_if_there_are_none() {
        let with = |snapshots: &[Snapshot]| text(snapshots, Format::OpenMetrics);
        assert!(with(&[]).contains("# TYPE quarry_processes gauge\nquarry_processes 0\n"));
        assert!(with(&[example(), example()]).contains("\nquarry_processes 2\n"));
    }

    #[test]
    fn a_metric_comes_once() {
        let other = Snapshot { process: Identity { pid: 8, ..Identity::default() }, ..example() };
        let text = text(&[example(), other], Format::OpenMetrics);
        let heads: Vec<&str> = text.lines().filter(|it| it.starts_with("# TYPE")).collect();
        let mut sorted = heads.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), heads.len());
        let second = text.lines().filter(|it| it.starts_with("quarry_used_bytes{pid=\"8\""));
        assert_eq!(second.count(), 1);
    }

    /// The samples of a text: their names with labels.
    fn samples(text: &str) -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn a_service_has_a_dozen_series_which_outlive_its_workers() {
        let worker = |pid| {
            let process =
                Identity { pid, place: Place::of_group("/s/web.service"), ..example().process };
            Snapshot { process, resident: Some(1 << 20), ..example() }
        };
        let mut exporter = Exporter::new(Level::Essential, PathBuf::new());
        let first = exporter.text(&[worker(7), worker(8)], Format::OpenMetrics);
        let second = exporter.text(&[worker(9), worker(8), worker(10)], Format::OpenMetrics);
        assert_eq!(samples(&first), samples(&second));
        assert_eq!(samples(&first).len(), 13, "a dozen, and the number of processes: {first}");
        let of = "process=\"redis\",unit=\"web.service\"";
        for line in [
            format!("quarry_workers{{{of}}} 3"),
            format!("quarry_resident_bytes{{{of}}} {}", 3 << 20),
            format!("quarry_allocations_total{{{of}}} 20"),
        ] {
            assert!(second.lines().any(|it| it == line), "{line}\n{second}");
        }
        assert!(!second.contains("pid="), "{second}");
    }

    /// A dashboard for the essential series works with all series as well.
    #[test]
    fn all_series_have_the_essential_ones() {
        let name = |sample: String| sample.split('{').next().unwrap_or_default().to_owned();
        let of = |level| {
            let text = Exporter::new(level, PathBuf::new()).text(&[example()], Format::Text);
            samples(&text).into_iter().map(name).collect::<Vec<_>>()
        };
        let all = of(Level::All);
        let essential = of(Level::Essential);
        assert!(
            essential.len() > 10 && essential.iter().all(|it| all.contains(it)),
            "{essential:?}"
        );
    }
}
