//! The figures of the documents' tables, as data.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A line of document 004's table.
#[derive(Debug, Deserialize)]
pub(crate) struct Faults {
    pub(crate) kernel: usize,
    pub(crate) tasks: usize,
    pub(crate) process_speedup_percent: Option<f64>,
    pub(crate) thread_speedup_percent: Option<f64>,
    pub(crate) process_pgf_per_s: f64,
    pub(crate) process_stdev: f64,
    pub(crate) thread_pgf_per_s: f64,
    pub(crate) thread_stdev: f64,
}

/// A line of document 002's table.
#[derive(Debug, Deserialize)]
pub(crate) struct Transactions {
    pub(crate) threads: usize,
    pub(crate) slub: f64,
    pub(crate) slab: f64,
    pub(crate) diff_percent: f64,
}

/// A line of the tables in documents 000 and 001 that mmtests made.
#[derive(Debug, Deserialize)]
pub(crate) struct Mmtests {
    pub(crate) seed: String,
    pub(crate) machine: String,
    pub(crate) benchmark: String,
    pub(crate) statistic: String,
    pub(crate) row: String,
    pub(crate) baseline_value: f64,
    pub(crate) candidate_value: f64,
    pub(crate) candidate_percent: f64,
}

/// A figure from a document's prose, or from a table of a few lines.
#[derive(Debug, Deserialize)]
struct Figure {
    document: String,
    figure: String,
    /// The figure's numbers, in the document's order, separated by spaces.
    value: String,
}

fn lines<T: DeserializeOwned>(text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|line| line.expect("the tables are part of the program")).collect()
}

/// The lines of document 004; with `only`, those for this number of tasks.
pub(crate) fn faults(only: Option<usize>) -> Vec<Faults> {
    let mut all: Vec<Faults> =
        lines(include_str!("../../../bench/harness/tests/golden/page_fault1_lru.csv"));
    all.retain(|line| only.is_none_or(|tasks| tasks == line.tasks));
    all
}

/// The lines of document 002; with `only`, the line for this number of threads.
pub(crate) fn transactions(only: Option<usize>) -> Vec<Transactions> {
    let mut all: Vec<Transactions> =
        lines(include_str!("../../../bench/harness/tests/golden/tcp_rr_slub_slab.csv"));
    all.retain(|line| only.is_none_or(|threads| threads == line.threads));
    all
}

/// The numbers of a document's figure, in the document's order.
pub(crate) fn numbers(document: &str, figure: &str) -> Vec<f64> {
    let all: Vec<Figure> =
        lines(include_str!("../../../bench/harness/tests/golden/figures_outside_tables.csv"));
    let line = all.iter().find(|it| it.document == document && it.figure == figure);
    let value = &line.unwrap_or_else(|| panic!("document {document} has no {figure}")).value;
    value.split_whitespace().map(|it| it.parse().expect("a number")).collect()
}

/// The standard deviation of a gain, in points, from its two figures and their own deviations.
pub(crate) fn deviation((from, from_deviates): (f64, f64), (to, to_deviates): (f64, f64)) -> f64 {
    to / from * (from_deviates / from).hypot(to_deviates / to) * 100.0
}

/// The lines of a benchmark in document 000 whose statistic ends with `ending`: mean or Stddev.
pub(crate) fn statistics(machine: &str, benchmark: &str, ending: &str) -> Vec<Mmtests> {
    let all: Vec<Mmtests> =
        lines(include_str!("../../../bench/harness/tests/golden/mmtests_tables.csv"));
    let wanted = |line: &Mmtests| {
        line.seed == "000"
            && line.machine == machine
            && line.benchmark == benchmark
            && line.statistic.ends_with(ending)
    };
    all.into_iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_deviates_as_both_of_its_figures_do() {
        assert_eq!(deviation((100.0, 3.0), (100.0, 4.0)), 5.0);
        assert_eq!(deviation((100.0, 0.0), (200.0, 20.0)), 20.0);
    }

    #[test]
    fn every_mean_of_sockperf_has_its_deviation() {
        for name in ["sockperf-udp-throughput", "sockperf-tcp-throughput"] {
            let rows = |all: Vec<Mmtests>| all.into_iter().map(|it| it.row).collect::<Vec<_>>();
            let machine = "2-socket modern machine";
            let [means, deviations] =
                ["mean", "Stddev"].map(|it| rows(statistics(machine, name, it)));
            assert_eq!(means, deviations);
        }
    }
}
