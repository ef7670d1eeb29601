//! What a run is to reach, recorded with it: a reader of results needs no experiment to judge them.

use serde::{Deserialize, Serialize};

/// What two figures are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// One divided by the other.
    Ratio,
    /// One less the other, in the unit of the figure.
    Difference,
}

/// With which of the other variants the baseline is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// On every workload with the peer that is best there.
    Best,
    /// With every peer, or every peer whose name begins with one of these: `jemalloc` is also
    /// `jemalloc-new`.
    Each(Vec<String>),
}

/// How the workloads of a target come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Their mean has to reach it: of ratios the geometric one.
    Mean,
    /// Every one of them has to.
    EachWorkload,
}

/// The baseline's figure, in relation to those it is `against`, is to be `at_most`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What is done.
    pub work: String,
    /// Which workloads that is; some of them may not have run.
    pub workloads: Vec<String>,
    /// Name of the metric; less is better.
    pub metric: String,
    /// With whom it is compared.
    pub against: Against,
    /// What of the workloads has to reach it.
    pub over: Over,
    /// What is compared.
    pub relation: Relation,
    /// What is to be reached, as a ratio or in the unit of the metric.
    pub at_most: f64,
}
