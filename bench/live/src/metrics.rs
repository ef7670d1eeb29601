//! Metrics for Prometheus: OpenMetrics 1.0, or the older text format 0.0.4.

use crate::snapshot::{Cache, FRAME_BYTES, Lock, Snapshot};
use std::fmt::{Display, Write};

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

const OF_PROCESSES: [Metric<Snapshot, Option<u64>>; 3] = [
    ("quarry_resident_bytes", "Memory that the process has in RAM.", |it| it.resident),
    ("quarry_used_bytes", "Memory that counts against the limit.", |it| Some(it.budget.used)),
    ("quarry_limit_bytes", "The limit, where there is one.", |it| it.budget.limit),
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

/// The metrics of processes. Each sample has the labels `pid` and `process`. O(processes * caches).
#[must_use]
pub fn text(snapshots: &[Snapshot], format: Format) -> String {
    let mut writer = Writer { text: String::new(), format, snapshots };
    writer.head(("quarry_processes", "Processes that have figures here.", Kind::Gauge));
    let _ = writeln!(writer.text, "quarry_processes {}", snapshots.len());
    information(&mut writer);
    memory(&mut writer);
    caches(&mut writer);
    locks(&mut writer);
    events(&mut writer);
    if format == Format::OpenMetrics {
        writer.text.push_str("# EOF\n");
    }
    writer.text
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

struct Writer<'a> {
    text: String,
    format: Format,
    snapshots: &'a [Snapshot],
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

    /// Writes a metric with the samples of every snapshot. A sample is a value and its labels
    /// besides `pid` and `process`; label values must not contain quotes or backslashes.
    fn write<V: Display, S: IntoIterator<Item = (String, V)>>(
        &mut self,
        (name, help, kind): (&str, &str, Kind),
        samples: impl Fn(&'a Snapshot) -> S,
    ) {
        let of_samples = self.head((name, help, kind));
        for snapshot in self.snapshots {
            let (pid, process) = (snapshot.process.pid, &snapshot.process.name);
            for (labels, value) in samples(snapshot) {
                let comma = if labels.is_empty() { "" } else { "," };
                let labels = format!("pid=\"{pid}\",process=\"{process}\"{comma}{labels}");
                let _ = writeln!(self.text, "{name}{of_samples}{{{labels}}} {value}");
            }
        }
    }
}

fn information(writer: &mut Writer<'_>) {
    writer.write(("quarry_build", "What serves the process.", Kind::Gauge), |it| {
        let it = &it.process;
        let labels = format!(
            "version=\"{}\",slab=\"{}\",pages=\"{}\",backend=\"{}\"",
            it.version, it.slab_policy, it.page_policy, it.backend
        );
        [(labels, 1)]
    });
    let age = ("quarry_age_seconds", "Time since the process wrote its figures.", Kind::Gauge);
    writer.write(age, |it| {
        let age = it.age_ms?;
        Some((String::new(), format!("{}.{:03}", age / 1000, age % 1000)))
    });
}

fn memory(writer: &mut Writer<'_>) {
    let state = ("quarry_memory_bytes", "Memory of the heap by what it is used for.", Kind::Gauge);
    writer.write(state, |snapshot| {
        let it = &snapshot.memory;
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
            ("free_returned", snapshot.free_returned()),
            ("mappings", it.mappings),
            ("mappings_kept", it.mappings_cached),
            ("descriptors", snapshot.descriptors()),
        ];
        states.map(|(state, bytes)| (format!("state=\"{state}\""), bytes))
    });
    for (name, help, of) in OF_PROCESSES {
        writer.write((name, help, Kind::Gauge), |it| Some((String::new(), of(it)?)));
    }
    writer.write(("quarry_zone_free_bytes", "Free memory of a zone.", Kind::Gauge), |it| {
        it.zones
            .iter()
            .map(|zone| (format!("node=\"{}\"", zone.node), zone.free.saturating_mul(FRAME_BYTES)))
    });
}

fn caches(writer: &mut Writer<'_>) {
    let counters = CACHE_COUNTERS.map(|it| (it, Kind::Counter));
    let gauges = CACHE_GAUGES.map(|it| (it, Kind::Gauge));
    for ((name, help, of), kind) in counters.into_iter().chain(gauges) {
        writer.write((name, help, kind), |it| {
            it.caches.iter().map(move |cache| (format!("cache=\"{}\"", cache.name), of(cache)))
        });
    }
}

fn locks(writer: &mut Writer<'_>) {
    for ((name, help, of), kind) in LOCK_METRICS {
        writer.write((name, help, kind), |it| {
            it.locks.iter().map(move |lock| (format!("lock=\"{}\"", lock.name), of(lock)))
        });
    }
}

/// Writes all events as two metrics, with each name as a label: a process may publish any name.
fn events(writer: &mut Writer<'_>) {
    for (is_gauge, name, kind) in
        [(false, "quarry_events", Kind::Counter), (true, "quarry_states", Kind::Gauge)]
    {
        writer.write((name, "Counts as in /proc/vmstat.", kind), |it| {
            let events = it.events.iter().filter(move |it| it.is_gauge == is_gauge);
            events.map(|event| (format!("event=\"{}\"", event.name), event.count))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Budget, Identity};

    fn example() -> Snapshot {
        let process = Identity { pid: 7, name: "redis".into(), ..Identity::default() };
        let cache = Cache { name: "kmalloc-64".into(), allocs: 5, live: 3, ..Cache::default() };
        let budget = Budget { limit: Some(1 << 30), ..Budget::default() };
        Snapshot { process, caches: vec![cache], budget, age_ms: Some(1250), ..Snapshot::default() }
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
}
