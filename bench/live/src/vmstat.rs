//! The layout of `/proc/vmstat`: a name and a number on each line (Linux 6.18, `mm/vmstat.c`).

use crate::snapshot::{FRAME_BYTES, Snapshot, sum};

/// The text of `/proc/vmstat`. Names with `nr_` count frames of 4 KiB. O(events).
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    lines(snapshot).iter().map(|(name, count)| format!("{name} {count}\n")).collect()
}

/// Frames by their use, which the kernel counts for each node.
pub(crate) fn uses(snapshot: &Snapshot) -> [(&'static str, u64); 6] {
    let memory = &snapshot.memory;
    [
        ("nr_slab_reclaimable", snapshot.slab_reclaimable()),
        ("nr_slab_unreclaimable", memory.objects),
        ("nr_file_pages", memory.page_cache),
        ("nr_blocks", memory.blocks),
        ("nr_mapped", memory.mappings),
        ("nr_mappings_kept", memory.mappings_cached),
    ]
    .map(|(name, bytes)| (name, bytes / FRAME_BYTES))
}

/// Names with values, the ones computed here first. No name occurs twice.
fn lines(snapshot: &Snapshot) -> Vec<(&str, u64)> {
    let both = |one, other| sum([one, other].map(|name| snapshot.event(name)));
    let mut lines = vec![("nr_free_pages", sum(snapshot.zones.iter().map(|zone| zone.free)))];
    lines.extend(uses(snapshot));
    lines.extend([
        ("nr_free_dirty", snapshot.memory.free_dirty / FRAME_BYTES),
        ("pgalloc_normal", both("pcp_allocs", "pcp_bypassed_allocs")),
        ("pgfree", both("pcp_frees", "pcp_bypassed_frees")),
        ("zone_lock_allocs", both("pcp_refills", "pcp_bypassed_allocs")),
        ("zone_lock_frees", both("pcp_drains", "pcp_bypassed_frees")),
    ]);
    for event in &snapshot.events {
        if lines.iter().all(|(name, _)| *name != event.name.as_str()) {
            lines.push((event.name.as_str(), event.count));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Event, Zone};
    use quarry_record::Memory;

    #[test]
    fn a_line_is_the_kernels() {
        let zones = vec![Zone { free: 5, ..Zone::default() }, Zone { free: 6, ..Zone::default() }];
        let memory = Memory { objects: 8192, ..Memory::default() };
        let event = |name: &str| Event { name: name.into(), count: 3, is_gauge: false };
        let events = vec![event("pageoutrun"), event("pgfree"), event("two words")];
        let text = text(&Snapshot { zones, memory, events, ..Snapshot::default() });
        assert!(text.starts_with("nr_free_pages 11\nnr_slab_reclaimable 0\n"));
        assert!(text.contains("nr_slab_unreclaimable 2\n"));
        assert!(text.ends_with("zone_lock_frees 0\npageoutrun 3\ntwo_words 3\n"), "{text}");
        assert_eq!(text.matches("pgfree ").count(), 1);
    }
}
