//! The caches of a replay after its run, in the form of document 003's `slabinfo -AD`.

use quarry_harness::results::{Measurement, Run, Sample};
use quarry_harness::table::counted;
use quarry_live::{Cache, activity};
use quarry_replay::memory::CacheCounts;
use std::collections::BTreeMap;

const PREFIX: &str = "cache ";

pub(super) fn record(caches: &[CacheCounts], measurement: &mut Measurement) {
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

fn of_samples<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<CacheCounts> {
    let mut caches: BTreeMap<&str, CacheCounts> = BTreeMap::new();
    for (name, count) in
        samples.filter_map(|it| it.measurement.as_ref()).flat_map(|it| &it.counters)
    {
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
pub(super) fn text(run: &Run) -> String {
    let mut text = String::new();
    for workload in &run.meta.workloads {
        for tasks in &run.meta.tasks {
            for variant in run.meta.variants.iter().filter(|it| it.copy_of.is_none()) {
                let samples = run.samples.iter().filter(|it| {
                    it.round > 0
                        && (&it.workload, it.tasks, &it.variant)
                            == (&workload.name, *tasks, &variant.name)
                });
                let caches = of_samples(samples);
                if !caches.is_empty() {
                    let tasks = counted(tasks, "task");
                    let title = format!("{}, {tasks}, {}", workload.name, variant.name);
                    text.push_str(&table(&title, &caches));
                }
            }
        }
    }
    text
}

fn table(title: &str, caches: &[CacheCounts]) -> String {
    let lines = caches.iter().map(|cache| Cache {
        name: cache.name.as_str().into(),
        live: cache.objects,
        allocs: cache.allocs,
        frees: cache.frees,
        fast_allocs: cache.fast_allocs,
        fast_frees: cache.fast_frees,
        ..Cache::default()
    });
    format!("{title}:\n\n{}\n", activity::table("    ", &lines.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        record(std::slice::from_ref(&counts), &mut measurement);
        let sample = |measurement: &Measurement| Sample {
            round: 1,
            workload: "stream".to_owned(),
            tasks: 1,
            variant: "slub".to_owned(),
            at_ms: 0,
            measurement: Some(measurement.clone()),
            timeline: None,
            failure: None,
        };
        let samples = [sample(&measurement), sample(&measurement)];
        let summed = of_samples(samples.iter());
        assert_eq!(summed.len(), 1);
        assert_eq!((summed[0].objects, summed[0].fast_frees), (3370, 59_000_000));
    }
}
