//! The output of `quarry-predict`, one line of JSON.

use crate::cell::Cell;
use crate::skill::Skill;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole output.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Printed {
    /// The document: 000 to 004, or `llfree` for published figures.
    pub document: String,
    /// The machines on which the figures were predicted.
    pub machines: Vec<Shown>,
    /// A cell for each figure.
    pub cells: Vec<Cell>,
    /// Suppositions that the document makes or leaves open. It has no figures to compare them with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppositions: Vec<Supposed>,
    /// How each prediction changes with each constant, if the user asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<Moved>,
    /// The fitted constants without each cell in turn, if the user asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<Fit>,
    /// Scores of the predictions, compared with predicting no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill: Vec<Skill>,
    /// True if the runs were short ones; their figures differ from those of the documentation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// Number of events of the simulated machines. The real time of the runs is left out, so that
    /// the same command line always prints the same bytes.
    pub events: u64,
}

/// A machine, for readers of the cells who do not have the machine's file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// The name of its file.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Constants that were fitted to cells of the baseline.
    pub fitted: Vec<String>,
}

/// The prediction of a figure that the document does not give.
#[derive(Debug, Serialize, Deserialize)]
pub struct Supposed {
    /// The change, and the number of tasks.
    pub row: String,
    /// The figure, with its unit.
    pub column: String,
    /// The predicted figure without the change.
    pub before: f64,
    /// The predicted figure with the change.
    pub after: f64,
}

/// How a prediction changes with a constant, in the unit of [`Cell::error_points`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Moved {
    /// The name of the machine's file.
    pub machine: String,
    /// The constant.
    pub constant: String,
    /// The cell's row.
    pub row: String,
    /// The cell's column.
    pub column: String,
    /// The change of the prediction if the constant is a fifth lower.
    pub lower: f64,
    /// The change of the prediction if the constant is a fifth higher.
    pub higher: f64,
}

/// Constants fitted to some of the cells.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fit {
    /// The cell that was left out; `None` if the fit uses all cells.
    pub without: Option<String>,
    /// The constants by their names.
    pub constants: BTreeMap<String, f64>,
    /// The root mean square of the errors that remain in the cells of the fit.
    pub error_points: f64,
    /// The error that remains in the cell that was left out.
    pub predicted_points: Option<f64>,
}
