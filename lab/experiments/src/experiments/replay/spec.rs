//! The experiments that replay a kernel path and the lines of their tables, read from
//! `data/replays.toml`.

use super::documents::Document;
use anyhow::Result;
use quarry_harness::nearest;
use quarry_harness::results::Metric;
use quarry_replay::crew::{Load, Place};
use quarry_replay::file_loads::FileLoad;
use quarry_replay::kernels::{Cast, Scenario, Setting, WorkRow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All replays; the file describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replays {
    models: String,
    variants: String,
    files_models: String,
    /// Metrics that explain figures, by the name in `explained_by`.
    explanations: BTreeMap<String, Vec<Metric>>,
    legends: BTreeMap<String, String>,
    experiment: Vec<Spec>,
}

static REPLAYS: LazyLock<Replays> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../data/replays.toml")).expect("a test reads all of them")
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(super) name: String,
    pub(super) about: String,
    models: String,
    pub(super) variants: String,
    pub(super) tasks: String,
    pub(super) quick_tasks: String,
    pub(super) declared_cpus: u32,
    /// Memory of the document's machine in GiB, 0 if the document does not state it; and its nodes.
    #[serde(default)]
    pub(super) declared_gib: u64,
    #[serde(default = "one_node")]
    pub(super) nodes: u8,
    /// True to print each cache, with a profile.
    #[serde(default)]
    pub(super) profile: bool,
    /// True to print the spread of the samples, like mmtests.
    #[serde(default)]
    pub(super) spread: bool,
    /// The metrics that explain the experiment's figures: `paths`, `faults` or `files`.
    #[serde(default = "of_paths")]
    explained_by: String,
    rows: Vec<Rows>,
    pub(super) amount: Option<Amount>,
    metrics: Vec<Metric>,
    pub(super) document: Document,
}

fn one_node() -> u8 {
    1
}

fn of_paths() -> String {
    "paths".to_owned()
}

/// The amount of work of an experiment: its unit and its defaults.
#[derive(Deserialize)]
pub(super) struct Amount {
    what: String,
    pub(super) usual: u32,
    pub(super) quick: u32,
    /// Maximum amount of all tasks together, but each has 1 or more; 0 = each has the whole amount.
    #[serde(default)]
    together: u32,
}

impl Spec {
    /// The experiment of this name.
    pub(super) fn find(name: &str) -> Result<&'static Self> {
        let names: Vec<&str> = REPLAYS.experiment.iter().map(|spec| spec.name.as_str()).collect();
        let found = REPLAYS.experiment.iter().find(|spec| spec.name == name);
        found.ok_or_else(|| nearest::unknown("experiment", name, &names))
    }

    /// The amount of work for each of `tasks` tasks, if the user or the default asks for `amount`.
    pub(super) fn amount_of_each(&self, amount: u32, tasks: u32) -> u32 {
        match self.amount.as_ref().map_or(0, |it| it.together) {
            0 => amount,
            together => amount.min(together / tasks).max(1),
        }
    }

    pub(super) fn help(&self) -> String {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let amount = self.amount.as_ref().map_or(String::new(), |amount| {
            let usual = match amount.usual {
                0 => "as many as fill the socket's buffer".to_owned(),
                usual => usual.to_string(),
            };
            format!("\n\n--amount is {} [default: {usual}].", line(&amount.what))
        });
        let common = if self.is_of_files() { &REPLAYS.files_models } else { &REPLAYS.models };
        let texts = [&self.about, &self.models, common, &REPLAYS.variants];
        let machine = match self.declared_gib {
            0 => String::new(),
            gib => format!(", --declared-memory {gib}G, --nodes {}", self.nodes),
        };
        format!(
            "{}{amount}\n\n--declared-cpus is {}{machine} by default.",
            texts.map(|text| line(text)).join("\n\n"),
            self.declared_cpus
        )
    }

    pub(super) fn is_of_files(&self) -> bool {
        self.explained_by == "files"
    }

    pub(super) fn legend(&self) -> &'static str {
        &REPLAYS.legends[&self.explained_by]
    }

    /// The figure in the document's unit, then the metrics that explain it.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = [&self.metrics[..], &REPLAYS.explanations[&self.explained_by]].concat();
        metrics[0].primary = true;
        metrics
    }

    pub(super) fn rows(&'static self) -> Vec<Row> {
        self.rows.iter().flat_map(Rows::each).collect()
    }

    /// The row of this name.
    pub(super) fn row(&'static self, name: &str) -> Result<Row> {
        let rows = self.rows();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let found = rows.iter().find(|row| row.name == name).cloned();
        found.ok_or_else(|| nearest::unknown("row", name, &names))
    }
}

/// Lines of an experiment's table that differ in one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    name: String,
    /// A path of `paths.toml`; `None` for a load of file systems.
    path: Option<String>,
    /// A load of `file_loads.toml`.
    load: Option<String>,
    #[serde(default)]
    bytes: Vec<u64>,
    #[serde(default)]
    length: Vec<u64>,
    #[serde(default)]
    rate: Vec<u64>,
    #[serde(default)]
    threads: bool,
    #[serde(default)]
    received: bool,
    quick: Option<Vec<u64>>,
    #[serde(default)]
    place: Place,
    declared_cpus: Option<u32>,
    /// The row's name in the document's table, if it is not `name`.
    documented: Option<String>,
    /// The document's machine, if it is not the experiment's.
    machine: Option<String>,
    /// The cost of a message, if it differs from the path's.
    work: Option<WorkRow>,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(super) name: String,
    pub(super) quick: bool,
    /// True if a rate counts received messages, false if it counts sent ones.
    pub(super) received: bool,
    /// CPUs that the kernel's formulas assume, if they are not the experiment's.
    pub(super) declared_cpus: Option<u32>,
    pub(super) documented: String,
    /// The document's machine, if it is not the experiment's.
    pub(super) machine: Option<&'static str>,
    runs: Runs,
    /// The setting, without the amount.
    setting: Setting,
}

#[derive(Clone, Copy)]
enum Runs {
    Path(&'static str),
    Load(&'static str),
}

impl Rows {
    fn each(&'static self) -> impl Iterator<Item = Row> {
        let first = |numbers: &[u64]| numbers.first().copied().unwrap_or(0);
        let lists = [&self.length, &self.rate, &self.bytes].into_iter();
        // If nothing varies, there is one row with the number 0.
        let varied = lists.map(Vec::as_slice).find(|it| !it.is_empty()).unwrap_or(&[0]);
        varied.iter().map(move |&number| {
            let of = |list: &Vec<u64>| if *list == varied { number } else { first(list) };
            let load = match of(&self.rate) {
                _ if self.rate.is_empty() => None,
                0 => Some(Load::Max),
                rate => Some(Load::Rate(rate)),
            };
            let (bytes, length) = (of(&self.bytes) as usize, of(&self.length) as u32);
            let named = |name: &str| name.replace('#', &number.to_string());
            Row {
                name: named(&self.name),
                declared_cpus: self.declared_cpus,
                documented: named(self.documented.as_ref().unwrap_or(&self.name)),
                machine: self.machine.as_deref(),
                quick: self.quick.as_ref().is_none_or(|quick| quick.contains(&number)),
                received: self.received,
                runs: match (&self.path, &self.load) {
                    (Some(path), None) => Runs::Path(path),
                    (None, Some(load)) => Runs::Load(load),
                    _ => panic!("{}: a row has a path or a load", self.name),
                },
                setting: Setting {
                    bytes,
                    length,
                    load,
                    threads: self.threads,
                    amount: 0,
                    place: self.place,
                    work: self.work,
                },
            }
        })
    }
}

impl Row {
    pub(super) fn bits(&self) -> u64 {
        self.setting.bytes as u64 * 8
    }

    /// The scenario of the row, with an amount of work and the wanted place; `None` for a load.
    pub(super) fn scenario(&self, amount: u32, place: Option<Place>) -> Option<Scenario> {
        let Runs::Path(path) = self.runs else { return None };
        let place = place.unwrap_or(self.setting.place);
        Some(Scenario::of(path, &Setting { amount, place, ..self.setting }))
    }

    /// Returns whether its tasks are pairs of a sender and a receiver.
    pub(super) fn has_senders(&self, amount: u32) -> bool {
        self.scenario(amount, None).is_some_and(|it| matches!(it.cast, Cast::Crew(_)))
    }

    pub(super) fn load(&self) -> Option<FileLoad> {
        let Runs::Load(load) = self.runs else { return None };
        Some(FileLoad::of(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::Measurement;

    #[test]
    fn every_experiment_says_what_it_models() {
        for spec in &REPLAYS.experiment {
            assert!(spec.models.starts_with("Models "), "{}", spec.name);
            assert_eq!(Spec::find(&spec.name).unwrap().about, spec.about);
            let rows = spec.rows();
            assert!(rows.iter().any(|row| row.quick), "{}", spec.name);
            let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rows.len());
            for row in rows {
                assert!(row.scenario(3, None).is_some() != row.load().is_some(), "{}", row.name);
            }
        }
        let error = Spec::find("udp-stream").err().unwrap().to_string();
        assert!(error.starts_with("no experiment udp-stream; did you mean "), "{error}");
    }

    #[test]
    fn what_a_message_costs_is_the_figure_of_its_own_table() {
        let cost = |experiment: &str, row: &str| {
            let scenario = Spec::find(experiment).unwrap().row(row).unwrap().scenario(0, None);
            let scenario = scenario.unwrap();
            let work = scenario.path.work.sender + scenario.path.work.receiver;
            (scenario.documented_ns, work)
        };
        // 64 bytes at 260.54 and 127.01 Mbit/s, 14 bytes at 51.25 Mbit/s.
        assert_eq!(cost("netperf-udp-stream", "send-64"), (1_965, 1_870));
        assert_eq!(cost("netperf-udp-stream", "1s-send-64"), (4_031, 3_936));
        assert_eq!(cost("netperf-udp-stream", "1s-recv-16384"), (4_031, 3_936));
        assert_eq!(cost("sockperf-udp-throughput", "850"), (2_185, 2_090));
    }

    #[test]
    fn units_are_those_of_the_originals() {
        let mut measurement = Measurement::of_window(1000, 4_000_000, 2_000_000, 1, "x")
            .with(&[("bits", 64 * 8 * 1000)]);
        measurement.figures.insert("latency_mean".to_owned(), 7.5);
        for (experiment, unit, expected) in [
            ("netperf-udp-stream", "Mbit/s", 256.0),
            ("tcp-rr", "trans/s", 500_000.0),
            ("hackbench", "s", 0.002),
            ("sockperf-under-load", "us", 7.5),
            ("list-free", "us", 4096.0),
        ] {
            let metrics = Spec::find(experiment).unwrap().metrics();
            assert!(metrics[0].primary && !metrics[1..].iter().any(|metric| metric.primary));
            let value = metrics[0].value(&measurement).unwrap();
            assert_eq!(metrics[0].unit, unit);
            assert!((value / expected - 1.0).abs() < 1e-9, "{experiment}: {value}");
        }
    }
}
