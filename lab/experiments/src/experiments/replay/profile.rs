//! The parts of a packet's time, compared with document 003's profile. Each part is the count of a
//! call times its measured cost; no program counter is sampled.

use anyhow::Result;
use quarry_harness::results::{Measurement, Run, Variant};
use quarry_harness::table::{self, counted};
use quarry_replay::costs::Costs;
use std::io::Write;

const DOCUMENT: &str = include_str!("../../../data/documents/003_profile.csv");

/// A function of the document's profile. Calls times cost per call stand for its time here.
struct Function {
    /// The function's name in kernels of that time.
    name: &'static str,
    /// Counters of a sample; their sum is the number of calls.
    counts: &'static [&'static str],
    /// The figure that is the cost of one call.
    cost: &'static str,
}

/// Time outside these functions is printed as `the rest`.
const FUNCTIONS: [Function; 9] = [
    Function {
        name: "copy_user_generic_string",
        counts: &["copied_bytes"],
        cost: "cost copied_byte",
    },
    Function { name: "__free_pages_ok", counts: &["zone_frees"], cost: "cost zone_free" },
    Function { name: "get_page_from_freelist", counts: &["zone_allocs"], cost: "cost zone_alloc" },
    Function {
        name: "waiting for the zone's lock",
        counts: &["zone_wait_ns"],
        cost: "cost waiting",
    },
    Function { name: "lists of pages per CPU", counts: &["listed"], cost: "cost listed" },
    Function { name: "kmem_cache_alloc, fast", counts: &["fast_allocs"], cost: "cost fast_alloc" },
    Function { name: "kmem_cache_free, fast", counts: &["fast_frees"], cost: "cost fast_free" },
    Function { name: "__slab_alloc", counts: &["slow_allocs"], cost: "cost slow_alloc" },
    Function { name: "__slab_free", counts: &["slow_frees"], cost: "cost slow_free" },
];

/// Records the costs of calls, and how many bytes were copied for packets of `payload` bytes.
pub(super) fn record(costs: &Costs, payload: u64, measurement: &mut Measurement) {
    let Costs { zone_alloc, zone_free, listed, copied_byte, .. } = *costs;
    let Costs { fast_alloc, fast_free, slow_alloc, slow_free, .. } = *costs;
    let figures = [
        ("cost zone_alloc", zone_alloc),
        ("cost zone_free", zone_free),
        ("cost waiting", 1.0),
        ("cost listed", listed),
        ("cost fast_alloc", fast_alloc),
        ("cost fast_free", fast_free),
        ("cost slow_alloc", slow_alloc),
        ("cost slow_free", slow_free),
        ("cost copied_byte", copied_byte),
    ];
    measurement.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    // Each packet is copied in and out.
    let copied = 2 * payload * measurement.operations;
    measurement.counters.insert("copied_bytes".to_owned(), copied);
}

fn nanoseconds(function: &Function, measurement: &Measurement) -> Option<f64> {
    let cost = measurement.figure(function.cost)?;
    let counts = function.counts.iter().filter_map(|name| measurement.figure(name));
    Some(counts.sum::<f64>() * cost)
}

/// Shares of the CPU time of all samples, in the order of [`FUNCTIONS`]; `None` if costs were not
/// measured.
fn shares<'a>(samples: impl Iterator<Item = &'a Measurement>) -> Option<Vec<f64>> {
    let (mut sums, mut all) = (vec![0.0; FUNCTIONS.len()], 0.0);
    for measurement in samples {
        all += measurement.cpu_ns as f64;
        for (sum, function) in sums.iter_mut().zip(&FUNCTIONS) {
            *sum += nanoseconds(function, measurement)?;
        }
    }
    (all > 0.0).then(|| sums.into_iter().map(|sum| 100.0 * sum / all).collect())
}

fn documented(name: &str) -> Option<f64> {
    let line = fields("oprofile").find(|line| line[1] == name)?;
    line[3].parse().ok()
}

fn fields(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = DOCUMENT.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    lines.filter(move |fields| fields[0] == kind)
}

pub(super) fn print(run: &Run, out: &mut dyn Write) -> Result<()> {
    let variants: Vec<&Variant> =
        run.meta.variants.iter().filter(|it| it.copy_of.is_none()).collect();
    let mut header = vec!["share of CPU time, %".to_owned(), "document 003, SLUB".to_owned()];
    header.extend(variants.iter().map(|variant| variant.name.clone()));
    for workload in &run.meta.workloads {
        for &tasks in &run.meta.tasks {
            let of = |variant: &&Variant| {
                let samples = run.samples.iter().filter(|it| {
                    it.round > 0
                        && (&it.workload, it.tasks, &it.variant)
                            == (&workload.name, tasks, &variant.name)
                });
                shares(samples.filter_map(|sample| sample.measurement.as_ref()))
            };
            let columns: Vec<_> = variants.iter().map(of).collect();
            let name = &workload.name;
            let tasks = counted(tasks, "task");
            writeln!(out, "Profile of {name}, {tasks}: counts, times what a call takes:\n")?;
            writeln!(out, "{}\n", table::render(header.clone(), lines(&columns)))?;
        }
    }
    Ok(())
}

fn lines(columns: &[Option<Vec<f64>>]) -> Vec<Vec<String>> {
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    let mut lines = Vec::new();
    for (index, function) in FUNCTIONS.iter().enumerate() {
        let mut line = vec![function.name.to_owned(), share(documented(function.name))];
        line.extend(columns.iter().map(|column| share(column.as_ref().map(|it| it[index]))));
        lines.push(line);
    }
    let named = |name: &str| FUNCTIONS.iter().any(|function| function.name == name);
    for fields in fields("oprofile").filter(|fields| !named(fields[1])) {
        let mut line = vec![fields[1].to_owned(), share(documented(fields[1]))];
        line.extend(columns.iter().map(|_| "in the rest".to_owned()));
        lines.push(line);
    }
    let known: f64 = fields("oprofile").filter_map(|fields| fields[3].parse::<f64>().ok()).sum();
    let mut rest = vec!["the rest".to_owned(), share(Some(100.0 - known))];
    let left = |column: &Vec<f64>| 100.0 - column.iter().sum::<f64>();
    rest.extend(columns.iter().map(|column| share(column.as_ref().map(left))));
    lines.push(rest);
    lines
}

/// The document's `slabinfo -AD`.
pub(super) fn documented_slabinfo() -> String {
    let line = |fields: Vec<&str>| {
        format!(
            "    {:<21} {:>8} {:>8} {:>8} {:>3} {:>3}\n",
            fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]
        )
    };
    let head = "    Name                   Objects    Alloc     Free   %Fast\n";
    format!("document 003, SLUB:\n\n{head}{}", fields("slabinfo").map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counts_times_costs() {
        let mut measurement = Measurement::of_window(10, 1000, 1000, 10_000, "slub")
            .with(&[("zone_frees", 10), ("zone_allocs", 10), ("zone_wait_ns", 100), ("listed", 0)])
            .with(&[("fast_allocs", 10), ("fast_frees", 10)])
            .with(&[("slow_allocs", 0), ("slow_frees", 1)]);
        let costs = Costs {
            zone_alloc: 50.0,
            zone_free: 40.0,
            fast_alloc: 2.0,
            slow_free: 30.0,
            copied_byte: 0.1,
            ..Costs::default()
        };
        record(&costs, 500, &mut measurement);
        let shares = shares([&measurement, &measurement].into_iter()).unwrap();
        assert_eq!(shares, [10.0, 4.0, 5.0, 1.0, 0.0, 0.2, 0.0, 0.0, 0.3]);
        let lines = lines(&[Some(shares), None]);
        assert_eq!(lines[1], ["__free_pages_ok", "12.37", "4.00", "-"]);
        assert_eq!(lines.last().unwrap(), &["the rest", "39.98", "79.50", "-"]);
    }

    #[test]
    fn the_documents_caches_are_printed_as_it_has_them() {
        let text = documented_slabinfo();
        let heads = ":0000256                  1685 29611065 29609548  99  99\n";
        assert!(text.contains(heads), "{text}");
        assert!(
            text.contains(":0004096                  1471   114918   113490  99  97\n"),
            "{text}"
        );
    }
}
