//! The table of document 004, with one part for each number of tasks. A variant's row has, for each
//! workload (processes and threads), mean, deviation and speed-up over the first variant.

use indicatif::HumanCount;
use quarry_harness::judge::{Column, Row, Selection};
use quarry_harness::results::Direction;
use quarry_harness::statistics::mmtests::Sorted;
use quarry_harness::table::Table;

pub(super) fn table(selection: &Selection<'_>) -> String {
    let columns: Vec<&Column<'_>> = selection.columns.iter().collect();
    let numbers = (1..).zip(&columns);
    let kernels = numbers.map(|(number, it)| vec![it.label.clone(), format!("{number}")]);
    let mut blocks = vec![Table::of(["kernel", "kern #"], kernels).plain()];
    let mut tasks: Vec<u32> = selection.rows.iter().map(|row| row.tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    for tasks in tasks {
        let rows: Vec<Row<'_>> =
            selection.rows.iter().copied().filter(|row| row.tasks == tasks).collect();
        let line = |(number, column): (usize, &&Column<'_>)| {
            line(selection, &rows, columns[0], (number, column))
        };
        let lines = (1..).zip(&columns).map(line);
        blocks.push(Table::of(head(&rows, &selection.metric.unit), lines).plain());
    }
    blocks.join("\n\n")
}

fn head(rows: &[Row<'_>], unit: &str) -> Vec<String> {
    let mut head = vec!["kern #".to_owned(), "ntask".to_owned()];
    head.extend(rows.iter().map(|row| format!("{}\nspeedup", row.workload)));
    for row in rows {
        head.extend([format!("{}\n{unit}", row.workload), "stdev".to_owned()]);
    }
    head
}

fn line(
    selection: &Selection<'_>,
    rows: &[Row<'_>],
    first: &Column<'_>,
    (number, column): (usize, &Column<'_>),
) -> Vec<String> {
    let metric = selection.metric;
    let sorted =
        |column: &Column<'_>, row: Row<'_>| Sorted::new(selection.samples(column, row, metric));
    let mut line = vec![number.to_string(), rows[0].tasks.to_string()];
    line.extend(rows.iter().map(|row| match (sorted(first, *row), sorted(column, *row)) {
        _ if number == 1 => String::new(),
        (Some(base), Some(new)) => match metric.direction {
            Direction::Lower => speedup(base.amean(), new.amean()),
            Direction::Higher | Direction::None => speedup(new.amean(), base.amean()),
        },
        _ => "failed".to_owned(),
    }));
    for row in rows {
        line.extend(match sorted(column, *row) {
            Some(values) => [grouped(values.amean()), grouped(values.stddev())],
            None => ["failed".to_owned(), String::new()],
        });
    }
    line
}

fn speedup(fast: f64, slow: f64) -> String {
    format!("{:.1}%", fast * 100.0 / slow - 100.0)
}

/// Writes a whole number with a comma after each three digits; NaN is blank.
fn grouped(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    let sign = if value <= -0.5 { "-" } else { "" };
    format!("{sign}{}", HumanCount(value.abs().round_ties_even() as u64))
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
