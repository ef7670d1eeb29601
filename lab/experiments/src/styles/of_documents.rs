//! The documents' own tables (000 and 001) for an experiment, in the layout of the run's table.

use super::mmtests::{OF_RATES, OF_TIMES, PrintedRow, Table};
use super::published;

/// Kernel releases, which the documents print above kernel names, by document and machine.
const RELEASES: &[(&str, &str, &str)] = &[
    ("000", "", "4.9.0-rc5"),
    ("001", "unnamed", "4.14.0-rc4"),
    ("001", "bonnie-machine", "4.14.0-rc5"),
];

pub(super) struct Documented {
    pub(super) number: &'static str,
    pub(super) machine: &'static str,
    pub(super) table: Table,
}

/// Returns for each machine the documents' table whose benchmark has the experiment's name.
pub(super) fn tables(experiment: &str) -> Vec<Documented> {
    let mut tables: Vec<Documented> = Vec::new();
    for fields in published::mmtests() {
        let &[number, machine, benchmark, ..] = &fields[..] else { continue };
        if benchmark != experiment {
            continue;
        }
        let known = |it: &Documented| (it.number, it.machine) == (number, machine);
        let at = tables.iter().position(known).unwrap_or_else(|| {
            let decimals = fields[6].split_once('.').map_or(0, |(_, digits)| digits.len());
            let is_rate = fields[3] == "Hmean";
            let statistics: &[_] = if is_rate { &OF_RATES } else { &OF_TIMES };
            let table = Table { statistics, kernels: Vec::new(), decimals, lines: Vec::new() };
            tables.push(Documented { number, machine, table });
            tables.len() - 1
        });
        add(&mut tables[at], &fields);
    }
    tables
}

fn add(to: &mut Documented, fields: &[&'static str]) {
    let &[_, _, _, statistic, operation, base, .., kernel, _, _] = fields else { return };
    let number = |index: usize| fields[index].parse().unwrap_or(f64::NAN);
    let release = |&&(number, machine, _): &&(&str, &str, &str)| {
        number == to.number && (machine.is_empty() || machine == to.machine)
    };
    let release = RELEASES.iter().find(release).map_or("", |found| found.2);
    for name in [base, kernel].map(|name| format!("{release}-{name}")) {
        if !to.table.kernels.contains(&name) {
            to.table.kernels.push(name);
        }
    }
    let is_known = |row: &&mut PrintedRow| row.statistic == statistic && row.operation == operation;
    match to.table.lines.iter_mut().find(is_known) {
        Some(row) => row.cells.push((number(9), number(10))),
        None => to.table.lines.push(PrintedRow {
            statistic,
            operation: operation.to_owned(),
            cells: vec![(number(6), number(7)), (number(9), number(10))],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT_001: &str = include_str!("../../../documents/001/tables.txt");

    #[test]
    fn tables_are_those_of_the_document_to_the_character() {
        let expected: Vec<&str> = DOCUMENT_001.trim_end().split("\n\n").collect();
        let printed = |experiment: &str| -> Vec<String> {
            tables(experiment).iter().map(|it| it.table.to_string()).collect()
        };
        assert_eq!(printed("sparsetruncate-tiny"), expected[1..2]);
        assert_eq!(printed("bonnie"), [expected[0], expected[2]]);
        assert_eq!(printed("netperf-udp-stream").len(), 2, "of two machines");
        assert_eq!(printed("page-fault1"), [""; 0]);
    }
}
