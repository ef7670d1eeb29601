//! The documents' figures that stand beside ours.

use quarry_harness::tables::published::{MMTESTS, PAGE_FAULT, TCP_RR};

/// The figures of a document on an experiment.
pub(crate) struct Document {
    /// Its number.
    pub(crate) number: &'static str,
    /// Where its figures are.
    pub(crate) table: Table,
    /// Its finding, in a sentence or two.
    pub(crate) finding: &'static str,
}

/// A table of the documents.
pub(crate) enum Table {
    /// None: profiles and prose.
    None,
    /// A table of document 000 or 001: the mean of these rows, for this machine and benchmark. With
    /// `by_tasks` rows are numbers of tasks and ours is part of the benchmark's name.
    Mmtests {
        machine: &'static str,
        benchmark: &'static str,
        statistic: &'static str,
        by_tasks: bool,
    },
    /// Document 002: rows are numbers of tasks per CPU.
    TcpRr,
    /// Document 004: rows are numbers of tasks.
    PageFault,
}

/// A figure of a document: of a kernel, and how it compares with the document's baseline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) kernel: String,
    pub(crate) value: f64,
    pub(crate) ratio: f64,
}

/// Which of a document's two kernels a policy stands for: its baseline (0) or the other one (1).
fn kernel_of(table: &Table, policies: &str) -> Option<usize> {
    let mut words = policies.split('+');
    let (slab, pcp, free_list) = (words.next()?, words.next()?, words.next());
    match (table, slab, pcp, free_list) {
        (Table::TcpRr, "slub", ..) => Some(0),
        (Table::TcpRr, "slab", ..) => Some(1),
        (Table::PageFault, _, "order0", _) => Some(0),
        (Table::PageFault, _, "order0-310", _) => Some(1),
        (Table::Mmtests { benchmark: "sparsetruncate-tiny", .. }, _, _, Some("per_page")) => {
            Some(0)
        }
        (Table::Mmtests { benchmark: "sparsetruncate-tiny", .. }, _, _, Some("one_section")) => {
            Some(1)
        }
        (Table::Mmtests { .. }, "slub", "order0", _) => Some(0),
        (Table::Mmtests { .. }, "slub", "v2016", _) => Some(1),
        _ => None,
    }
}

impl Document {
    /// The figure for a row, a number of tasks and policies.
    pub(crate) fn figure(&self, row: &str, tasks: u32, policies: &str) -> Option<Figure> {
        let which = kernel_of(&self.table, policies)?;
        let [first, second] = self.pair(row, tasks)?;
        let ratio = if which == 0 { 1.0 } else { second.1 / first.1 };
        let (kernel, value) = if which == 0 { first } else { second };
        Some(Figure { kernel, value, ratio })
    }

    /// Baseline and the other kernel, with their values.
    fn pair(&self, row: &str, tasks: u32) -> Option<[(String, f64); 2]> {
        let number = |text: &str| text.parse::<f64>().ok();
        let named = |name: &str, text: &str| Some((name.to_owned(), number(text)?));
        let tasks = tasks.to_string();
        match self.table {
            Table::None => None,
            Table::Mmtests { machine, benchmark, statistic, by_tasks } => {
                let (name, key) = match by_tasks {
                    true => (format!("{benchmark}-{row}"), tasks.as_str()),
                    false => (benchmark.to_owned(), row),
                };
                let key =
                    if benchmark == "sparsetruncate-tiny" && row == "14" { "Time" } else { key };
                let wanted = [machine, name.as_str(), statistic, key];
                let line = fields(MMTESTS).find(|fields| fields.get(1..5) == Some(&wanted[..]))?;
                Some([named(line[5], line[6])?, named(line[8], line[9])?])
            }
            Table::TcpRr => {
                // The document's machine has 16 CPUs, ours perhaps two: its rows are told apart by
                // how many threads there are for each.
                let cpus = quarry_harness::affinity::allowed().len().max(1);
                let threads = tasks.parse::<usize>().ok()? * 16;
                let threads = threads.is_multiple_of(cpus).then(|| (threads / cpus).to_string())?;
                let line = fields(TCP_RR).find(|fields| fields[0] == threads)?;
                Some([named("SLUB", line[1])?, named("SLAB", line[2])?])
            }
            Table::PageFault => {
                let of = |kernel: &str| fields(PAGE_FAULT).find(|f| f[..2] == [kernel, &tasks]);
                let column = match row {
                    "processes" => 4,
                    _ => 6,
                };
                let value = |kernel, name| named(name, of(kernel)?[column]);
                Some([value("1", "4.15-rc2")?, value("2", "large-zone-batch")?])
            }
        }
    }
}

fn fields(csv: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

#[cfg(test)]
mod tests {
    use crate::experiments::replay::{Kind, kinds};

    fn figure<K: Kind>(row: &str, tasks: u32, policies: &str) -> Option<(f64, String)> {
        let figure = K::SPEC.document.figure(row, tasks, policies)?;
        Some((figure.value, format!("{:.4}", figure.ratio)))
    }

    #[test]
    fn figures_are_those_of_the_documents() {
        let of = |value: f64, ratio: &str| Some((value, ratio.to_owned()));
        let udp = figure::<kinds::NetperfUdpStream>;
        assert_eq!(udp("send-64", 1, "slub+order0"), of(178.38, "1.0000"));
        assert_eq!(udp("recv-16384", 2, "slub+v2016"), of(32806.81, "1.2288"));
        assert_eq!(udp("send-64", 1, "sheaf+v6.7"), None);
        let tcp = figure::<kinds::SockperfTcpThroughput>;
        assert_eq!(tcp("14", 1, "slub+v2016"), of(92.74, "0.9876"), "a loss of 1.2 %");
        let hackbench = figure::<kinds::Hackbench>;
        assert_eq!(hackbench("process-sockets", 16, "slub+v2016"), of(66.2633, "1.0340"));
        assert_eq!(hackbench("thread-pipes", 16, "slub+v2016"), None);
        let fault = figure::<kinds::PageFault1>;
        assert_eq!(fault("threads", 4, "slub+order0-310"), of(2_123_570.0, "1.0760"));
        let list = figure::<kinds::ListFree>;
        assert_eq!(list("14", 1, "slub+order0+one_section"), of(144.37, "0.9458"));
        assert_eq!(list("32", 1, "slub+order0+one_section"), None);
    }
}
