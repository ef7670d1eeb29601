//! Fits the constants of a machine anew, leaving out each cell in turn.
//!
//! A constant that the cells determine well stays about the same when one cell is left out. The
//! slope of each fitted constant in every cell is measured by raising the constant once, by a
//! fifth. With these slopes, least squares over the errors of the remaining cells gives the
//! constants that fit those cells best (one Gauss-Newton step). The fit to all cells shows how far
//! the file's values are from the best ones.

use crate::machine::MachineFile;
use anyhow::{Result, ensure};
use quarry_predict::{Cell, Fit};

/// Each constant is raised by this part of its value to measure its slopes.
const STEP: f64 = 0.2;

/// Fits a machine's constants to all cells of `calibrate`, then again without each cell in turn.
pub(crate) fn leave_out(
    machine: &MachineFile,
    calibrate: impl Fn(&MachineFile) -> Result<Vec<Cell>>,
) -> Result<Vec<Fit>> {
    let fitted = machine.constants.iter().filter(|(_, constant)| constant.fitted);
    let fitted: Vec<(&String, f64)> = fitted.map(|(name, it)| (name, it.value)).collect();
    let cells = calibrate(machine)?;
    let (many, most) = (cells.len(), fitted.len());
    ensure!(many > most + 1, "{most} fitted constants and {many} cells: none can be left out");
    let errors = |cells: &[Cell]| cells.iter().map(|it| it.error_points).collect::<Vec<f64>>();
    let at = errors(&cells);
    let mut slopes = Vec::new();
    for (name, value) in &fitted {
        let mut moved = machine.clone();
        moved.constants.get_mut(*name).expect("a key").value = value * (1.0 + STEP);
        let moved = errors(&calibrate(&moved)?);
        slopes.push(moved.iter().zip(&at).map(|(to, from)| (to - from) / STEP).collect());
    }
    let fit = |without: Option<usize>| {
        let used: Vec<usize> = (0..at.len()).filter(|cell| Some(*cell) != without).collect();
        let steps = least_squares(&slopes, &at, &used);
        let left = |cell: usize| {
            at[cell]
                + steps.iter().zip(&slopes).map(|(step, slope)| step * slope[cell]).sum::<f64>()
        };
        let squares: f64 = used.iter().map(|cell| left(*cell).powi(2)).sum();
        let values = fitted.iter().zip(&steps);
        Fit {
            without: without.map(|it| format!("{}, {}", cells[it].row, cells[it].column)),
            constants: values
                .map(|((name, it), step)| ((*name).clone(), it * (1.0 + step)))
                .collect(),
            error_points: (squares / used.len() as f64).sqrt(),
            predicted_points: without.map(left),
        }
    };
    Ok(std::iter::once(None).chain((0..many).map(Some)).map(fit).collect())
}

/// Returns for each constant the relative change (step) that minimises the sum of the squared
/// errors of the cells `used`. `slopes[step][cell]` says how a step changes a cell's error. Solves
/// the normal equations by elimination, O(steps^3).
fn least_squares(slopes: &[Vec<f64>], errors: &[f64], used: &[usize]) -> Vec<f64> {
    let sum = |one: &[f64], other: &[f64]| used.iter().map(|it| one[*it] * other[*it]).sum::<f64>();
    let row = |one: &Vec<f64>| {
        let row = slopes.iter().map(|other| sum(one, other));
        row.chain([-sum(one, errors)]).collect::<Vec<f64>>()
    };
    let mut rows: Vec<Vec<f64>> = slopes.iter().map(row).collect();
    for pivot in 0..rows.len() {
        let of = rows[pivot].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = row[pivot] / of[pivot];
            row.iter_mut().zip(&of).for_each(|(to, from)| *to -= factor * from);
        }
    }
    rows.iter().enumerate().map(|(at, row)| row[slopes.len()] / row[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_squares_of_a_line_are_known() {
        // y = 3 + 2 x holds in the first three cells; the last cell is far off.
        let slopes = [vec![1.0; 4], vec![0.0, 1.0, 2.0, 5.0]];
        let errors = [-3.0, -5.0, -7.0, 40.0];
        let steps = least_squares(&slopes, &errors, &[0, 1, 2]);
        assert!((steps[0] - 3.0).abs() < 1e-9 && (steps[1] - 2.0).abs() < 1e-9, "{steps:?}");
        assert_ne!(least_squares(&slopes, &errors, &[0, 1, 2, 3]), steps);
    }

    #[test]
    fn a_constant_that_no_cell_contradicts_stays() {
        let machine = MachineFile::named("004");
        let cell = |row: &str, predicted| Cell::figure(row, "", 100.0, predicted).calibrated();
        let calibrate = |machine: &MachineFile| {
            let value = |name| machine.value(name) / MachineFile::named("004").value(name);
            let fitted = machine.constants.iter().filter(|(_, it)| it.fitted);
            let sum: f64 = fitted.clone().map(|(name, _)| value(name)).sum();
            let each = fitted.map(|(name, _)| cell(name, 100.0 * value(name)));
            let last =
                100.0 * sum / machine.constants.values().filter(|it| it.fitted).count() as f64;
            Ok(each.chain([cell("mean", last), cell("again", last)]).collect())
        };
        for fit in leave_out(&machine, calibrate).unwrap() {
            for (name, value) in fit.constants {
                assert!((value / machine.value(&name) - 1.0).abs() < 1e-6, "{name}: {value}");
            }
        }
    }
}
