//! The counts that are compared: their sources in the kernel and on Quarry's stack.

use crate::witness::readings::SLABS;
use crate::witness::sample::FAULTS;
use quarry_harness::results::{Direction, Measurement, Metric};

/// A count: its name; the tracepoints or events of `/proc/vmstat` that add up to it in the kernel;
/// and the counters that add up to it on the stack, if the stack has such a count.
type Count = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Name of the count of instructions that a guest's CPU executes while the tracepoints are off.
pub(super) const INSTRUCTIONS: &str = "instructions";

pub(super) const COUNTS: [Count; 18] = [
    ("page blocks handed out", &["kmem:mm_page_alloc"], &["handed_out"]),
    ("blocks from the zone, locked", &["kmem:mm_page_alloc_zone_locked"], &["zone_taken"]),
    ("blocks drained to the zone", &["kmem:mm_page_pcpu_drain"], &["lists_drained"]),
    (
        "page blocks freed",
        &["kmem:mm_page_free", "kmem:mm_page_free_direct", "kmem:mm_pagevec_free"],
        &["taken_back"],
    ),
    ("of these in batches", &["kmem:mm_page_free_batched", "kmem:mm_pagevec_free"], &[]),
    (
        "objects allocated",
        &[
            "kmem:kmalloc",
            "kmem:kmem_cache_alloc",
            "kmem:kmalloc_node",
            "kmem:kmem_cache_alloc_node",
        ],
        &["fast_allocs", "slow_allocs"],
    ),
    ("of these kmalloc", &["kmem:kmalloc", "kmem:kmalloc_node"], &[]),
    ("of these kmem_cache_alloc", &["kmem:kmem_cache_alloc", "kmem:kmem_cache_alloc_node"], &[]),
    ("objects freed", &["kmem:kfree", "kmem:kmem_cache_free"], &["fast_frees", "slow_frees"]),
    ("of these kfree", &["kmem:kfree"], &[]),
    ("of these kmem_cache_free", &["kmem:kmem_cache_free"], &[]),
    ("folios into the page cache", &["filemap:mm_filemap_add_to_page_cache"], &[]),
    (
        "folios out of the page cache",
        &["filemap:mm_filemap_delete_from_page_cache"],
        &["pages_truncated"],
    ),
    // Locks of any kind, also of sockets and files; not comparable with the locks of a stack.
    ("locks found held", &["lock:contention_begin"], &[]),
    ("page faults", &[FAULTS], &[]),
    (SLABS, &[SLABS], &[]),
    (
        "reclaim asked for",
        &["vmscan:mm_vmscan_direct_reclaim_begin", "vmscan:mm_vmscan_wakeup_kswapd"],
        &[],
    ),
    (INSTRUCTIONS, &[INSTRUCTIONS], &[]),
];

pub(super) fn metric((name, ..): &Count) -> Metric {
    Metric::new(name, "per operation", Direction::None, name).per("operations").digits(4)
}

/// Adds the [`COUNTS`] to a measurement of the kernel (`in_kernel`) or of the stack. A count is the
/// sum of those of its parts that the measurement has; a count without parts is left out.
pub(super) fn named(mut measurement: Measurement, in_kernel: bool) -> Measurement {
    for (name, kernel, stack) in COUNTS {
        let parts = if in_kernel { kernel } else { stack };
        let known = parts.iter().filter_map(|part| measurement.counters.get(*part));
        if let Some(sum) = known.copied().reduce(|sum, part| sum + part) {
            measurement.counters.insert(name.to_owned(), sum);
        }
    }
    measurement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_sum_of_its_parts() {
        let counters = [("kmem:kmalloc", 3), ("kmem:kmem_cache_alloc", 4), ("fast_allocs", 9)];
        let taken = Measurement::of_window(7, 1, 1, 1, "x").with(&counters);
        for (in_kernel, sum) in [(true, 7), (false, 9)] {
            let taken = named(taken.clone(), in_kernel);
            assert_eq!(taken.counters["objects allocated"], sum);
            assert!(
                !taken.counters.contains_key("page blocks freed"),
                "what is not known is absent"
            );
        }
        assert_eq!(metric(&COUNTS[5]).value(&named(taken, true)), Some(1.0));
    }

    #[test]
    fn every_tracepoint_has_a_line() {
        for tracepoint in crate::witness::tracepoints::TRACEPOINTS {
            assert!(
                COUNTS.iter().any(|(_, kernel, _)| kernel.contains(&tracepoint)),
                "{tracepoint}"
            );
        }
    }
}
