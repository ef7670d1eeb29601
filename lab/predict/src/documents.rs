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

fn lines<T: DeserializeOwned>(text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|line| line.expect("the tables are part of the program")).collect()
}

/// The lines of document 004; with `only`, those for this number of tasks.
pub(crate) fn faults(only: Option<usize>) -> Vec<Faults> {
    let mut all: Vec<Faults> = lines(include_str!("../../documents/004/page_fault1_lru.csv"));
    all.retain(|line| only.is_none_or(|tasks| tasks == line.tasks));
    all
}

/// The lines of document 002; with `only`, the line for this number of threads.
pub(crate) fn transactions(only: Option<usize>) -> Vec<Transactions> {
    let mut all: Vec<Transactions> =
        lines(include_str!("../../documents/002/tcp_rr_slub_slab.csv"));
    all.retain(|line| only.is_none_or(|threads| threads == line.threads));
    all
}

/// The standard deviation of a gain, in points, from its two figures and their own deviations.
pub(crate) fn deviation((from, from_deviates): (f64, f64), (to, to_deviates): (f64, f64)) -> f64 {
    to / from * (from_deviates / from).hypot(to_deviates / to) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_deviates_as_both_of_its_figures_do() {
        assert_eq!(deviation((100.0, 3.0), (100.0, 4.0)), 5.0);
        assert_eq!(deviation((100.0, 0.0), (200.0, 20.0)), 20.0);
    }
}
