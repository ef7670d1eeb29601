//! The counts that are compared: their sources in the kernel and on Quarry's stack.

use crate::witness::readings::SLABS;
use crate::witness::sample::FAULTS;
use quarry_harness::results::{Direction, Measurement, Metric};

pub(super) struct Count {
    pub(super) name: &'static str,
    /// Tracepoints, or events of `/proc/vmstat`; the count is their sum.
    kernel: &'static [&'static str],
    /// Counters of the stack; the count is their sum. Empty if the stack has no such count.
    stack: &'static [&'static str],
}

/// Name of the count of instructions that a guest's CPU executes while the tracepoints are off.
pub(super) const INSTRUCTIONS: &str = "instructions";

const fn count(
    name: &'static str,
    kernel: &'static [&'static str],
    stack: &'static [&'static str],
) -> Count {
    Count { name, kernel, stack }
}

pub(super) const COUNTS: [Count; 18] = [
    count("page blocks handed out", &["kmem:mm_page_alloc"], &["handed_out"]),
    count("blocks from the zone, locked", &["kmem:mm_page_alloc_zone_locked"], &["zone_taken"]),
    count("blocks drained to the zone", &["kmem:mm_page_pcpu_drain"], &["lists_drained"]),
    count("page blocks freed", &["kmem:mm_page_free"], &["taken_back"]),
    count("of these in batches", &["kmem:mm_page_free_batched"], &[]),
    count(
        "objects allocated",
        &[
            "kmem:kmalloc",
            "kmem:kmem_cache_alloc",
            "kmem:kmalloc_node",
            "kmem:kmem_cache_alloc_node",
        ],
        &["fast_allocs", "slow_allocs"],
    ),
    count("of these kmalloc", &["kmem:kmalloc", "kmem:kmalloc_node"], &[]),
    count(
        "of these kmem_cache_alloc",
        &["kmem:kmem_cache_alloc", "kmem:kmem_cache_alloc_node"],
        &[],
    ),
    count("objects freed", &["kmem:kfree", "kmem:kmem_cache_free"], &["fast_frees", "slow_frees"]),
    count("of these kfree", &["kmem:kfree"], &[]),
    count("of these kmem_cache_free", &["kmem:kmem_cache_free"], &[]),
    count("folios into the page cache", &["filemap:mm_filemap_add_to_page_cache"], &[]),
    count(
        "folios out of the page cache",
        &["filemap:mm_filemap_delete_from_page_cache"],
        &["pages_truncated"],
    ),
    // Locks of any kind, also of sockets and files; not comparable with the locks of a stack.
    count("locks found held", &["lock:contention_begin"], &[]),
    count("page faults", &[FAULTS], &[]),
    count(SLABS, &[SLABS], &[]),
    count(
        "reclaim asked for",
        &["vmscan:mm_vmscan_direct_reclaim_begin", "vmscan:mm_vmscan_wakeup_kswapd"],
        &[],
    ),
    count(INSTRUCTIONS, &[INSTRUCTIONS], &[]),
];

impl Count {
    pub(super) fn metric(&self) -> Metric {
        let metric = Metric::new(self.name, "per operation", Direction::None, self.name);
        metric.per("operations").digits(4)
    }
}

/// Adds to the measurement each of the [`COUNTS`] of which it has a part, as the sum of the parts
/// that it has. The measurement is one of the kernel (`in_kernel`) or of the stack.
pub(super) fn name(measurement: &mut Measurement, in_kernel: bool) {
    for count in &COUNTS {
        let parts = if in_kernel { count.kernel } else { count.stack };
        let known = parts.iter().filter_map(|part| measurement.counters.get(*part));
        if let Some(sum) = known.copied().reduce(|sum, part| sum + part) {
            measurement.counters.insert(count.name.to_owned(), sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_sum_of_its_parts() {
        let counters = [("kmem:kmalloc", 3), ("kmem:kmem_cache_alloc", 4), ("fast_allocs", 9)];
        let taken = Measurement::of_window(7, 1, 1, 1, "x").with(&counters);
        for (in_kernel, sum) in [(true, 7), (false, 9)] {
            let mut taken = taken.clone();
            name(&mut taken, in_kernel);
            assert_eq!(taken.counters["objects allocated"], sum);
            assert!(
                !taken.counters.contains_key("page blocks freed"),
                "what is not known is absent"
            );
        }
        let per_operation = COUNTS[5].metric();
        let mut taken = taken;
        name(&mut taken, true);
        assert_eq!(per_operation.value(&taken), Some(1.0));
    }

    #[test]
    fn every_tracepoint_has_a_line() {
        for tracepoint in crate::witness::tracepoints::TRACEPOINTS {
            assert!(COUNTS.iter().any(|count| count.kernel.contains(&tracepoint)), "{tracepoint}");
        }
    }
}
