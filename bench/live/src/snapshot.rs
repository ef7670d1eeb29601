//! The figures of a process at one moment.

use crate::label::Label;
use crate::place::Place;
use quarry_record::Memory;

/// The figures of one process, which may publish any number, so sums and products saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The process.
    pub process: Identity,
    /// Milliseconds since the process wrote the figures; `None` if its clock is not the reader's.
    pub age_ms: Option<u64>,
    /// Resident bytes of the process, as the kernel counts them; `None` after its end.
    pub resident: Option<u64>,
    /// True if the process wrote the figures at its exit.
    pub is_last: bool,
    /// The slab caches that have had a slab.
    pub caches: Vec<Cache>,
    /// The zones.
    pub zones: Vec<Zone>,
    /// The use of the process's memory.
    pub memory: Memory,
    /// The limit on the memory of the process, and the memory that counts against this limit.
    pub budget: Budget,
    /// The page lists of each CPU.
    pub cpu_lists: Vec<CpuLists>,
    /// Counts, named as in `/proc/vmstat`.
    pub events: Vec<Event>,
    /// The use of each kind of lock.
    pub locks: Vec<Lock>,
    /// The process's whole record as a line of JSON.
    pub json: String,
}

/// A process, and the policies that serve it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its number in the reader's pid namespace.
    pub pid: u32,
    /// Its name in the kernel.
    pub name: Label,
    /// The unit, pod or group that it belongs to.
    pub place: Place,
    /// The version of Quarry in it.
    pub version: Label,
    /// The slab policy.
    pub slab_policy: Label,
    /// The policy of the page lists.
    pub page_policy: Label,
    /// The backend of the fast paths: sequences, or locked slots.
    pub backend: Label,
    /// Number of CPUs that the process's heap was made for.
    pub cpus: u32,
}

/// One slab cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Its name.
    pub name: Label,
    /// Bytes from one object to the next.
    pub object_bytes: u64,
    /// Objects in a slab.
    pub objects_per_slab: u64,
    /// Frames in a slab.
    pub frames_per_slab: u64,
    /// Objects that the program has.
    pub live: u64,
    /// Objects that the program has freed and that an array, a list or a barn holds.
    pub parked: u64,
    /// Objects in all slabs, free or not.
    pub objects: u64,
    /// Slabs with an object that is in use or parked.
    pub active_slabs: u64,
    /// All slabs.
    pub slabs: u64,
    /// Objects handed out.
    pub allocs: u64,
    /// Objects that a fast path handed out.
    pub fast_allocs: u64,
    /// Objects freed.
    pub frees: u64,
    /// Freed objects that a fast path took.
    pub fast_frees: u64,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Its node.
    pub node: u32,
    /// Free blocks by order.
    pub free_blocks: Vec<u64>,
    /// Frames of the zone, free or not.
    pub managed: u64,
    /// Free frames.
    pub free: u64,
    /// Free frames in extents, which are in no free block.
    pub in_extents: u64,
    /// Free frames that may hold data, which a purge can give back.
    pub dirty: u64,
    /// Its watermarks in frames: min, low and high.
    pub marks: [u64; 3],
    /// Frames by which the watermarks are raised at present.
    pub boost: u64,
}

/// The limit on the memory of a process, and the memory that counts against it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The limit; `None` if there is none.
    pub limit: Option<u64>,
    /// Bytes that count against the limit.
    pub used: u64,
}

/// The page lists of one CPU for one node, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLists {
    /// The CPU, in Quarry's numbering.
    pub cpu: u32,
    /// The node.
    pub node: u32,
    /// Frames on the lists.
    pub count: u64,
    /// Maximum number of frames that stay on the lists.
    pub high: u64,
    /// Frames that move between the lists and the zone at a time.
    pub batch: u64,
}

/// A count with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The name.
    pub name: Label,
    /// Its value.
    pub count: u64,
    /// True if the value can also fall.
    pub is_gauge: bool,
}

/// A kind of lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its name.
    pub name: Label,
    /// Number of locks.
    pub locks: u64,
    /// Number of acquisitions.
    pub acquisitions: u64,
    /// Number of acquisitions that had to wait.
    pub contentions: u64,
    /// Time of all waits, in nanoseconds.
    pub wait_ns: u64,
    /// Number of acquisitions whose hold was timed.
    pub hold_samples: u64,
    /// Time for which the lock was held after these acquisitions, in nanoseconds.
    pub hold_ns: u64,
}

impl Snapshot {
    /// Returns one line with the process, the age of the figures, and the policies.
    #[must_use]
    pub fn heading(&self) -> String {
        let Identity { pid, name, version, slab_policy, page_policy, backend, .. } = &self.process;
        let age = self.age();
        format!("{name}[{pid}], {age}; Quarry {version}: {slab_policy}, {page_policy}, {backend}")
    }

    /// The age of the figures in words.
    pub(crate) fn age(&self) -> String {
        match self.age_ms {
            _ if self.is_last => "at its exit".to_owned(),
            Some(age) => format!("{}.{:03} s old", age / 1000, age % 1000),
            None => "of unknown age".to_owned(),
        }
    }

    /// Resident bytes beyond live, kept and dirty ones: code, stacks, memory not from `malloc`, and
    /// touched [`descriptors`](Self::descriptors). Negative if live memory was not touched yet.
    #[must_use]
    pub fn unaccounted(&self) -> Option<i64> {
        let known = sum([self.live(), self.kept(), self.memory.free_dirty]);
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.resident.map(|resident| signed(resident).saturating_sub(signed(known)))
    }

    /// The value of an event; 0 if there is none of this name.
    #[must_use]
    pub fn event(&self, name: &str) -> u64 {
        self.events.iter().find(|it| it.name.as_str() == name).map_or(0, |it| it.count)
    }

    /// Bytes that the program has, the page cache included.
    #[must_use]
    pub fn live(&self) -> u64 {
        let it = &self.memory;
        sum([it.objects, it.blocks, it.mappings, it.page_cache])
    }

    /// Bytes that the program has freed and Quarry keeps, with their contents, for later requests.
    #[must_use]
    pub fn kept(&self) -> u64 {
        sum([self.slab_reclaimable(), self.memory.page_lists, self.memory.mappings_cached])
    }

    /// Bytes that the program has freed and that CPUs, barns or the mapping cache hold.
    #[must_use]
    pub fn parked(&self) -> u64 {
        sum([self.memory.parked, self.memory.mappings_cached])
    }

    /// Bytes that hold no data of the program, and that Quarry could return to the system.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        let it = &self.memory;
        sum([it.free_in_slabs, it.empty_slabs, it.around_objects, it.page_lists, it.free_dirty])
    }

    /// Bytes of slabs that hold no data of the program.
    pub(crate) fn slab_reclaimable(&self) -> u64 {
        let it = &self.memory;
        sum([it.parked, it.free_in_slabs, it.empty_slabs, it.around_objects])
    }

    /// Free memory of the zones that is not resident: given back to the system, or never touched.
    #[must_use]
    pub fn free_returned(&self) -> u64 {
        sum([self.memory.free_zero, self.memory.withheld])
    }

    /// Bytes of Quarry's own descriptors as mapped, touched or not; not part of the other figures.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        let it = &self.memory;
        sum([
            it.metadata_sheaves,
            it.metadata_slab_headers,
            it.metadata_cpu_slabs,
            it.metadata_cached_pages,
            it.metadata_other,
        ])
    }
}

impl Cache {
    /// Percentages of `allocs` and `frees` that a fast path served.
    #[must_use]
    pub fn fast_percentages(&self) -> (u64, u64) {
        (percentage(self.fast_allocs, self.allocs), percentage(self.fast_frees, self.frees))
    }

    /// Bytes of all its slabs.
    #[must_use]
    pub fn slab_bytes(&self) -> u64 {
        self.slabs.saturating_mul(self.frames_per_slab).saturating_mul(FRAME_BYTES)
    }

    /// Bytes of the objects that the program has.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live.saturating_mul(self.object_bytes)
    }

    /// Bytes of parked objects.
    #[must_use]
    pub fn parked_bytes(&self) -> u64 {
        self.parked.saturating_mul(self.object_bytes)
    }

    /// Bytes of slabs that are neither live nor parked: free objects, and bytes outside of objects.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.slab_bytes().saturating_sub(sum([self.live_bytes(), self.parked_bytes()]))
    }
}

impl Budget {
    /// Bytes left below the limit; `None` without a limit.
    #[must_use]
    pub fn headroom(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }
}

/// Bytes of a frame, the same for every page size of the system.
pub const FRAME_BYTES: u64 = 4096;

/// The share of `part` in `all` in whole per cent, rounded down as in the kernel's `slabinfo`.
#[must_use]
pub fn percentage(part: u64, all: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(all.max(1));
    u64::try_from(percent).map_or(100, |percent| percent.min(100))
}

pub(crate) fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_do_no_harm() {
        assert_eq!(percentage(u64::MAX, u64::MAX), 100);
        assert_eq!(percentage(u64::MAX, 1), 100, "more parts than there are");
        assert_eq!(percentage(0, 0), 0);
        assert_eq!(sum([u64::MAX, 1]), u64::MAX);
        let cache = Cache { slabs: u64::MAX, frames_per_slab: 8, ..Cache::default() };
        assert_eq!(cache.slab_bytes(), u64::MAX);
        let over = Budget { limit: Some(1), used: 2 };
        assert_eq!(over.headroom(), Some(0));
    }

    #[test]
    fn the_rest_of_resident_memory_does_not_depend_on_mapped_descriptors() {
        let rest = |descriptors| {
            let memory = Memory { objects: 50, parked: 20, free_dirty: 10, ..Memory::default() };
            let memory = Memory { metadata_other: descriptors, free_zero: 1 << 20, ..memory };
            Snapshot { memory, resident: Some(100), ..Snapshot::default() }.unaccounted()
        };
        assert_eq!([rest(0), rest(7 << 20)], [Some(20), Some(20)]);
    }
}
