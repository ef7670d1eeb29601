//! The layout of `/proc/buddyinfo` (Linux 6.18, `mm/vmstat.c`).

use crate::snapshot::Snapshot;
use std::fmt::Write;

/// The text of `/proc/buddyinfo`: free blocks of each order. O(zones * orders).
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for zone in &snapshot.zones {
        let _ = write!(text, "Node {}, zone {:>8} ", zone.node, "Normal");
        for blocks in &zone.free_blocks {
            let _ = write!(text, "{blocks:>6} ");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Zone;

    #[test]
    fn a_line_is_the_kernels() {
        let free_blocks = vec![4381, 1093, 185, 1530, 567, 102, 4, 0, 0, 0, 0];
        let zones = vec![Zone { free_blocks, ..Zone::default() }];
        let text = text(&Snapshot { zones, ..Snapshot::default() });
        assert_eq!(
            text,
            "Node 0, zone   Normal   4381   1093    185   1530    567    102      4      0      0 \
             \x20    0      0 \n"
        );
    }
}
