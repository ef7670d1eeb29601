//! The layout of `slabinfo -AD`, as document 003 printed it (Linux 2.6.29,
//! `Documentation/vm/slabinfo.c`).

use crate::snapshot::Cache;
use std::cmp::Reverse;
use std::fmt::Write;

/// The table with its head; each line begins with `indent`. Parked objects count as objects in use,
/// as in SLUB's figures. O(lines).
#[must_use]
pub fn table(indent: &str, caches: &[Cache]) -> String {
    let mut text = format!("{indent}Name                   Objects    Alloc     Free   %Fast\n");
    for cache in caches {
        let Cache { name, allocs, frees, .. } = cache;
        let objects = cache.live.saturating_add(cache.parked);
        let (alloc, free) = cache.fast_percentages();
        let line = format!("{name:<21} {objects:>8} {allocs:>8} {frees:>8} {alloc:>3} {free:>3}");
        let _ = writeln!(text, "{indent}{line}");
    }
    text
}

/// Puts the caches with the most allocations and frees first, as `slabinfo -A` does. O(n log n).
pub fn most_active_first(caches: &mut [Cache]) {
    caches.sort_by_key(|cache| Reverse(cache.allocs.saturating_add(cache.frees)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_kernels() {
        let mut caches = [
            Cache { name: ":0000168".into(), allocs: 164_689, ..Cache::default() },
            Cache {
                name: ":0000256".into(),
                live: 1_517,
                parked: 168,
                allocs: 29_611_065,
                fast_allocs: 29_600_000,
                frees: 29_609_548,
                fast_frees: 29_500_000,
                ..Cache::default()
            },
        ];
        most_active_first(&mut caches);
        let text = table("", &caches);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Name                   Objects    Alloc     Free   %Fast");
        assert_eq!(lines[1], ":0000256                  1685 29611065 29609548  99  99");
        assert_eq!(lines[2], ":0000168                     0   164689        0   0   0");
    }
}
