//! The figure of a document and its prediction.

use serde::{Deserialize, Serialize};

/// One figure of a document's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The row of the document's table, with the machine if the document has several.
    pub row: String,
    /// The column, with its unit.
    pub column: String,
    /// The document's figure.
    pub document: f64,
    /// The figure on the simulated machine.
    pub predicted: f64,
    /// The error: in points if the figure is a percentage, otherwise in per cent of `document`.
    pub error_points: f64,
    /// True if a constant was fitted to this cell.
    pub calibrated: bool,
    /// The facts that a score needs of a figure that is an effect, such as a gain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scored: Option<Scored>,
}

/// The effect that a cell is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The group of cells with which this cell is scored.
    pub group: String,
    /// The error of predicting that nothing changes, in the unit of `error_points`.
    pub no_effect_points: f64,
    /// The document's standard deviation of the figure, in the same unit; 0 if it has none.
    pub deviation_points: f64,
}

impl Scored {
    /// A change of more than this many points counts as an effect.
    pub const EFFECT_POINTS: f64 = 5.0;

    /// Returns whether the document reports an effect: its figure differs from "nothing changes" by
    /// more than 5 points, and by more than the figure's own standard deviation.
    #[must_use]
    pub fn is_effect(&self) -> bool {
        self.no_effect_points.abs() > self.deviation_points.max(Self::EFFECT_POINTS)
    }
}

impl Cell {
    /// The cell of a percentage.
    #[must_use]
    pub fn percent(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = predicted - document;
        let (row, column) = (row.to_owned(), column.to_owned());
        let (calibrated, scored) = (false, None);
        Self { row, column, document, predicted, error_points, calibrated, scored }
    }

    /// The cell of a rate or a time.
    #[must_use]
    pub fn figure(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = gain(document, predicted);
        Self { error_points, ..Self::percent(row, column, document, predicted) }
    }

    /// Marks the cell as one that a constant was fitted to.
    #[must_use]
    pub fn calibrated(self) -> Self {
        Self { calibrated: true, ..self }
    }

    /// Makes the cell of a gain or loss in per cent: 0 without an effect. It is scored in a group.
    #[must_use]
    pub fn gain(group: &str, (row, column): (&str, &str), document: f64, predicted: f64) -> Self {
        Self::percent(row, column, document, predicted).scored(group, 0.0 - document)
    }

    /// Makes the cell of a figure that is `nothing` without the effect. It is scored in a group.
    #[must_use]
    pub fn effect(
        group: &str,
        (row, column): (&str, &str),
        document: f64,
        (nothing, predicted): (f64, f64),
    ) -> Self {
        Self::figure(row, column, document, predicted).scored(group, gain(document, nothing))
    }

    fn scored(self, group: &str, no_effect_points: f64) -> Self {
        let group = group.to_owned();
        Self { scored: Some(Scored { group, no_effect_points, deviation_points: 0.0 }), ..self }
    }

    /// Sets the document's standard deviation of the figure, in points.
    #[must_use]
    pub fn deviating(mut self, points: f64) -> Self {
        if let Some(scored) = &mut self.scored {
            scored.deviation_points = points;
        }
        self
    }

    /// Returns whether the cell is a prediction: nothing was fitted to it.
    #[must_use]
    pub fn is_prediction(&self) -> bool {
        !self.calibrated
    }
}

/// The cell of this row and column, if `cells` has it.
#[must_use]
pub fn find<'a>(cells: &'a [Cell], row: &str, column: &str) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.row == row && cell.column == column)
}

/// The increase from `from` to `to`, in per cent.
#[must_use]
pub fn gain(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}
