//! Converts a record into a [`Snapshot`].

use crate::label::Label;
use crate::place::Place;
use crate::snapshot::{Budget, Cache, CpuLists, Event, Identity, Lock, Snapshot, Zone, sum};
use quarry_record as record;
use quarry_record::flags;

impl Snapshot {
    /// Converts a checked record of the process called `name`, whose pid is `pid` in the reader's
    /// namespace. `now_ns` is the time on `CLOCK_MONOTONIC`. O(rows).
    #[must_use]
    pub fn of_record(of: &record::Snapshot<'_>, pid: u32, name: Label, now_ns: u64) -> Self {
        let about = of.about();
        let label = |name: &record::Name| Label::from(name.as_str());
        let age_ms = now_ns.checked_sub(of.published_ns()).map(|age| age / 1_000_000);
        Self {
            json: json_line(of, &name, age_ms),
            process: Identity {
                pid,
                name,
                place: Place::default(),
                version: label(&about.quarry),
                slab_policy: label(&about.slab),
                page_policy: label(&about.pages),
                backend: label(&about.backend),
                cpus: about.cpus,
            },
            age_ms,
            resident: None,
            is_last: about.flags & flags::IS_LAST != 0,
            caches: of.caches().map(|row| cache(&row)).collect(),
            zones: of.zones().map(|row| zone(&row)).collect(),
            memory: of.memory(),
            budget: Budget {
                limit: (about.flags & flags::HAS_LIMIT != 0).then_some(of.budget().limit),
                used: of.budget().used,
            },
            cpu_lists: of.lists().map(|row| cpu_lists(&row)).collect(),
            events: of.events().map(|(name, count)| named(name, count)).collect(),
            locks: of.locks().map(|row| lock(&row)).collect(),
        }
    }
}

fn named(name: &str, count: u64) -> Event {
    Event { name: name.into(), count, is_gauge: record::events::is_gauge(name) }
}

fn cache(row: &record::CacheRow) -> Cache {
    Cache {
        name: row.name.as_str().into(),
        object_bytes: row.stride.into(),
        objects_per_slab: row.slab_objects.into(),
        frames_per_slab: row.slab_frames.into(),
        live: row.live_objects(),
        parked: row.parked_objects,
        objects: row.total_objects,
        active_slabs: row.active_slabs,
        slabs: row.total_slabs,
        allocs: row.allocs(),
        fast_allocs: row.alloc_fast,
        frees: row.frees(),
        fast_frees: row.free_fast,
    }
}

fn zone(row: &record::ZoneRow) -> Zone {
    let blocks = |by_type: &[u32; _]| sum(by_type.iter().map(|blocks| u64::from(*blocks)));
    Zone {
        node: row.node,
        free_blocks: row.free_blocks.iter().map(blocks).collect(),
        managed: row.managed.into(),
        free: row.free.into(),
        in_extents: row.in_extents.into(),
        dirty: row.dirty.into(),
        marks: [row.min, row.low, row.high].map(u64::from),
        boost: row.boost.into(),
    }
}

fn cpu_lists(row: &record::ListRow) -> CpuLists {
    CpuLists {
        cpu: row.slot,
        node: row.node,
        count: row.count.into(),
        high: row.high.into(),
        batch: row.batch.into(),
    }
}

fn lock(row: &record::LockRow) -> Lock {
    Lock {
        name: row.name.as_str().into(),
        locks: row.locks,
        acquisitions: row.acquisitions,
        contentions: row.contentions,
        wait_ns: row.wait_ns,
        hold_samples: row.hold_samples,
        hold_ns: row.hold_ns,
    }
}

/// The record as a line of JSON: first `age_ms`, `null` for an unknown age, then the members that a
/// program prints under `QUARRY_STATS_FORMAT=json`. O(rows).
fn json_line(record: &record::Snapshot<'_>, name: &Label, age_ms: Option<u64>) -> String {
    let head = [("quarry", record.about().quarry.as_str()), ("program", name.as_str())];
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = record.write_json(&head, &mut line);
    let age = age_ms.map_or("null".to_owned(), |age| age.to_string());
    with_age(&line, &age)
}

fn with_age(line: &str, age: &str) -> String {
    format!("{{\"age_ms\":{age},{}", line.strip_prefix('{').unwrap_or(line))
}

/// Adds the member `resident_bytes` after `age_ms`.
pub(crate) fn add_resident(line: &mut String, bytes: u64) {
    if let Some(end) = line.find(',') {
        line.insert_str(end, &format!(",\"resident_bytes\":{bytes}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_the_first_member() {
        let mut line = with_age("{\"layout\":1}\n", "7");
        assert_eq!(line, "{\"age_ms\":7,\"layout\":1}\n");
        add_resident(&mut line, 4096);
        assert_eq!(line, "{\"age_ms\":7,\"resident_bytes\":4096,\"layout\":1}\n");
    }
}
