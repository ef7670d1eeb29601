//! The layout of `/proc/zoneinfo` (Linux 6.18, `mm/vmstat.c`).

use crate::snapshot::{Snapshot, Zone};
use crate::vmstat;
use std::fmt::Write;

/// The text of `/proc/zoneinfo`, in frames of 4 KiB. Figures that belong to no single zone
/// (objects, blocks, cached pages) are printed for the first node. O(zones * CPUs).
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for (index, zone) in snapshot.zones.iter().enumerate() {
        let _ = writeln!(text, "Node {}, zone {:>8}", zone.node, "Normal");
        if index == 0 {
            text.push_str("  per-node stats\n");
            for (name, frames) in vmstat::uses(snapshot) {
                let _ = writeln!(text, "      {name:<12} {frames}");
            }
        }
        one_zone(zone, &mut text);
        text.push_str("  pagesets\n");
        for lists in snapshot.cpu_lists.iter().filter(|it| it.node == zone.node) {
            let _ = writeln!(text, "    cpu: {}", lists.cpu);
            for (name, frames) in
                [("count:", lists.count), ("high:", lists.high), ("batch:", lists.batch)]
            {
                let _ = writeln!(text, "              {name:<9} {frames}");
            }
        }
    }
    text
}

fn one_zone(zone: &Zone, text: &mut String) {
    let [min, low, high] = zone.marks;
    let _ = writeln!(text, "  pages free     {}", zone.free);
    for (name, frames) in [
        ("boost", zone.boost),
        ("min", min),
        ("low", low),
        ("high", high),
        ("spanned", zone.managed),
        ("present", zone.managed),
        ("managed", zone.managed),
        ("dirty", zone.dirty),
    ] {
        let _ = writeln!(text, "        {name:<8} {frames}");
    }
    let _ = writeln!(text, "      {:<12} {}", "nr_free_pages", zone.free);
    // `buddyinfo` lacks these frames, because it counts blocks.
    let _ = writeln!(text, "      {:<12} {}", "nr_free_in_extents", zone.in_extents);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::CpuLists;
    use quarry_record::Memory;

    #[test]
    fn lines_are_the_kernels() {
        let zone = Zone { managed: 4096, free: 900, in_extents: 20, ..Zone::default() };
        let zone = Zone { dirty: 7, marks: [1, 2, 3], ..zone };
        let memory = Memory { objects: 40_960, blocks: 8192, ..Memory::default() };
        let lists = |cpu, node| CpuLists { cpu, node, count: 31, high: 640, batch: 63 };
        let cpu_lists = vec![lists(0, 0), lists(1, 1)];
        let zones = vec![zone.clone(), Zone { node: 1, ..zone }];
        let text = text(&Snapshot { zones, memory, cpu_lists, ..Snapshot::default() });
        let start = "Node 0, zone   Normal
  per-node stats
      nr_slab_reclaimable 0
      nr_slab_unreclaimable 10
      nr_file_pages 0
      nr_blocks    2
      nr_mapped    0
      nr_mappings_kept 0
  pages free     900
        boost    0
        min      1
        low      2
        high     3
        spanned  4096
        present  4096
        managed  4096
        dirty    7
      nr_free_pages 900
      nr_free_in_extents 20
  pagesets
    cpu: 0
              count:    31
              high:     640
              batch:    63
Node 1, zone   Normal
  pages free     900
";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with(
            "  pagesets
    cpu: 1
              count:    31
              high:     640
              batch:    63
"
        ));
    }
}
