//! The experiments that replay a kernel path and the lines of their tables, read from
//! `lab/documents` and, as far as they share it, from `data/replays.toml`.

use super::documents::Document;
use super::row::{Row, Rows};
use anyhow::Result;
use quarry_harness::nearest;
use quarry_harness::results::Metric;
use quarry_replay::documents::DOCUMENTS;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Letters of a line of a table.
pub(super) const ROOM: usize = 100;

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
    /// Those of all documents.
    #[serde(skip)]
    experiment: Vec<Spec>,
}

/// The experiments of one document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfDocument {
    experiment: Vec<Spec>,
}

static REPLAYS: LazyLock<Replays> = LazyLock::new(|| {
    let text = include_str!("../../../data/replays.toml");
    let mut replays: Replays = toml::from_str(text).expect("a test reads all of them");
    for document in &DOCUMENTS {
        let of_document: OfDocument = document.read(|it| it.experiments);
        replays.experiment.extend(of_document.experiment);
    }
    replays
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
    /// The time of a run with `--quick`, roughly.
    pub(super) quick_takes: String,
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
    pub(super) answer: Answer,
    pub(super) document: Document,
}

/// The words of a run's first line, and the counts in its table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// True for the experiment that `lab run` starts for the document's number.
    #[serde(default)]
    pub(super) of_document: bool,
    /// An operation, or what the counts are per.
    pub(super) each: String,
    /// Names of counts, each with what an operation does so often.
    pub(super) does: Vec<(String, String)>,
    /// Names of further columns.
    columns: Vec<String>,
}

impl Answer {
    /// The names of the metrics in the table, besides the document's figure.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.does.iter().map(|(name, _)| name).chain(&self.columns).map(String::as_str)
    }
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
    /// All experiments, in the order of the documents.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        REPLAYS.experiment.iter()
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::Measurement;

    #[test]
    fn every_experiment_says_what_it_models() {
        for spec in &REPLAYS.experiment {
            assert!(spec.models.starts_with("Models "), "{}", spec.name);
            assert_eq!(Spec::find(&spec.name).unwrap().about, spec.about);
            let metrics = spec.metrics();
            let mut columns = spec.answer.columns();
            assert!(columns.all(|name| metrics.iter().any(|it| it.name == name)), "{}", spec.name);
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
        let of_documents = REPLAYS.experiment.iter().filter(|spec| spec.answer.of_document);
        let numbers: Vec<&str> = of_documents.map(|spec| &*spec.document.number).collect();
        assert_eq!(numbers, DOCUMENTS.map(|it| it.number), "an experiment for each document");
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
