//! The layout of `/proc/slabinfo`, version 2.1 (Linux 6.18, `mm/slab_common.c`).

use crate::snapshot::Snapshot;
use std::fmt::Write;

const HEAD: &str = "slabinfo - version: 2.1\n\
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
    : tunables <limit> <batchcount> <sharedfactor> \
    : slabdata <active_slabs> <num_slabs> <sharedavail>\n";

/// The text of `/proc/slabinfo`. `active_objs` are objects that the program has; `sharedavail` are
/// parked objects. Tunables are 0, as with SLUB. O(caches).
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = HEAD.to_owned();
    for cache in &snapshot.caches {
        let line = format!(
            "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : tunables {:>4} {:>4} {:>4} : slabdata {:>6} \
             {:>6} {:>6}",
            cache.name,
            cache.live,
            cache.objects,
            cache.object_bytes,
            cache.objects_per_slab,
            cache.frames_per_slab,
            0,
            0,
            0,
            cache.active_slabs,
            cache.slabs,
            cache.parked
        );
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Cache;

    #[test]
    fn a_line_is_the_kernels() {
        let cache = Cache {
            name: "kmalloc-64".into(),
            object_bytes: 64,
            objects_per_slab: 64,
            frames_per_slab: 1,
            live: 12_000,
            parked: 75,
            objects: 12_288,
            active_slabs: 190,
            slabs: 192,
            ..Cache::default()
        };
        let text = text(&Snapshot { caches: vec![cache], ..Snapshot::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "slabinfo - version: 2.1");
        assert_eq!(
            lines[1],
            "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : \
             tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> \
             <sharedavail>"
        );
        assert_eq!(
            lines[2],
            "kmalloc-64         12000  12288     64   64    1 : tunables    0    0    0 : slabdata \
             \x20  190    192     75"
        );
    }
}
