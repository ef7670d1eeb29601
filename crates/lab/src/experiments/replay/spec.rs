//! The experiments that replay a kernel path, read from `data/replays.toml`.

use super::documents::Document;
use crate::replay::crew::Load;
use crate::replay::kernels::{Scenario, Setting};
use anyhow::Result;
use quarry_harness::nearest;
use quarry_harness::results::Metric;
use serde::Deserialize;
use std::sync::LazyLock;

/// All of them; the file says what the fields are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replays {
    models: String,
    variants: String,
    metrics: Vec<Metric>,
    experiment: Vec<Spec>,
}

static REPLAYS: LazyLock<Replays> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../data/replays.toml")).expect("a test reads all of them")
});

/// An experiment that replays a kernel path.
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
    rows: Vec<Rows>,
    pub(super) amount: Option<Amount>,
    metrics: Vec<Metric>,
    pub(super) document: Document,
}

/// The choice of an experiment's size.
#[derive(Deserialize)]
pub(super) struct Amount {
    what: String,
    pub(super) usual: u32,
    pub(super) quick: u32,
}

/// Lines of an experiment's table that differ in one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    name: String,
    path: String,
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
}

/// One line of an experiment's table.
#[derive(Clone)]
pub(crate) struct Row {
    /// Its name in the document.
    pub(super) name: String,
    /// True if a short run takes it.
    pub(super) quick: bool,
    /// True if received messages are counted, and not those sent.
    pub(super) received: bool,
    path: &'static str,
    /// But for the amount.
    setting: Setting,
}

impl Rows {
    fn each(&'static self) -> impl Iterator<Item = Row> {
        let first = |numbers: &[u64]| numbers.first().copied().unwrap_or(0);
        let lists = [&self.length, &self.rate, &self.bytes].into_iter();
        // Where nothing varies, the row has the number 0.
        let varied = lists.map(Vec::as_slice).find(|it| !it.is_empty()).unwrap_or(&[0]);
        varied.iter().map(move |&number| {
            let of = |list: &Vec<u64>| if *list == varied { number } else { first(list) };
            let load = match of(&self.rate) {
                _ if self.rate.is_empty() => None,
                0 => Some(Load::Max),
                rate => Some(Load::Rate(rate)),
            };
            let (bytes, length) = (of(&self.bytes) as usize, of(&self.length) as u32);
            Row {
                name: self.name.replace('#', &number.to_string()),
                quick: self.quick.as_ref().is_none_or(|quick| quick.contains(&number)),
                received: self.received,
                path: &self.path,
                setting: Setting { bytes, length, load, threads: self.threads, amount: 0 },
            }
        })
    }
}

impl Row {
    /// Bits of a message's payload.
    pub(super) fn bits(&self) -> u64 {
        self.setting.bytes as u64 * 8
    }

    /// The scenario that runs, with an amount of work at a time.
    pub(super) fn scenario(&self, amount: u32) -> Scenario {
        Scenario::of(self.path, &Setting { amount, ..self.setting })
    }
}

impl Spec {
    /// The experiment of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(name: &str) -> Result<&'static Self> {
        let names: Vec<&str> = REPLAYS.experiment.iter().map(|spec| spec.name.as_str()).collect();
        let found = REPLAYS.experiment.iter().find(|spec| spec.name == name);
        found.ok_or_else(|| nearest::unknown("experiment", name, &names))
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
        let texts = [&self.about, &self.models, &REPLAYS.models, &REPLAYS.variants];
        format!(
            "{}{amount}\n\n--declared-cpus is {} by default.",
            texts.map(|text| line(text)).join("\n\n"),
            self.declared_cpus
        )
    }

    /// The figure in the original's unit first, then what explains it.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = [&self.metrics[..], &REPLAYS.metrics].concat();
        metrics[0].primary = true;
        metrics
    }

    /// All rows.
    pub(super) fn rows(&'static self) -> Vec<Row> {
        self.rows.iter().flat_map(Rows::each).collect()
    }

    /// The row of this name.
    ///
    /// # Errors
    /// If there is none.
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
            let rows = spec.rows();
            assert!(rows.iter().any(|row| row.quick), "{}", spec.name);
            let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rows.len());
            for row in rows {
                row.scenario(3);
            }
        }
        let error = Spec::find("udp-stream").err().unwrap().to_string();
        assert!(error.starts_with("no experiment udp-stream; did you mean "), "{error}");
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
