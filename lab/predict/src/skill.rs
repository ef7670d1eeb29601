//! Scores: how much better the predictions are than predicting that nothing changes.

use crate::cell::{Cell, Scored};
use serde::{Deserialize, Serialize};

/// The score of a group of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// The name of the group.
    pub group: String,
    /// The score of all its cells.
    pub all: Score,
    /// The score of the cells that are an effect in the document (see [`Scored::is_effect`]).
    pub effects: Score,
}

/// The mean absolute errors of some cells, in the unit of [`Cell::error_points`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Number of cells.
    pub cells: usize,
    /// The mean error of predicting that nothing changes.
    pub no_effect: f64,
    /// The mean error of the simulator.
    pub simulator: f64,
    /// Cells whose predicted change has the document's sign and is at least half a point.
    pub right_sign: usize,
}

/// The smallest predicted change that counts for `right_sign`.
const SHOWN_POINTS: f64 = 0.5;

impl Score {
    fn of<'a>(cells: impl Iterator<Item = (&'a Cell, &'a Scored)>) -> Self {
        let mut score = Self::default();
        for (cell, Scored { no_effect_points, .. }) in cells {
            score.cells += 1;
            score.no_effect += no_effect_points.abs();
            score.simulator += cell.error_points.abs();
            let moved = cell.error_points - no_effect_points;
            let is_right = moved.abs() >= SHOWN_POINTS && moved * no_effect_points < 0.0;
            score.right_sign += usize::from(is_right);
        }
        let cells = score.cells.max(1) as f64;
        Self { no_effect: score.no_effect / cells, simulator: score.simulator / cells, ..score }
    }

    /// 1 if every prediction is exact, 0 if the simulator is as far off as predicting no effect,
    /// negative if it is worse. None without cells, or if predicting no effect is exact.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        (self.no_effect > 0.0).then(|| 1.0 - self.simulator / self.no_effect)
    }
}

/// The score of each group, in the order of the cells. Cells that constants were fitted to, and
/// cells with a note, are left out.
#[must_use]
pub fn skill(cells: &[Cell]) -> Vec<Skill> {
    let scored = || {
        let predictions = cells.iter().filter(|cell| cell.is_prediction());
        predictions.filter_map(|cell| Some((cell, cell.scored.as_ref()?)))
    };
    let mut all: Vec<Skill> = Vec::new();
    for (_, Scored { group, .. }) in scored() {
        if all.iter().any(|known| known.group == *group) {
            continue;
        }
        let ours = || scored().filter(|(_, scored)| scored.group == *group);
        let effects = Score::of(ours().filter(|(_, scored)| scored.is_effect()));
        all.push(Skill { group: group.clone(), all: Score::of(ours()), effects });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(document: f64, predicted: f64) -> Cell {
        Cell::gain("gains", ("row", "column"), document, predicted)
    }

    #[test]
    fn effects_are_scored_apart() {
        let cells = [gain(20.0, 15.0), gain(-10.0, 2.0), gain(1.0, 2.0), gain(8.0, 8.0)];
        let [first, second, third, fourth] = cells;
        let noisy = fourth.clone().deviating(9.0);
        let fitted = gain(90.0, 0.0).calibrated();
        let rate = Cell::figure("row", "rate", 100.0, 300.0);
        let cells = [first, second, third, noisy, fitted, rate];
        let skill = skill(&cells);
        assert_eq!(skill.len(), 1);
        let all = Score { cells: 4, no_effect: 9.75, simulator: 4.5, right_sign: 3 };
        let effects = Score { cells: 2, no_effect: 15.0, simulator: 8.5, right_sign: 1 };
        assert_eq!(skill[0], Skill { group: "gains".to_owned(), all, effects });
        assert!(fourth.scored.is_some_and(|it| it.is_effect()), "without the deviation");
    }

    #[test]
    fn skill_is_1_at_best_and_below_0_where_no_effect_is_nearer() {
        let of = |predicted| skill(&[gain(10.0, predicted)])[0].all.skill();
        assert_eq!([10.0, 5.0, 0.0, -10.0].map(of), [1.0, 0.5, 0.0, -1.0].map(Some));
        assert_eq!(skill(&[gain(0.0, 1.0)])[0].all.skill(), None);
        assert_eq!(skill(&[]), []);
    }

    #[test]
    fn a_figure_without_the_effect_is_what_it_was() {
        let tripled = Cell::effect("waiting", ("row", "times"), 3.0, (1.0, 1.5));
        let skill = skill(&[tripled]);
        let Score { no_effect, simulator, right_sign, .. } = skill[0].effects;
        assert!((no_effect - 200.0 / 3.0).abs() < 1e-9 && (simulator - 50.0).abs() < 1e-9);
        assert_eq!(right_sign, 1);
    }
}
