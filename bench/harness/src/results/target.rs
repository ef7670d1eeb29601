//! Targets of a run, recorded with it, so that a reader of results can judge them.

use serde::{Deserialize, Serialize};

/// The comparison of two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The quotient.
    Ratio,
    /// The difference, in the unit of the figure.
    Difference,
}

/// The peers with which the baseline is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// On each workload the best peer on that workload.
    Best,
    /// Each peer, or each whose name begins with one of these (`jemalloc` includes `jemalloc-new`).
    Each(Vec<String>),
}

/// The workloads that have to reach a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Their mean, a geometric one for ratios.
    Mean,
    /// Each workload.
    EachWorkload,
}

/// A target: the baseline, relative to the peers (`against`), should be at most `at_most`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The work, as the table names it.
    pub work: String,
    /// Names of the workloads of that work; a run may lack some of them.
    pub workloads: Vec<String>,
    /// Name of the metric, of which less is better.
    pub metric: String,
    /// The peers.
    pub against: Against,
    /// The workloads that have to reach the target.
    pub over: Over,
    /// Ratio or difference.
    pub relation: Relation,
    /// The aim, as a ratio or in the unit of the metric.
    pub at_most: f64,
}
