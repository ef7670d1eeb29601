//! The documents' figures that replays are compared with.

use super::row::Row;
use crate::styles::published::{PAGE_FAULT, TCP_RR, by_row, mmtests, records};
use quarry_harness::table;
use quarry_replay::policies::Policies;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) number: String,
    pub(crate) finding: String,
    /// Source of the document's figures; some documents have only profiles and prose.
    table: Option<Table>,
    /// Policies that stand for the document's kernels, the baseline first; `*` matches any policy.
    #[serde(default)]
    kernels: Vec<String>,
    /// The table of the document's other machine, which ran other kernels.
    also: Option<Also>,
    /// Later statements and measurements of the same change.
    #[serde(default)]
    pub(crate) later: String,
    /// The policies that stand for mainline's version of the change, if its gain was measured.
    mainline: Option<String>,
}

/// netperf's UDP_STREAM without and with lists for higher orders. The commit that added these to
/// Linux 5.14 (44042b449872) has the figures, which its author measured on 5.13-rc2.
const MAINLINE: &str = include_str!("../../../../documents/000/mainline_5_14.csv");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Also {
    machine: String,
    /// The policies that stand for this machine's kernels, the baseline first.
    kernels: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Table {
    /// Document 000 or 001: the `statistic` of `benchmark` on `machine`. With `by_tasks` the
    /// document's rows are numbers of tasks, and each row of the replay has a benchmark of its own,
    /// called `benchmark-ROW`. Without `by_tasks`, `rows` maps the replay's rows to the document's.
    Mmtests {
        machine: String,
        benchmark: String,
        statistic: String,
        #[serde(default)]
        by_tasks: bool,
        #[serde(default)]
        rows: BTreeMap<String, String>,
    },
    /// Figures of the experiment's own rows, in `rows.csv`: the names of the kernels there, the
    /// baseline first.
    ByRow { kernels: Vec<String> },
    /// Document 002: rows are numbers of tasks per CPU.
    TcpRr,
    /// Document 004: rows are numbers of tasks.
    PageFault,
}

/// A figure of a document: a kernel's value, and its ratio to the document's baseline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) kernel: String,
    pub(crate) value: f64,
    pub(crate) ratio: f64,
}

/// Formats a figure with its ratio; empty if the document has none.
pub(super) fn beside(figure: Option<Figure>) -> String {
    match figure {
        None => String::new(),
        Some(Figure { kernel, value, ratio }) => {
            format!("{ratio:.3} ({kernel} {})", table::figure(value))
        }
    }
}

/// Returns whether policies match a pattern, part by part; a part `*` matches any policy.
fn fits(pattern: &str, policies: &str) -> bool {
    let (patterns, parts) = (pattern.split('+'), policies.split('+'));
    patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| pattern == "*" || pattern == part)
}

impl Document {
    pub(crate) fn figure(&self, row: &Row, tasks: u32, policies: &Policies) -> Option<Figure> {
        self.statistic(None, row, tasks, policies)
    }

    /// The spread of the document's figure, if the document has it.
    pub(crate) fn spread(&self, row: &Row, tasks: u32, policies: &Policies) -> Option<Figure> {
        self.statistic(Some("Stddev"), row, tasks, policies)
    }

    /// The figures of all kernels for a row and a number of tasks, from the table of the
    /// experiment's machine.
    pub(crate) fn all(&self, row: &Row, tasks: u32) -> Vec<Figure> {
        let table = self.table.as_ref();
        let of = |it: &Table| it.kernels(None, (&self.number, row), row.machine, tasks);
        let figures = table.and_then(of).unwrap_or_default();
        figures.into_iter().filter(|figure| !figure.value.is_nan()).collect()
    }

    /// The table's usual statistic, or the one that `statistic` names.
    fn statistic(
        &self,
        statistic: Option<&str>,
        row: &Row,
        tasks: u32,
        policies: &Policies,
    ) -> Option<Figure> {
        let policies = policies.in_full();
        let which = |kernels: &[String]| kernels.iter().position(|it| fits(it, &policies));
        let (which, machine) = match (which(&self.kernels), &self.also) {
            (Some(which), _) => (which, row.machine),
            (None, Some(also)) => (which(&also.kernels)?, Some(also.machine.as_str())),
            (None, None) => return None,
        };
        let row = (self.number.as_str(), row);
        let of_row = self.table.as_ref()?.kernels(statistic, row, machine, tasks)?;
        of_row.into_iter().nth(which).filter(|figure| !figure.value.is_nan())
    }

    pub(crate) fn has_mainline(&self) -> bool {
        self.mainline.is_some()
    }

    pub(crate) fn mainline(&self, row: &Row, policies: &Policies) -> Option<f64> {
        self.mainline.as_ref().filter(|pattern| fits(pattern, &policies.in_full()))?;
        let line = records(MAINLINE).find(|line| line[0] == row.documented)?;
        let number = |text: &str| text.parse::<f64>().ok();
        Some(number(line[2])? / number(line[1])?)
    }
}

impl Table {
    /// The figures of all kernels, the baseline's first.
    fn kernels(
        &self,
        wanted: Option<&str>,
        (document, named): (&str, &Row),
        machine: Option<&str>,
        tasks: u32,
    ) -> Option<Vec<Figure>> {
        let row = named.documented.as_str();
        let number = |text: &str| text.parse::<f64>().ok();
        let of = |name: &str, text: &str| Some((name.to_owned(), number(text)?));
        let tasks = tasks.to_string();
        if wanted.is_some() && !matches!(self, Self::Mmtests { .. }) {
            return None;
        }
        let values: Vec<(String, f64)> = match self {
            Self::Mmtests { machine: usual, benchmark, statistic, by_tasks, rows } => {
                let (name, key) = match by_tasks {
                    true => (format!("{benchmark}-{row}"), tasks.as_str()),
                    false => (benchmark.clone(), rows.get(row).map_or(row, String::as_str)),
                };
                let machine = machine.unwrap_or(usual);
                let wanted = [machine, name.as_str(), wanted.unwrap_or(statistic), key];
                let lines = mmtests().filter(|fields| fields[1..5] == wanted[..]);
                // Each line compares another kernel with the baseline, the same in all lines.
                let lines: Vec<_> = lines.collect();
                let base = of(lines.first()?[5], lines[0][6]);
                std::iter::once(base)
                    .chain(lines.iter().map(|it| of(it[8], it[9])))
                    .collect::<Option<_>>()?
            }
            Self::ByRow { kernels } => {
                let lines = || by_row(document).filter(|line| line[0] == row);
                let base = number(lines().next()?[2])?;
                let value = |kernel: &String| {
                    let line = lines().find(|line| line[1] == kernel);
                    let value = line.and_then(|line| match number(line[2]) {
                        None => Some(base * (1.0 - number(line[3])? / 100.0)),
                        value => value,
                    });
                    (kernel.clone(), value.unwrap_or(f64::NAN))
                };
                kernels.iter().map(value).collect()
            }
            Self::TcpRr => {
                // The document's machine has 16 CPUs and this machine another number, so rows are
                // matched by threads per CPU.
                let cpus = quarry_harness::affinity::allowed().len().max(1);
                let threads = tasks.parse::<usize>().ok()? * 16;
                let threads = threads.is_multiple_of(cpus).then(|| (threads / cpus).to_string())?;
                let line = records(TCP_RR).find(|fields| fields[0] == threads)?;
                vec![of("SLUB", line[1])?, of("SLAB", line[2])?]
            }
            Self::PageFault => {
                let line = |kernel: &str| records(PAGE_FAULT).find(|f| f[..2] == [kernel, &tasks]);
                let column = if row == "processes" { 4 } else { 6 };
                let value = |(kernel, name): &(&str, &str)| of(name, line(kernel)?[column]);
                KERNELS_004.iter().map(value).collect::<Option<_>>()?
            }
        };
        let baseline = values.first()?.1;
        let figure = |(kernel, value)| Figure { kernel, value, ratio: value / baseline };
        Some(values.into_iter().map(figure).collect())
    }
}

const KERNELS_004: [(&str, &str); 4] = [
    ("1", "4.15-rc2"),
    ("2", "large-zone-batch"),
    ("3", "lru-lock-base"),
    ("4", "lru-lock-splice"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::replay::spec::Spec;

    #[test]
    fn figures_are_those_of_the_documents() {
        // The document's finding on TCP at 14 bytes: "The ratio is a loss of 1.2 %".
        for (experiment, row, tasks, policies, expected) in [
            ("netperf-udp-stream", "send-64", 1, "slub+order0", Some((178.38, "1.0000"))),
            ("netperf-udp-stream", "recv-16384", 2, "slub+v2016", Some((32806.81, "1.2288"))),
            ("netperf-udp-stream", "send-64", 1, "sheaf+v6.18", None),
            ("sockperf-tcp-throughput", "14", 1, "slub+v2016", Some((92.74, "0.9876"))),
            ("hackbench", "process-sockets", 16, "slub+v2016", Some((66.2633, "1.0340"))),
            ("hackbench", "thread-pipes", 16, "slub+v2016", None),
            ("page-fault1", "threads", 4, "slub+order0-310+single", Some((2_123_570.0, "1.0760"))),
            (
                "page-fault1",
                "processes",
                64,
                "slub+order0-310+splice",
                Some((14_728_765.0, "1.2192")),
            ),
            ("page-fault1", "processes", 64, "slub+order0-310+splice+add56", None),
            ("page-fault1", "processes", 2, "slub+order0+single", None),
            ("sparsetruncate-tiny", "Time", 1, "jan", Some((152.65, "1.0000"))),
            ("sparsetruncate-tiny", "Time", 1, "oneirq", Some((144.37, "0.9458"))),
            ("sparsetruncate-tiny", "Time", 1, "mel", None),
            ("bonnie", "SeqCreate del", 1, "oneirq", Some((26_319.99, "1.0543"))),
            ("bonnie", "SeqCreate del", 1, "vanilla", Some((12_090.23, "0.8791"))),
            ("bonnie", "RandCreate del", 1, "mel", Some((14_446.61, "1.0916"))),
            ("list-free", "14", 1, "slub+order0+one_section", Some((144.37, "0.9458"))),
            ("list-free", "32", 1, "slub+order0+one_section", None),
            (
                "free-contiguous",
                "cma-16384",
                1,
                "sheaf+v6.18+split_blocks",
                Some((402.0, "0.2859")),
            ),
            (
                "free-contiguous",
                "fix_size-4",
                1,
                "sheaf+v6.18+single_pages",
                Some((489_484.0, "0.7396")),
            ),
            ("free-contiguous", "order-9-512", 1, "sheaf+v6.18+split_blocks", None),
        ] {
            let spec = Spec::find(experiment).unwrap();
            let (row, policies) = (spec.row(row).unwrap(), policies.parse().unwrap());
            let figure = spec.document.figure(&row, tasks, &policies);
            let found = figure.map(|it| (it.value, format!("{:.4}", it.ratio)));
            let expected = expected.map(|(value, ratio)| (value, ratio.to_owned()));
            assert_eq!(found, expected, "{experiment} {} {policies}", row.name);
        }
    }

    #[test]
    fn a_documents_figure_is_printed_with_its_ratio() {
        let figure = Figure { kernel: "hopcpu-v5".to_owned(), value: 260.54, ratio: 1.4606 };
        assert_eq!(beside(Some(figure)), "1.461 (hopcpu-v5 261)");
        assert_eq!(beside(None), "");
    }

    #[test]
    fn machines_and_spreads_are_those_of_the_row() {
        let spec = Spec::find("netperf-udp-stream").unwrap();
        let row = |name: &str| spec.row(name).unwrap();
        let policies = |name: &str| name.parse().unwrap();
        let old = spec.document.figure(&row("1s-send-64"), 1, &policies("slub+v2016")).unwrap();
        assert_eq!((old.kernel.as_str(), old.value), ("hopcpu-v4", 127.01));
        assert!(spec.document.figure(&row("default-64"), 1, &policies("slub+v2016")).is_none());
        let gain = |name, of| spec.document.mainline(&row(name), &policies(of));
        assert_eq!(
            gain("send-64", "slub+v2016").map(|it| format!("{it:.4}")),
            Some("1.0185".into())
        );
        let at_8k = gain("send-8192", "slub+v2016").map(|it| format!("{it:.4}"));
        assert_eq!(at_8k, Some("1.0494".into()));
        assert_eq!(gain("send-64", "slub+order0"), None);
        let spec = Spec::find("sockperf-udp-throughput").unwrap();
        let spread = spec.document.spread(&spec.row("14").unwrap(), 1, &policies("slub+v2016"));
        assert_eq!(spread.unwrap().value, 1.21);
    }
}
