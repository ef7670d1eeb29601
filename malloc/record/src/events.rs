//! The names of events and gauges, as `quarry show vmstat` prints them.
//!
//! A record has the values in the order of [`names`]. Pages are counted in frames of 4 KiB.

/// Number of values in a record: one for each of [`names`], then zeros.
pub const EVENTS: usize = 96;

/// Names of all values, one in a line: gauges and events of the page cache, named as in
/// `/proc/vmstat`, then counts of the other layers. (The loader would relocate an array of texts.)
const NAMES: &str = "\
nr_file_pages
nr_inactive_file
nr_active_file
nr_unevictable
nr_dirty
nr_writeback
nr_pinned
nr_mappings
workingset_nodes
workingset_nodereclaim
index_nodes_waiting
index_barriers
lru_sections
lru_batch_sections
lru_added
lru_removed
lru_sentinels
page_cache_added
page_cache_removed
page_cache_taken
page_cache_released
pgpgin
pgpgout
page_cache_fill_failed
page_cache_waited
nr_dirtied
page_cache_cleaned
page_cache_writeback_begun
nr_written
unevictable_pgs_culled
unevictable_pgs_cleared
pgactivate
pgdeactivate
pgrotated
nr_vmscan_write
page_cache_scan_busy
pgscan_direct
pgscan_kswapd
pgsteal_direct
pgsteal_kswapd
workingset_refault_file
workingset_activate_file
workingset_restore_file
page_cache_truncated
page_cache_invalidate_busy
truncate_index_holds
truncate_lru_drains
release_lru_removals
release_free_sections
page_cache_slow_lookups
page_cache_full
pcp_allocs
pcp_refills
pcp_refilled_blocks
pcp_frees
pcp_drains
pcp_drained_pages
pcp_bypassed_allocs
pcp_bypassed_frees
pcp_critical_sections
pcp_bad_blocks
pageoutrun
balance_reached
balance_passes
balance_pages_scanned
balance_pages_freed
slabs_scanned
balance_objects_freed
balance_frames_freed
allocstall
direct_reclaim
direct_reclaim_p50_ns
direct_reclaim_p999_ns
direct_reclaim_max_ns
group_refusals
block_allocs
block_frees
block_resizes
mapping_allocs
mapping_frees
mapping_resizes
slot_barriers
huge_page_us
small_pages_us
wrong_sizes
slot_interrupted
rseq_registered
rseq_refused
pressure_events
pressure_released";

/// Names of all values, in the order of a record.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.split('\n')
}

const _: () = {
    let (mut at, mut count) = (0, 1);
    while at < NAMES.len() {
        count += (NAMES.as_bytes()[at] == b'\n') as usize;
        at += 1;
    }
    assert!(count <= EVENTS);
};

/// Number of values of the page cache; they are the first of [`names`].
pub const OF_PAGE_CACHE: usize = 51;

/// Returns whether `name` is that of a gauge, which rises and falls; an event's count only rises.
#[must_use]
pub fn is_gauge(name: &str) -> bool {
    let gauges = ["workingset_nodes", "index_nodes_waiting"];
    let is_count = ["nr_dirtied", "nr_written", "nr_vmscan_write"].contains(&name);
    name.starts_with("nr_") && !is_count
        || name.ends_with("_ns")
        || name.ends_with("_us")
        || gauges.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_values_have_one_name() {
        for (at, name) in names().enumerate() {
            assert!(names().take(at).all(|before| before != name), "{name} stands there twice");
        }
    }
}
