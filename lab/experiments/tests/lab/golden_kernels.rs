//! Kernels of the documents' own time have counted their tracepoints (`lab/documents/kernels.csv`).
//! The pages have these counts beside those of policies: both are checked here, and so is each mark
//! where the two differ.

use crate::runs::{results, samples};
use crate::support::lab;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const KERNELS: [&str; 6] = ["2.6.29", "2.6.32", "3.0", "3.1", "4.9", "4.15"];
const POLICIES: [&str; 4] = ["slub-2.6.29", "slub-3.0", "slub-3.1", "slub-4.9+order0"];

/// The first cell of the head of each table that is checked.
const HEAD: &str = "counted by kernels";

/// A count: its name on the pages, the kernels' events, and the name in a stack's sample. A stack
/// has no instructions.
const COUNTS: [(&str, &[&str], &str); 5] = [
    ("blocks handed out", &["mm_page_alloc"], "page blocks handed out"),
    ("blocks from the zone", &["mm_page_alloc_zone_locked"], "blocks from the zone, locked"),
    ("blocks drained", &["mm_page_pcpu_drain"], "blocks drained to the zone"),
    ("objects allocated", &["kmalloc", "kmem_cache_alloc"], "objects allocated"),
    ("instructions", &["instructions"], ""),
];

/// Rows of `kernel` that have other names in the kernels' counts.
const NAMES: [(&str, &str); 4] = [
    ("tcp-4096", "tcp-stream-4096"),
    ("tcp-4096-pages", "tcp-stream-4096"),
    ("delete-sparse", "delete-sparse-ext4"),
    ("delete-full", "delete-full-tmpfs"),
];

/// The rows in which kernel and policy differ by more than a tenth; kernels.md says why. The counts
/// of hackbench are those of the scheduler, so they are not the same in two runs.
const EXPLAINED: [&str; 4] = ["udp-4096", "create-empty", "hackbench-pipes", "hackbench-sockets"];

/// Counts further apart than this part of the larger one differ, unless both are small.
const APART: f64 = 0.1;
const FEW: f64 = 0.01;

fn differ(one: f64, other: f64) -> bool {
    let larger = one.max(other);
    larger >= FEW && (one - other).abs() > APART * larger
}

fn lab_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The counts of all kernels: kernel, configuration, workload, event with its details, count.
fn golden() -> Vec<[String; 5]> {
    let text = fs::read_to_string(lab_file("documents/kernels.csv")).unwrap();
    // Only notes, in the last column, have commas.
    let of = |line: &str| line.splitn(6, ',').take(5).map(str::to_owned).collect::<Vec<_>>();
    text.lines().skip(1).map(|line| of(line).try_into().expect("five columns")).collect()
}

/// The kernel's count per operation; none if the kernel has no such event.
fn counted(golden: &[[String; 5]], kernel: &str, row: &str, count: &str) -> Option<f64> {
    let workload = NAMES.iter().find(|(name, _)| *name == row).map_or(row, |(_, other)| other);
    let (_, events, _) = COUNTS.iter().find(|(name, ..)| *name == count).expect("a count");
    let setting = if count == "instructions" { "slub smp=1" } else { "slub smp=2" };
    let is_ours = |of: &&[String; 5]| {
        let release = of[0].strip_suffix(".0").unwrap_or(&of[0]);
        release == kernel && of[1] == setting && of[2] == workload
    };
    let ours: Vec<_> = golden.iter().filter(is_ours).collect();
    // 2.6.29 has no tracepoints of pages; /proc/vmstat counts pages, not blocks.
    let (events, pages): (&[&str], f64) = match (kernel, count, row) {
        ("2.6.29", "blocks handed out", "udp-4096") => (&["vmstat pgalloc_dma32"], 2.0),
        ("2.6.29", "blocks handed out", "udp-8192") => (&["vmstat pgalloc_dma32"], 4.0),
        ("2.6.29", "blocks handed out", _) => (&["vmstat pgalloc_dma32"], 1.0),
        ("2.6.29", ..) => return None,
        _ => (events, 1.0),
    };
    let is_event = |metric: &str| {
        events.iter().any(|event| metric.strip_prefix(event).is_some_and(|it| !it.starts_with('_')))
    };
    let counts = ours.iter().filter(|of| is_event(&of[3])).map(|of| of[4].parse::<f64>().unwrap());
    // The sum of nothing is -0.0.
    (!ours.is_empty()).then(|| counts.fold(0.0, |sum, it| sum + it) / pages)
}

/// As a page has it.
fn written(count: Option<f64>) -> String {
    match count {
        None => "-".to_owned(),
        Some(count) if count >= 1000.0 => {
            let whole = format!("{count:.0}");
            let (thousands, rest) = whole.split_at(whole.len() - 3);
            format!("{thousands},{rest}")
        }
        Some(count) if count >= 1.0 => format!("{count:.2}"),
        Some(count) => format!("{count:.3}"),
    }
}

/// A line of a page's table: page, row, count, and its cells by the head of their columns.
struct Line {
    page: String,
    row: String,
    count: String,
    cells: Vec<(String, String)>,
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
}

fn lines_of_pages() -> Vec<Line> {
    let mut found = Vec::new();
    for page in ["000", "001", "002", "003", "004", "kernels"] {
        let text = fs::read_to_string(lab_file(&format!("results/{page}.md"))).unwrap();
        let mut rows = text.lines().skip_while(|line| !line.starts_with(&format!("| {HEAD} |")));
        let head: Vec<&str> = cells(rows.next().unwrap_or_else(|| panic!("{page} has no {HEAD}")));
        for row in rows.skip(1).take_while(|line| line.starts_with('|')) {
            let of_row = cells(row);
            assert_eq!(of_row.len(), head.len(), "{page}: {row}");
            let (row, count) = of_row[0].split_once("`: ").expect("`ROW`: COUNT");
            let named = head.iter().zip(&of_row).skip(1);
            let cells = named.map(|(head, cell)| ((*head).to_owned(), (*cell).to_owned()));
            let (page, row, count) = (page.to_owned(), row.to_owned(), count.to_owned());
            found.push(Line { page, row, count, cells: cells.collect() });
        }
    }
    found
}

#[test]
fn pages_have_the_kernels_counts_and_mark_where_policies_differ() {
    let (golden, mut checked) = (golden(), 0);
    for Line { page, row, count, cells } in lines_of_pages() {
        let mut kernel = None;
        for (head, cell) in cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            let place = format!("{page}, {row}: {count}, {head}");
            if KERNELS.contains(&head.as_str()) {
                kernel = counted(&golden, head, &row, &count);
                assert_eq!(*cell, written(kernel), "{place}");
                checked += 1;
            } else {
                assert!(POLICIES.contains(&head.as_str()), "{place}");
                let figure = cell.trim_end_matches(" !");
                let (Some(kernel), Ok(policy)) = (kernel, figure.replace(',', "").parse()) else {
                    continue;
                };
                let is_apart = differ(kernel, policy);
                assert_eq!(cell.ends_with(" !"), is_apart, "{place}: {cell} beside {kernel}");
                assert!(!is_apart || EXPLAINED.contains(&row.as_str()), "{place}: {cell}");
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// The counts of stacks follow from path and policy, so each machine has those of the pages.
#[test]
fn policies_count_what_pages_say() {
    let (_folder, place) = results();
    let rows = "faults,list-free-512,udp-4,udp-8,tcp,create-empty,delete-sparse";
    lab()
        .args(["run", "kernel", "--quick", "--seed=1", "--baseline", POLICIES[0], "--only", rows])
        .arg(format!("--variants={}", POLICIES.join(",")))
        .arg("--out")
        .arg(&place)
        .assert()
        .success();
    let mut counts: BTreeMap<(String, String, &str), f64> = BTreeMap::new();
    for sample in samples(&place).iter().filter(|it| it["round"] != 0) {
        let text = |name: &str| sample[name].as_str().unwrap().to_owned();
        let measured = &sample["measurement"];
        for (name, _, counter) in COUNTS {
            if let Some(count) = measured["counters"].get(counter).and_then(Value::as_f64) {
                let each = count / measured["operations"].as_f64().unwrap();
                counts.insert((text("variant"), text("workload"), name), each);
            }
        }
    }
    let mut checked = 0;
    for Line { page, row, count, cells } in lines_of_pages() {
        for (head, cell) in cells {
            let Ok(said) = cell.trim_end_matches(" !").replace(',', "").parse() else { continue };
            let found = counts.iter().find(|((variant, workload, name), _)| {
                *variant == head && *workload == row && *name == count
            });
            if let Some((_, found)) = found {
                assert!(!differ(said, *found), "{page}, {row}: {count}, {head}: {cell} or {found}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}
