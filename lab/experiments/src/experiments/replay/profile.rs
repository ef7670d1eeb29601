//! The parts of a packet's time, compared with document 003's profile. Each part is the count of a
//! call times its measured cost; no program counter is sampled. A second table has the caches after
//! the run, in the form of that document's `slabinfo -AD`.

use super::spec::ROOM;
use crate::styles::published::records;
use anyhow::Result;
use quarry_harness::results::{Cell, Measurement, Run, Variant, Workload};
use quarry_harness::table::{self, Table, counted};
use quarry_live::{Cache, activity};
use quarry_replay::costs::Costs;
use quarry_replay::memory::CacheCounts;
use std::collections::BTreeMap;
use std::io::Write;

const DOCUMENT: &str = include_str!("../../../../documents/003/profile.csv");

/// Functions of the document's profile, by their names in kernels of that time; for each, the
/// counter of its calls and the figure that is the cost of one call. Their product stands for the
/// function's time. Time outside these functions is printed as `the rest`.
const FUNCTIONS: [(&str, &str, &str); 9] = [
    ("copy_user_generic_string", "copied_bytes", "cost copied_byte"),
    ("__free_pages_ok", "zone_frees", "cost zone_free"),
    ("get_page_from_freelist", "zone_allocs", "cost zone_alloc"),
    ("waiting for the zone's lock", "zone_wait_ns", "cost waiting"),
    ("lists of pages per CPU", "listed", "cost listed"),
    ("kmem_cache_alloc, fast", "fast_allocs", "cost fast_alloc"),
    ("kmem_cache_free, fast", "fast_frees", "cost fast_free"),
    ("__slab_alloc", "slow_allocs", "cost slow_alloc"),
    ("__slab_free", "slow_frees", "cost slow_free"),
];

/// A figure of a sample by the name of its counter.
type Count<'a> = &'a dyn Fn(&str) -> f64;

/// Chains of calls that free the parts of a packet, each with its number of calls. The document
/// holds the first one responsible for the calls of `__free_pages_ok`.
const CHAINS: [(&str, fn(Count<'_>) -> f64); 4] = [
    ("kmem_cache_free or kfree of an object", |of| of("fast_frees") + of("slow_frees")),
    ("... > __slab_free: not the fast path", |of| of("slow_frees")),
    ("... > __free_pages_ok: an empty slab, at most", |of| of("slabs").min(of("zone_frees"))),
    ("kfree > __free_pages_ok: passed through", |of| (of("zone_frees") - of("slabs")).max(0.0)),
];

/// Records the costs of calls, and how many bytes were copied for packets of `payload` bytes.
pub(super) fn record_costs(costs: &Costs, payload: u64, measurement: &mut Measurement) {
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

/// Shares of the CPU time of all samples, in the order of [`FUNCTIONS`]; `None` if costs were not
/// measured.
fn shares<'a>(samples: impl Iterator<Item = &'a Measurement>) -> Option<Vec<f64>> {
    let (mut sums, mut all) = (vec![0.0; FUNCTIONS.len()], 0.0);
    for measurement in samples {
        all += measurement.cpu_ns as f64;
        for (sum, (_, count, cost)) in sums.iter_mut().zip(FUNCTIONS) {
            *sum += measurement.figure(cost)? * measurement.figure(count).unwrap_or(0.0);
        }
    }
    (all > 0.0).then(|| sums.into_iter().map(|sum| 100.0 * sum / all).collect())
}

/// The calls per packet of each chain.
fn calls<'a>(samples: impl Iterator<Item = &'a Measurement>) -> Vec<f64> {
    let samples: Vec<&Measurement> = samples.collect();
    let sum = |name: &str| samples.iter().filter_map(|it| it.figure(name)).sum::<f64>();
    let packets = sum("operations").max(1.0);
    CHAINS.iter().map(|(_, calls)| calls(&sum) / packets).collect()
}

fn documented(name: &str) -> Option<f64> {
    let line = fields("oprofile").find(|line| line[1] == name)?;
    line[3].parse().ok()
}

fn fields(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    records(DOCUMENT).filter(move |fields| fields[0] == kind)
}

/// The measurements of a variant in the counted rounds.
pub(super) fn measured<'a>(
    run: &'a Run,
    workload: &'a str,
    tasks: u32,
    variant: &'a Variant,
) -> impl Iterator<Item = &'a Measurement> {
    let cell = Cell { workload, tasks, variant: &variant.name };
    run.samples_of(cell).filter_map(|sample| sample.measurement.as_ref())
}

pub(super) fn print(run: &Run, out: &mut dyn Write) -> Result<()> {
    let variants: Vec<&Variant> =
        run.meta.variants.iter().filter(|it| it.copy_of.is_none()).collect();
    let mut header = vec!["share of CPU time, %".to_owned(), "document 003, SLUB".to_owned()];
    header.extend(variants.iter().map(|variant| variant.name.clone()));
    for Workload { name, .. } in &run.meta.workloads {
        for &tasks in &run.meta.tasks {
            let of = |variant: &&Variant| shares(measured(run, name, tasks, variant));
            let columns: Vec<_> = variants.iter().map(of).collect();
            let label = counted(tasks, "task");
            writeln!(out, "Profile of {name}, {label}: counts, times what a call takes:\n")?;
            let table = Table::of(header.clone(), lines(&columns));
            writeln!(out, "{}\n", table.text_of(ROOM))?;
            let table = chains(run, name, tasks, &variants);
            writeln!(out, "{}\n", table.text_of(ROOM))?;
        }
    }
    Ok(())
}

/// The table of the calls per packet of each chain.
fn chains(run: &Run, row: &str, tasks: u32, variants: &[&Variant]) -> Table {
    let of = |variant: &&Variant| calls(measured(run, row, tasks, variant));
    let columns: Vec<_> = variants.iter().map(of).collect();
    let line = |at: usize| {
        let calls = columns.iter().map(|column| table::figure(column[at]));
        [format!("__kfree_skb > {}", CHAINS[at].0)].into_iter().chain(calls).collect::<Vec<_>>()
    };
    let names = variants.iter().map(|variant| variant.name.as_str());
    Table::of(["calls per packet"].into_iter().chain(names), (0..CHAINS.len()).map(line))
}

fn lines(columns: &[Option<Vec<f64>>]) -> Vec<Vec<String>> {
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    let mut lines = Vec::new();
    for (index, (name, ..)) in FUNCTIONS.into_iter().enumerate() {
        let mut line = vec![name.to_owned(), share(documented(name))];
        line.extend(columns.iter().map(|column| share(column.as_ref().map(|it| it[index]))));
        lines.push(line);
    }
    // The functions of the page allocator are the second and the third.
    let both = FUNCTIONS[1..3].iter().map(|(name, ..)| documented(name));
    let mut both = vec!["the page allocator: both".to_owned(), share(both.sum())];
    let of_both = |column: &Option<Vec<f64>>| share(column.as_ref().map(|it| it[1] + it[2]));
    both.extend(columns.iter().map(of_both));
    lines.insert(3, both);
    let named = |name: &str| FUNCTIONS.iter().any(|(known, ..)| *known == name);
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

const PREFIX: &str = "cache ";

pub(super) fn record_caches(caches: &[CacheCounts], measurement: &mut Measurement) {
    for CacheCounts { name, objects, allocs, frees, fast_allocs, fast_frees } in caches {
        let counts = [
            ("objects", objects),
            ("allocs", allocs),
            ("frees", frees),
            ("fast_allocs", fast_allocs),
            ("fast_frees", fast_frees),
        ];
        let named = counts.map(|(what, count)| (format!("{PREFIX}{name} {what}"), *count));
        measurement.counters.extend(named);
    }
}

fn summed<'a>(samples: impl Iterator<Item = &'a Measurement>) -> Vec<CacheCounts> {
    let mut caches: BTreeMap<&str, CacheCounts> = BTreeMap::new();
    for (name, count) in samples.flat_map(|it| &it.counters) {
        let Some((name, what)) = name.strip_prefix(PREFIX).and_then(|it| it.rsplit_once(' '))
        else {
            continue;
        };
        let cache = caches.entry(name).or_default();
        name.clone_into(&mut cache.name);
        match what {
            "objects" => cache.objects += count,
            "allocs" => cache.allocs += count,
            "frees" => cache.frees += count,
            "fast_allocs" => cache.fast_allocs += count,
            _ => cache.fast_frees += count,
        }
    }
    let mut caches: Vec<CacheCounts> = caches.into_values().collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.allocs));
    caches
}

/// One table for each row, number of tasks and variant of a run, with the sums of all its measured
/// samples; empty if caches were not counted.
pub(super) fn slabinfo(run: &Run) -> String {
    let mut text = String::new();
    for Workload { name, .. } in &run.meta.workloads {
        for &tasks in &run.meta.tasks {
            for variant in run.meta.variants.iter().filter(|it| it.copy_of.is_none()) {
                let caches = summed(measured(run, name, tasks, variant));
                if !caches.is_empty() {
                    let tasks = counted(tasks, "task");
                    let title = format!("{name}, {tasks}, {}", variant.name);
                    text.push_str(&table(&title, &caches));
                }
            }
        }
    }
    text
}

fn table<'a>(title: &str, caches: &'a [CacheCounts]) -> String {
    // A merged cache is printed by the name that SLUB gives it.
    let short = |name: &'a str| name.split(" = ").next().unwrap_or(name);
    let lines = caches.iter().map(|cache| Cache {
        name: short(&cache.name).into(),
        live: cache.objects,
        allocs: cache.allocs,
        frees: cache.frees,
        fast_allocs: cache.fast_allocs,
        fast_frees: cache.fast_frees,
        ..Cache::default()
    });
    let names = caches.iter().filter(|cache| cache.name.contains(" = "));
    let names: String = names.map(|cache| format!("    {}\n", cache.name)).collect();
    format!("{title}:\n\n{}{names}\n", activity::table("    ", &lines.collect::<Vec<_>>()))
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
        record_costs(&costs, 500, &mut measurement);
        let shares = shares([&measurement, &measurement].into_iter()).unwrap();
        assert_eq!(shares, [10.0, 4.0, 5.0, 1.0, 0.0, 0.2, 0.0, 0.0, 0.3]);
        let lines = lines(&[Some(shares), None]);
        assert_eq!(lines[1], ["__free_pages_ok", "12.37", "4.00", "-"]);
        assert_eq!(lines[3], ["the page allocator: both", "23.89", "9.00", "-"]);
        assert_eq!(lines.last().unwrap(), &["the rest", "39.98", "79.50", "-"]);
        // Ten packets: ten heads, one of them not by the fast path, and ten blocks, one a slab.
        measurement.counters.extend([("fast_frees", 9), ("slabs", 1)].map(named));
        assert_eq!(calls([&measurement].into_iter()), [1.0, 0.1, 0.1, 0.9]);
    }

    fn named((name, count): (&str, u64)) -> (String, u64) {
        (name.to_owned(), count)
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

    #[test]
    fn a_line_is_the_kernels() {
        let counts = CacheCounts {
            name: ":0000256".to_owned(),
            objects: 1685,
            allocs: 29_611_065,
            frees: 29_609_548,
            fast_allocs: 29_600_000,
            fast_frees: 29_500_000,
        };
        let text = table("stream", std::slice::from_ref(&counts));
        let name = "Name                   Objects    Alloc     Free   %Fast";
        let heads = ":0000256                  1685 29611065 29609548  99  99";
        assert_eq!(text, format!("stream:\n\n    {name}\n    {heads}\n\n"));
        let mut measurement = Measurement::default();
        record_caches(std::slice::from_ref(&counts), &mut measurement);
        let summed = summed([&measurement, &measurement].into_iter());
        assert_eq!(summed.len(), 1);
        assert_eq!((summed[0].objects, summed[0].fast_frees), (3370, 59_000_000));
    }
}
