//! Checks the tables of the documents: every percentage follows from its inputs within their
//! rounding, and the lab prints the same rows from the same samples.
//!
//! `lab/documents` has the numbers of the documents as data. If a document prints rounded values,
//! the test chooses samples within the rounding that also give its percentages. For the long table
//! of document 001, whose samples were never published, a set of 256 integers was found that gives
//! all its 34 figures and 17 percentages.

use super::published::{self, PAGE_FAULT, TCP_RR, records};
use super::{mmtests, tcp_rr, will_it_scale};
use quarry_harness::judge::Selection;
use quarry_harness::results::examples::{Cells, run_of};
use quarry_harness::results::{Direction, Metric, Run};
use quarry_harness::statistics::mmtests::{Sorted, pdiff, pndiff};

const DOCUMENT_001: &str = include_str!("../../../documents/001/tables.txt");
const SPARSETRUNCATE: &str =
    include_str!("../../../documents/001/sparsetruncate_reconstructed.csv");
/// Figures outside of tables.
const FIGURES: [&str; 6] = [
    include_str!("../../../documents/002/figures.csv"),
    include_str!("../../../documents/003/figures.csv"),
    include_str!("../../../documents/005/figures.csv"),
    include_str!("../../../documents/006/figures.csv"),
    include_str!("../../../documents/008/figures.csv"),
    include_str!("../../../documents/009/figures.csv"),
];

/// The only row of the documents whose percentage does not follow from its printed inputs: they
/// allow 6.0552 to 6.0569, but the document prints 6.05.
const EXCEPTION: (&str, &str) = ("sockperf-tcp-throughput", "1211.02");

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is a number"))
}

fn half_digit(text: &str) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    0.5 * 10f64.powi(-(decimals as i32))
}

#[derive(Clone)]
struct PublishedRow {
    document: &'static str,
    benchmark: &'static str,
    table: String,
    statistic: &'static str,
    operation: &'static str,
    kernels: [&'static str; 2],
    values: [&'static str; 2],
    percent: &'static str,
}

fn rows() -> Vec<PublishedRow> {
    let row = |fields: Vec<&'static str>| {
        let [document, machine, benchmark, statistic, operation, ..] = fields[..] else {
            panic!("{fields:?}")
        };
        PublishedRow {
            document,
            benchmark,
            table: format!("{machine}, {benchmark}"),
            statistic,
            operation,
            kernels: [fields[5], fields[8]],
            values: [fields[6], fields[9]],
            percent: fields[10],
        }
    };
    published::mmtests().map(row).collect()
}

impl PublishedRow {
    fn is_rate(&self) -> bool {
        self.statistic == "Hmean"
    }

    fn difference(&self) -> fn(f64, f64) -> f64 {
        if self.is_rate() { pdiff } else { pndiff }
    }

    fn is_exception(&self) -> bool {
        (self.benchmark, self.values[0]) == EXCEPTION && self.is_rate()
    }

    /// Returns true if the percentage lies in the interval that the rounding of both values allows.
    fn follows(&self) -> bool {
        let ends = |text: &str| [-1.0, 1.0].map(|side| number(text) + side * half_digit(text));
        let [base, new] = self.values;
        let corners = ends(base).map(|base| ends(new).map(|new| (self.difference())(new, base)));
        let corners = corners.as_flattened();
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [least, most] = ends(self.percent);
        low <= most && least <= high
    }

    fn text(&self) -> String {
        let [base, new] = self.values;
        let percent = if self.is_exception() { "6.06" } else { self.percent };
        let Self { statistic, operation, .. } = self;
        normal(&format!("{statistic} {operation} {base} (0.00%) {new} ({percent}%)"))
    }
}

/// Returns the line with single blanks, and no blank after a parenthesis.
fn normal(line: &str) -> String {
    line.split_whitespace().collect::<Vec<&str>>().join(" ").replace("( ", "(")
}

#[test]
fn percentages_follow_from_their_inputs_but_for_one() {
    let rows = rows();
    assert_eq!(rows.iter().filter(|row| row.document <= "001").count(), 115);
    for row in &rows {
        assert_eq!(row.follows(), !row.is_exception(), "{}", row.text());
    }
    assert_eq!(rows.iter().filter(|row| row.is_exception()).count(), 1);
}

/// Finds values that print as `base` and as each of `others`, and give the printed percentages.
fn witnesses(base: &str, others: &[(&str, &str)], difference: fn(f64, f64) -> f64) -> Vec<f64> {
    let near = |text: &str| -> Vec<f64> {
        let (value, half, count) = (number(text), half_digit(text), 80);
        let step = |index: i32| value + half * 0.999 * f64::from(index) / f64::from(count);
        (-count..=count).map(step).collect()
    };
    let found = near(base).into_iter().find_map(|from| {
        let of = |(text, percent): &(&str, &str)| {
            let fits = |new: &f64| format!("{:.2}", difference(*new, from)) == *percent;
            near(text).into_iter().find(fits)
        };
        let others: Option<Vec<f64>> = others.iter().map(of).collect();
        Some([vec![from], others?].concat())
    });
    found.unwrap_or_else(|| panic!("no values that print as {base} and {others:?}"))
}

/// Three samples with this deviation and this harmonic or arithmetic mean.
fn samples(mean: f64, deviation: f64, is_harmonic: bool) -> Vec<f64> {
    let around = |centre: f64| vec![centre - deviation, centre, centre + deviation];
    if !is_harmonic {
        return around(mean);
    }
    // The harmonic mean grows with the centre, and lies below it.
    let (mut low, mut high) = (mean, mean + 2.0 * deviation);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let is_low = Sorted::new(around(middle)).unwrap().hmean() < mean;
        if is_low { low = middle } else { high = middle }
    }
    around(high)
}

/// A run whose samples, when printed, give a table of document 000.
fn run_behind(table: &[PublishedRow]) -> Run {
    let is_rate = table.iter().any(PublishedRow::is_rate);
    let decimals = table[0].values[0].split_once('.').unwrap().1.len() as u8;
    let direction = if is_rate { Direction::Higher } else { Direction::Lower };
    let metric = Metric::new("value", "unit", direction, "value").digits(decimals).primary();
    let witness = |row: &PublishedRow| {
        let percent = if row.is_exception() { "6.06" } else { row.percent };
        witnesses(row.values[0], &[(row.values[1], percent)], row.difference())
    };
    let mut cells: Cells = Vec::new();
    for mean in table.iter().filter(|row| row.statistic.ends_with("mean")) {
        let means = witness(mean);
        let is_spread =
            |row: &&PublishedRow| row.statistic == "Stddev" && row.operation == mean.operation;
        let deviations = table.iter().find(is_spread).map_or(vec![0.0; 2], witness);
        for (index, kernel) in mean.kernels.iter().enumerate() {
            let samples = samples(means[index], deviations[index], is_rate);
            cells.push((mean.operation.to_owned(), 1, (*kernel).to_owned(), samples));
        }
    }
    run_of("golden", metric, &cells)
}

fn printed(run: Run) -> String {
    let runs = [("golden".to_owned(), run)];
    mmtests::table(&Selection::new(&runs, None).unwrap()).to_string()
}

#[test]
fn rows_of_document_000_are_printed() {
    let rows: Vec<PublishedRow> = rows().into_iter().filter(|row| row.document == "000").collect();
    let mut checked = 0;
    for table in rows.chunk_by(|one, other| one.table == other.table) {
        let text = printed(run_behind(table));
        let lines: Vec<String> = text.lines().map(normal).collect();
        for row in table {
            assert!(lines.contains(&row.text()), "{} in\n{text}", row.text());
            checked += 1;
        }
    }
    assert_eq!(checked, 80);
}

fn tables_of_document_001() -> [&'static str; 3] {
    let tables: Vec<&str> = DOCUMENT_001.trim_end().split("\n\n").collect();
    tables.try_into().expect("three tables")
}

#[test]
fn the_table_of_sparsetruncate_is_printed_to_the_character() {
    let mut cells: Cells = Vec::new();
    for fields in records(SPARSETRUNCATE) {
        let kernel = format!("4.14.0-rc4-{}", fields[0]);
        if cells.last().is_none_or(|(.., last, _)| *last != kernel) {
            cells.push(("Time".to_owned(), 1, kernel, Vec::new()));
        }
        let samples = &mut cells.last_mut().unwrap().3;
        samples.extend(vec![number(fields[1]); fields[2].parse().unwrap()]);
    }
    assert!(cells.iter().all(|(.., samples)| samples.len() == 256), "16 files in 16 folders");
    let metric = Metric::new("Time", "us", Direction::Lower, "value").primary();
    let expected = tables_of_document_001()[1];
    assert_eq!(printed(run_of("sparsetruncate", metric, &cells)), expected);
}

#[test]
fn the_tables_of_bonnie_are_printed_to_the_character() {
    let rows: Vec<PublishedRow> = rows()
        .into_iter()
        .filter(|row| row.document == "001" && row.benchmark == "bonnie")
        .collect();
    for (version, expected) in
        [("4.14.0-rc5", tables_of_document_001()[0]), ("4.14.0-rc4", tables_of_document_001()[2])]
    {
        let has_row = |row: &&PublishedRow| {
            let baseline = if version == "4.14.0-rc5" { "jan-v2" } else { "janbatch-v1r1" };
            row.kernels[0] == baseline
        };
        let table: Vec<PublishedRow> = rows.iter().filter(has_row).cloned().collect();
        let mut cells: Cells = Vec::new();
        for of_operation in table.chunk_by(|one, other| one.operation == other.operation) {
            let others: Vec<(&str, &str)> =
                of_operation.iter().map(|row| (row.values[1], row.percent)).collect();
            let means = witnesses(of_operation[0].values[0], &others, pdiff);
            let kernels = std::iter::once(of_operation[0].kernels[0])
                .chain(of_operation.iter().map(|row| row.kernels[1]));
            for (kernel, mean) in kernels.zip(means) {
                let kernel = format!("{version}-{kernel}");
                // Five equal iterations: the document prints only their mean.
                cells.push((of_operation[0].operation.to_owned(), 1, kernel, vec![mean; 5]));
            }
        }
        let metric = Metric::new("rate", "ops/s", Direction::Higher, "value").primary();
        let text = printed(run_of("bonnie", metric, &cells));
        let is_shown = |(index, line): &(usize, &str)| *index < 2 || line.starts_with("Hmean");
        let shown: Vec<&str> =
            text.lines().enumerate().filter(is_shown).map(|(_, line)| line).collect();
        assert_eq!(shown.join("\n"), expected);
    }
}

#[test]
fn the_table_of_document_002_is_printed() {
    let mut cells: Cells = Vec::new();
    let mut expected = vec!["threads SLUB SLAB diff".to_owned()];
    for fields in records(TCP_RR) {
        let [threads, slub, slab, diff] = fields[..] else { panic!("{fields:?}") };
        for (variant, rate) in [("SLUB", slub), ("SLAB", slab)] {
            let tasks = threads.parse().unwrap();
            cells.push(("TCP_RR".to_owned(), tasks, variant.to_owned(), vec![number(rate)]));
        }
        let percent = (number(slab) - number(slub)) / number(slub) * 100.0;
        assert!((percent - number(diff)).abs() <= half_digit(diff), "{threads} threads");
        let (sign, digits) = diff.split_at(1);
        expected.push(normal(&format!("{threads} {slub} {slab} {sign}{digits:>4}%")));
    }
    assert_eq!(expected.len(), 11);
    let metric = Metric::new("rate", "transactions/s", Direction::Higher, "value").digits(0);
    let runs = [("golden".to_owned(), run_of("tcp-rr", metric.primary(), &cells))];
    let text = tcp_rr::table(&Selection::new(&runs, None).unwrap());
    let lines: Vec<String> = text.lines().skip(1).map(normal).collect();
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn the_blocks_of_document_004_are_printed() {
    let names = ["4.15-rc2", "large-zone-batch", "lru-lock-base", "lru-lock-splice"];
    let mut cells: Cells = Vec::new();
    let mut expected = Vec::new();
    let grouped = |digits: &str| {
        let of_three: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|it| std::str::from_utf8(it).unwrap()).collect();
        of_three.join(",")
    };
    for fields in records(PAGE_FAULT) {
        let [kernel, tasks, process, thread, rates @ ..] = &fields[..] else {
            panic!("{fields:?}")
        };
        let name = names[kernel.parse::<usize>().unwrap() - 1];
        for (workload, of) in ["proc", "thr"].iter().zip(rates.chunks(2)) {
            let samples = samples(number(of[0]), number(of[1]), false);
            cells.push(((*workload).to_owned(), tasks.parse().unwrap(), name.to_owned(), samples));
        }
        let speedups = match *kernel {
            "1" => String::new(),
            _ => format!("{process}% {thread}%"),
        };
        let rates: Vec<String> = rates.iter().map(|rate| grouped(rate)).collect();
        expected.push(normal(&format!("{kernel} {tasks} {speedups} {}", rates.join(" "))));
    }
    assert_eq!(expected.len(), 20);
    let metric = Metric::new("faults", "pgf/s", Direction::Higher, "value").digits(0).primary();
    let runs = [("golden".to_owned(), run_of("page_fault1", metric, &cells))];
    let text = will_it_scale::table(&Selection::new(&runs, None).unwrap());
    let is_row = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let rows: Vec<String> = text.lines().skip(6).filter(is_row).map(normal).collect();
    assert_eq!(rows, expected, "{text}");
    assert!(text.contains("large-zone-batch       2"), "{text}");
}

/// A figure outside of tables, as it is printed.
fn figure_text(name: &str) -> &'static str {
    let record = FIGURES.into_iter().flat_map(records).find(|fields| fields[1] == name);
    record.unwrap_or_else(|| panic!("{name} is recorded"))[2]
}

fn figure(name: &str) -> f64 {
    number(figure_text(name))
}

#[test]
fn figures_of_document_005_follow_from_each_other() {
    let [before, after] = ["before", "after"].map(|when| {
        let us = figure(&format!("cma us per iteration {when}"));
        let percent = figure(&format!("cma percent of time in free_contig_frozen_range {when}"));
        (us, us * percent / 100.0)
    });
    let times = before.0 / after.0;
    assert!((times - figure("cma improvement")).abs() <= 0.05, "{times}");
    // Of an iteration, the free of 16,384 pages: 61 ns a page before, 6 ns after.
    assert_eq!([before, after].map(|(_, free)| (free * 1000.0 / 16384.0).round()), [61.0, 6.0]);
    let row = |row: &str, kernel: &str| {
        let line = published::by_row("005").find(|line| line[..2] == [row, kernel]);
        line.unwrap_or_else(|| panic!("{row} under {kernel}"))[2]
    };
    for (kernel, when) in [("mm-new", "before"), ("series", "after")] {
        let figure = figure_text(&format!("cma us per iteration {when}"));
        assert_eq!(row("cma-16384", kernel), figure, "one figure, two files");
    }
    assert_eq!(row("order-9-512", "mm-new"), figure_text("order-9 us before"));
}

#[test]
fn figures_of_document_009_follow_from_each_other() {
    for kernel in ["unpatched", "patched"] {
        let dead = figure(&format!("{kernel} dead folios per minute"));
        let percent = dead / figure(&format!("{kernel} folios per minute")) * 100.0;
        let printed = figure_text(&format!("{kernel} dead percent"));
        assert!((percent - number(printed)).abs() <= half_digit(printed), "{percent}");
    }
    // The message counts two acquisitions for each dead folio.
    let [unpatched, patched] =
        ["unpatched", "patched"].map(|it| figure(&format!("{it} dead folios per minute")));
    let saved = 2.0 * (unpatched - patched) / 1e6;
    let printed = figure_text("saved acquisitions in millions per minute");
    assert!((saved - number(printed)).abs() <= half_digit(printed), "{saved}");
}

#[test]
fn figures_outside_tables_follow_from_each_other() {
    let grown = figure("struct_page_bytes_after") - figure("struct_page_bytes_before");
    let percent = grown / 4096.0 * 100.0;
    assert!((percent - figure("cost_percent")).abs() <= 0.05, "{percent}");
    let pages = figure("machine_gib") * (1u64 << 30) as f64 / 4096.0;
    assert_eq!(pages * grown / f64::from(1 << 20), figure("cost_mib"));
}

/// A function's share of document 006's profile has in it those of the functions that it calls.
#[test]
fn shares_of_document_006_lie_in_each_other() {
    let calls =
        ["bio_alloc_bioset", "kmem_cache_alloc_noprof", "___slab_alloc", "get_from_any_partial"];
    let shares = calls.map(|name| figure(&format!("profile {name}")));
    assert!(shares.is_sorted_by(|outer, inner| outer > inner), "{shares:?}");
    let miops = ["first report Miops v6.19", "first report Miops 815c8e35511d"].map(figure);
    assert_eq!(format!("{:.0}", pdiff(miops[1], miops[0])), "-64");
    assert_eq!(figure("queues") + figure("jobs"), figure("CPUs"));
    assert!(figure("nodes with memory") < figure("nodes online"));
}

/// Document 008: the interrupted CPU's time is all there, and 43 % of it went to spinning.
#[test]
fn the_time_of_document_008_is_whole() {
    for when in ["before", "after"] {
        let [soft, idle] = ["soft", "idle"].map(|it| figure(&format!("{when} {it}")));
        assert!((soft + idle - 100.0).abs() < 0.005, "{when}: {soft} and {idle}");
    }
    let spins = ["ksoftirqd", "swapper"]
        .map(|task| figure(&format!("before queued_spin_lock_slowpath of {task}")));
    assert_eq!(format!("{:.0}", spins.iter().sum::<f64>()), "43");
    assert_eq!(pdiff(figure("Mpps after"), figure("Mpps before")), 50.0);
    assert_eq!(figure("skb_defer_max after"), 2.0 * figure("skb_defer_max before"));
}

#[test]
fn the_profile_of_document_003_has_one_total() {
    let lines: Vec<(&str, f64, &str)> = FIGURES
        .into_iter()
        .flat_map(records)
        .filter_map(|fields| {
            let (count, percent) = fields[2].split_once(' ')?;
            Some((fields[1].strip_prefix("oprofile ")?, number(count), percent))
        })
        .collect();
    assert_eq!(lines.len(), 6);
    // Each line allows an interval of totals; one total lies in all intervals.
    let bound = |(_, count, percent): &(&str, f64, &str), side: f64| {
        count * 100.0 / (number(percent) + side * half_digit(percent))
    };
    let least = lines.iter().map(|line| bound(line, 1.0)).fold(0.0, f64::max);
    let most = lines.iter().map(|line| bound(line, -1.0)).fold(f64::INFINITY, f64::min);
    assert!((least..=most).contains(&1_088_657.0), "{least}..{most}");
    let of = |name: &str| lines.iter().find(|line| line.0 == name).unwrap().1;
    let zone = (of("__free_pages_ok") + of("get_page_from_freelist")) / 1_088_657.0 * 100.0;
    assert_eq!(format!("{zone:.1}"), "23.9", "what the zone may cost of a packet");
}

#[test]
fn caches_of_document_003_hold_more_than_is_in_use() {
    let mut parked = Vec::new();
    for fields in
        FIGURES.into_iter().flat_map(records).filter(|fields| fields[1].starts_with("slabinfo "))
    {
        let numbers: Vec<f64> = fields[2].split(' ').map(number).collect();
        let [objects, alloc, free, fast_alloc, fast_free] = numbers[..] else {
            panic!("{fields:?}")
        };
        parked.push(objects - (alloc - free));
        assert!(fast_alloc <= 100.0 && fast_free <= 100.0);
    }
    assert_eq!(parked, [168.0, 157.0, 43.0], "free objects on lists of CPUs count as in use");
}
