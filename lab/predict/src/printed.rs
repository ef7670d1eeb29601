//! The output of `quarry-predict`, one line of JSON.

use crate::cell::Cell;
use crate::skill::Skill;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Printed {
    /// The document: 000 to 004, or what others have published.
    pub document: String,
    /// The machines.
    pub machines: Vec<Shown>,
    /// A line for each figure.
    pub cells: Vec<Cell>,
    /// Suppositions of the document, and what it leaves open: there is no figure to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppositions: Vec<Supposed>,
    /// The effect of each constant, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<Moved>,
    /// The fitted constants without each cell, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<Fit>,
    /// The cells beside the prediction of no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill: Vec<Skill>,
    /// The runs were short ones: these are not the figures of the documentation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// Events of the simulated machines. How long those took is not here: the same words on the
    /// command line print the same bytes.
    pub events: u64,
}

/// A machine, for readers of the cells who do not have its file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// The name of its file.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Constants that were fitted to cells of the baseline.
    pub fitted: Vec<String>,
}

/// A figure that the document has no other for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Supposed {
    /// The change, and the number of tasks.
    pub row: String,
    /// The figure, with its unit.
    pub column: String,
    /// As the document's machine is.
    pub before: f64,
    /// With the change.
    pub after: f64,
}

/// The effect of changing a constant by a fifth, in points: the prediction then less that before.
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
    /// With four fifths of the constant.
    pub lower: f64,
    /// With six fifths.
    pub higher: f64,
}

/// Constants as they are fitted to some cells.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fit {
    /// The cell that was left out; none where all count.
    pub without: Option<String>,
    /// The constants by their names.
    pub constants: BTreeMap<String, f64>,
    /// The root of the mean square of what is left of the cells' errors.
    pub error_points: f64,
    /// The error of the cell that was left out.
    pub predicted_points: Option<f64>,
}
