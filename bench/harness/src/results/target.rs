//! Targets of a run, recorded with it: a reader of results needs no experiment to judge them.

use serde::{Deserialize, Serialize};

/// The comparison of two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// One divided by the other.
    Ratio,
    /// One less the other, in the unit of the figure.
    Difference,
}

/// The variants that the baseline is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// On every workload the peer that is best there.
    Best,
    /// Every peer, or every peer whose name begins with one of these: `jemalloc` is also
    /// `jemalloc-new`.
    Each(Vec<String>),
}

/// The share of a target's workloads that has to reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Their mean, which is geometric for ratios.
    Mean,
    /// Every one of them.
    EachWorkload,
}

/// The baseline's figure in relation to those it is `against` should be `at_most`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The work, as the table names it.
    pub work: String,
    /// Names of its workloads; some of them may not have run.
    pub workloads: Vec<String>,
    /// Name of the metric; less is better.
    pub metric: String,
    /// The peers.
    pub against: Against,
    /// The share of the workloads that has to reach it.
    pub over: Over,
    /// The comparison.
    pub relation: Relation,
    /// The aim, as a ratio or in the unit of the metric.
    pub at_most: f64,
}
