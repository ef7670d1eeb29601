//! The table of document 004: a block per number of tasks; in it a row per variant with means,
//! deviations and the speed-up over the first, for each workload (there: processes and threads).

use crate::judge::{Column, Row, Selection};
use crate::results::Direction;
use crate::statistics::mmtests::Sorted;

/// Fewest characters of a column.
const LEAST_WIDTH: usize = 13;

/// The blocks, behind a list of which number is which variant.
pub(super) fn table(selection: &Selection<'_>) -> String {
    let columns: Vec<&Column<'_>> = selection.originals().collect();
    let longest = columns.iter().map(|column| column.label.len()).max().unwrap_or(0).max(6);
    let mut text = format!("{:longest$}  kern #\n\n", "kernel");
    for (index, column) in columns.iter().enumerate() {
        text += &format!("{:longest$}  {:>6}\n", column.label, index + 1);
    }
    let names = selection.rows.iter().map(|row| row.workload.len());
    let width = names.chain([selection.metric.unit.len()]).max().unwrap_or(0) + 2;
    let width = width.max(LEAST_WIDTH);
    let mut tasks: Vec<u32> = selection.rows.iter().map(|row| row.tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    for tasks in tasks {
        let rows: Vec<Row<'_>> =
            selection.rows.iter().copied().filter(|row| row.tasks == tasks).collect();
        text += &format!("\n{}", head(&rows, &selection.metric.unit, width));
        for (index, column) in columns.iter().enumerate() {
            text += &line(selection, &rows, columns[0], (index + 1, column), width);
        }
    }
    text.trim_end().to_owned()
}

fn head(rows: &[Row<'_>], unit: &str, width: usize) -> String {
    let (mut first, mut second) = (format!("{:6}{:>7}", "kern #", "ntask"), format!("{:13}", ""));
    for row in rows {
        first += &format!("{:>width$}", row.workload);
        second += &format!("{:>width$}", "speedup");
    }
    for row in rows {
        first += &format!("{:>width$}{:>width$}", row.workload, "stdev");
        second += &format!("{unit:>width$}{:width$}", "");
    }
    format!("{first}\n{}\n", second.trim_end())
}

fn line(
    selection: &Selection<'_>,
    rows: &[Row<'_>],
    first: &Column<'_>,
    (number, column): (usize, &Column<'_>),
    width: usize,
) -> String {
    let sorted = |column: &Column<'_>, row: Row<'_>| {
        Sorted::new(selection.samples(column, row, selection.metric))
    };
    let mut text = format!("{number:>6}{:>7}", rows[0].tasks);
    for &row in rows {
        let means = (sorted(first, row), sorted(column, row));
        let cell = match means {
            // The first variant has no speed-up over itself.
            _ if number == 1 => String::new(),
            (Some(base), Some(new)) => match selection.metric.direction {
                Direction::Lower => speedup(base.amean(), new.amean()),
                Direction::Higher | Direction::None => speedup(new.amean(), base.amean()),
            },
            _ => "failed".to_owned(),
        };
        text += &format!("{cell:>width$}");
    }
    for &row in rows {
        let (mean, deviation) = match sorted(column, row) {
            Some(values) => (grouped(values.amean()), grouped(values.stddev())),
            None => ("failed".to_owned(), String::new()),
        };
        text += &format!("{mean:>width$}{deviation:>width$}");
    }
    text.trim_end().to_owned() + "\n"
}

fn speedup(fast: f64, slow: f64) -> String {
    format!("{:.1}%", fast * 100.0 / slow - 100.0)
}

/// A whole number with a comma after each three digits; blank where there is none.
fn grouped(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value <= -0.5 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let of = [0.4, 999.0, 1000.0, 12_080_629.0, -1234.0].map(grouped);
        assert_eq!(of, ["0", "999", "1,000", "12,080,629", "-1,234"]);
        assert_eq!(grouped(f64::NAN), "");
    }
}
