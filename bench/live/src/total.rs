//! Adds up the figures of several processes.

use crate::label::Label;
use crate::snapshot::{Cache, CpuLists, Event, Identity, Lock, Snapshot, Zone};
use quarry_record::Memory;

/// Adds fields of a part to a sum.
macro_rules! add_each {
    ($sum:ident, $part:ident: $($field:ident),+) => {{
        $($sum.$field = $sum.$field.saturating_add($part.$field);)+
    }};
}

/// The sums over all processes: of caches by name and object size, of events and locks by name, of
/// zones by node, of page lists by CPU and node; the smallest limit, the largest age. A policy or
/// version that differs becomes `mixed`. JSON has a line for each process. O(n * rows).
#[must_use]
pub fn of(snapshots: &[Snapshot]) -> Snapshot {
    let mut rest = snapshots.iter();
    let Some(first) = rest.next() else { return Snapshot::default() };
    let mut total = first.clone();
    rest.for_each(|snapshot| add(&mut total, snapshot));
    if snapshots.len() > 1 {
        let others = snapshots.len() - 1;
        total.process.name = Label::from(format!("{}+{others}", first.process.name).as_str());
    }
    total
}

fn add(total: &mut Snapshot, other: &Snapshot) {
    add_identity(&mut total.process, &other.process);
    total.age_ms = total.age_ms.max(other.age_ms);
    total.resident = total.resident.zip(other.resident).map(|(one, two)| one.saturating_add(two));
    total.is_last &= other.is_last;
    total.json.push_str(&other.json);
    merge(&mut total.zones, &other.zones, |it| it.node, add_zone);
    merge(&mut total.caches, &other.caches, |it| (it.name.clone(), it.object_bytes), add_cache);
    let add = |sum: &mut CpuLists, part: &CpuLists| add_each!(sum, part: count, high);
    merge(&mut total.cpu_lists, &other.cpu_lists, |it| (it.cpu, it.node), add);
    merge(&mut total.events, &other.events, |it| it.name.clone(), add_event);
    let add = |sum: &mut Lock, part: &Lock| {
        add_each!(sum, part: locks, acquisitions, contentions, wait_ns, hold_samples, hold_ns);
    };
    merge(&mut total.locks, &other.locks, |it| it.name.clone(), add);
    add_memory(&mut total.memory, &other.memory);
    let (sum, part) = (&mut total.budget, &other.budget);
    sum.limit = sum.limit.into_iter().chain(part.limit).min();
    add_each!(sum, part: used);
}

/// Adds each part to the sum with the same key; a part whose key no sum has becomes a new sum.
fn merge<T: Clone, K: PartialEq>(
    sums: &mut Vec<T>,
    parts: &[T],
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, &T),
) {
    for part in parts {
        match sums.iter_mut().find(|sum| key(sum) == key(part)) {
            Some(sum) => add(sum, part),
            None => sums.push(part.clone()),
        }
    }
}

fn add_identity(total: &mut Identity, other: &Identity) {
    for (sum, part) in [
        (&mut total.version, &other.version),
        (&mut total.slab_policy, &other.slab_policy),
        (&mut total.page_policy, &other.page_policy),
        (&mut total.backend, &other.backend),
    ] {
        if *sum != *part {
            *sum = Label::from("mixed");
        }
    }
    total.cpus = total.cpus.max(other.cpus);
}

fn add_cache(sum: &mut Cache, part: &Cache) {
    add_each!(sum, part: live, parked, objects, active_slabs, slabs);
    add_each!(sum, part: allocs, fast_allocs, frees, fast_frees);
}

fn add_zone(sum: &mut Zone, part: &Zone) {
    let orders = sum.free_blocks.len().max(part.free_blocks.len());
    sum.free_blocks.resize(orders, 0);
    for (sum, part) in sum.free_blocks.iter_mut().zip(&part.free_blocks) {
        *sum = sum.saturating_add(*part);
    }
    for (sum, part) in sum.marks.iter_mut().zip(part.marks) {
        *sum = sum.saturating_add(part);
    }
    add_each!(sum, part: managed, free, in_extents, dirty, boost);
}

/// Adds the parts that a snapshot shows.
fn add_memory(sum: &mut Memory, part: &Memory) {
    add_each!(sum, part: objects, parked, free_in_slabs, empty_slabs, around_objects);
    add_each!(sum, part: blocks, page_cache, page_lists, free_dirty, free_zero, withheld);
    add_each!(sum, part: mappings, mappings_cached, metadata_sheaves, metadata_slab_headers);
    add_each!(sum, part: metadata_cpu_slabs, metadata_cached_pages, metadata_other);
}

/// For durations takes the longest, for other events the sum.
fn add_event(sum: &mut Event, part: &Event) {
    sum.count = match sum.name.as_str().ends_with("_ns") {
        true => sum.count.max(part.count),
        false => sum.count.saturating_add(part.count),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Budget;

    #[test]
    fn parts_of_one_name_are_added() {
        let cache = |name: &str, live| Cache { name: name.into(), live, ..Cache::default() };
        let process = |name: &str, slab: &str| Identity {
            name: name.into(),
            slab_policy: slab.into(),
            ..Identity::default()
        };
        let event = |name: &str, count| Event { name: name.into(), count, is_gauge: false };
        let first = Snapshot {
            process: process("sh", "sheaf"),
            age_ms: Some(5),
            caches: vec![cache("a", 1), cache("b", 2)],
            budget: Budget { limit: None, used: 3 },
            events: vec![event("allocstall", u64::MAX), event("direct_reclaim_max_ns", 7)],
            zones: vec![Zone { free_blocks: vec![1], ..Zone::default() }],
            ..Snapshot::default()
        };
        let second = Snapshot {
            process: process("cat", "slub"),
            age_ms: Some(9),
            caches: vec![cache("b", 40), cache("c", 5)],
            budget: Budget { limit: Some(100), used: 30 },
            events: vec![event("allocstall", 2), event("direct_reclaim_max_ns", 3)],
            zones: vec![Zone { free_blocks: vec![1, 2], ..Zone::default() }],
            ..Snapshot::default()
        };
        let total = of(&[first.clone(), second]);
        let lives: Vec<(&str, u64)> =
            total.caches.iter().map(|it| (it.name.as_str(), it.live)).collect();
        assert_eq!(lives, [("a", 1), ("b", 42), ("c", 5)]);
        assert_eq!((total.budget.limit, total.budget.used), (Some(100), 33));
        assert_eq!(total.age_ms, Some(9));
        assert_eq!(total.process.name.as_str(), "sh+1");
        assert_eq!(total.process.slab_policy.as_str(), "mixed");
        assert_eq!(total.events[0].count, u64::MAX);
        assert_eq!(total.events[1].count, 7);
        assert_eq!(total.zones[0].free_blocks, [2, 2]);
        assert_eq!(of(std::slice::from_ref(&first)), first);
        assert_eq!(of(&[]), Snapshot::default());
    }
}
