//! The barn of a cache: sheaves between the CPUs and the slabs (Linux 6.18, `node_barn`).
//!
//! The kernel's CPUs own sheaves and exchange pointers to them. Here a CPU's objects lie at a fixed
//! place in its slot, which saves the fast path one dependent load; an exchange copies pointers
//! between slot and barn, by one restartable sequence, under the barn's lock. So a sheaf is not a
//! structure of its own but the objects that one exchange moves, and the barn is one stack of
//! objects.
//!
//! Counters of exchanges are under the same lock, in cache lines that the exchange touches anyway:
//! separate counters would be one more line that CPUs take from each other.
//!
//! Invariants: `lowest <= level <= most`; the storage's first `level` entries are objects;
//! `announced` differs from `level * stride` by less than `max(ANNOUNCED_BYTES, stride)`.

use super::cache_limits::CacheLimits;
use crate::frame::{Metadata, MetadataKind};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicUsize, Ordering::Relaxed};

/// Bytes by which the announcement of a barn to [`CacheLimits`] may be wrong: all CPUs share that
/// counter.
const ANNOUNCED_BYTES: usize = 64 << 10;

/// Counts of exchanges between CPUs and barn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Requests that found their array empty.
    pub alloc_slow: u64,
    /// Frees that found it full.
    pub free_slow: u64,
    /// Objects that entered slots in batches.
    pub batched_in: u64,
    /// Objects that left slots in batches.
    pub batched_out: u64,
}

impl core::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.alloc_slow += other.alloc_slow;
        self.free_slow += other.free_slow;
        self.batched_in += other.batched_in;
        self.batched_out += other.batched_out;
    }
}

struct Sheaves {
    level: usize,
    /// `most` pointers, from the first exchange on.
    storage: Option<NonNull<MaybeUninit<Object>>>,
    most: usize,
    stride: usize,
    /// Lowest level since the last [`Barn::unneeded`].
    lowest: usize,
    traffic: Traffic,
}

// SAFETY: the storage belongs to the barn alone and is reached only under its lock.
unsafe impl Send for Sheaves {}

impl Sheaves {
    /// The top `count` objects, of at least as many.
    fn top(&self, count: usize) -> &[Object] {
        let Some(storage) = self.storage else { return &[] };
        debug_assert!(count <= self.level);
        // SAFETY: the first `level` entries of the storage are written, and its lock is held.
        unsafe {
            let first = storage.as_ptr().add(self.level - count);
            core::slice::from_raw_parts(first.cast::<Object>(), count)
        }
    }

    /// The storage above the level, if it has room for `count` objects. Takes memory for the
    /// storage at the first use.
    fn room(&mut self, metadata: &Metadata, count: usize) -> Option<&mut [MaybeUninit<Object>]> {
        let left = self.most - self.level;
        if left < count {
            return None;
        }
        let storage = match self.storage {
            Some(storage) => storage,
            None => {
                let bytes = self.most * size_of::<Object>();
                let storage = metadata.alloc(bytes, 64, MetadataKind::Sheaves).ok()?;
                *self.storage.insert(storage.cast())
            }
        };
        // SAFETY: the storage has `most` entries, and its lock is held.
        Some(unsafe { core::slice::from_raw_parts_mut(storage.as_ptr().add(self.level), left) })
    }
}

/// A stack of objects under one counted lock.
#[repr(align(64))]
pub struct Barn {
    sheaves: CountedLock<Sheaves>,
    /// Bytes announced to [`CacheLimits`] last. Written under the lock.
    announced: AtomicUsize,
}

impl Barn {
    /// A barn that holds nothing until [`configure`](Self::configure).
    #[must_use]
    pub const fn new() -> Self {
        let traffic = Traffic { alloc_slow: 0, free_slow: 0, batched_in: 0, batched_out: 0 };
        Self {
            sheaves: CountedLock::new(Sheaves {
                level: 0,
                storage: None,
                most: 0,
                stride: 0,
                lowest: 0,
                traffic,
            }),
            announced: AtomicUsize::new(0),
        }
    }

    /// Sets how many objects the barn may hold, and their distance in bytes. A barn that has
    /// storage keeps its size; it is empty, or has been set so before.
    pub fn configure(&self, most: usize, stride: usize) {
        let mut sheaves = self.sheaves.lock();
        debug_assert!(sheaves.level == 0 || sheaves.stride == stride);
        if sheaves.storage.is_none() {
            sheaves.most = most;
        }
        sheaves.stride = stride;
    }

    /// Resets the counts. The barn is empty.
    pub fn start(&self) {
        let mut sheaves = self.sheaves.lock();
        debug_assert!(sheaves.level == 0);
        sheaves.traffic = Traffic::default();
        sheaves.lowest = 0;
    }

    /// Lets `accept` have a copy of up to `most - 1` objects, and returns one more. Objects that it
    /// refuses stay. `None` where the barn is empty. O(most) under the lock.
    ///
    /// Another CPU had these objects last, so their lines are in its cache; to fetch the first 16
    /// of them here, all at once, made nothing faster.
    pub fn hand_out(
        &self,
        limits: &CacheLimits,
        most: usize,
        accept: impl FnOnce(&[Object]) -> bool,
    ) -> Option<Object> {
        let mut sheaves = self.sheaves.lock();
        let count = sheaves.level.min(most);
        let (object, rest) = sheaves.top(count).split_last()?;
        let object = *object;
        let accepted = if accept(rest) { count - 1 } else { 0 };
        sheaves.traffic.alloc_slow += 1;
        sheaves.traffic.batched_in += accepted as u64;
        sheaves.level -= accepted + 1;
        self.note_level(limits, &mut sheaves);
        Some(object)
    }

    /// Lets `fill` write up to `count` objects on top, count what it did, and return their number.
    /// Returns that, or 0 where there is no room or no memory for it.
    pub(super) fn bring_in(
        &self,
        metadata: &Metadata,
        limits: &CacheLimits,
        count: usize,
        fill: impl FnOnce(&mut [MaybeUninit<Object>], &mut Traffic) -> usize,
    ) -> usize {
        let mut sheaves = self.sheaves.lock();
        let mut traffic = sheaves.traffic;
        let Some(room) = sheaves.room(metadata, count) else { return 0 };
        let filled = fill(&mut room[..count], &mut traffic);
        debug_assert!(filled <= count);
        sheaves.traffic = traffic;
        sheaves.level += filled;
        self.note_level(limits, &mut sheaves);
        filled
    }

    /// Takes objects off the top into the front of `out`; returns how many. O(out) under the lock.
    pub fn take(&self, limits: &CacheLimits, out: &mut [MaybeUninit<Object>]) -> usize {
        let mut sheaves = self.sheaves.lock();
        let count = sheaves.level.min(out.len());
        for (place, object) in out.iter_mut().zip(sheaves.top(count)) {
            place.write(*object);
        }
        sheaves.level -= count;
        self.note_level(limits, &mut sheaves);
        count
    }

    /// Puts all of `objects` on top, or none where there is no room or no memory for them; returns
    /// whether it did. O(objects) under the lock.
    pub fn put(&self, metadata: &Metadata, limits: &CacheLimits, objects: &[Object]) -> bool {
        let put = self.bring_in(metadata, limits, objects.len(), |room, _| {
            for (place, object) in room.iter_mut().zip(objects) {
                place.write(*object);
            }
            objects.len()
        });
        put == objects.len()
    }

    /// Announces the level where the last announcement is too far off.
    #[inline]
    fn note_level(&self, limits: &CacheLimits, sheaves: &mut Sheaves) {
        sheaves.lowest = sheaves.lowest.min(sheaves.level);
        let (bytes, announced) = (sheaves.level * sheaves.stride, self.announced.load(Relaxed));
        if bytes.abs_diff(announced) >= ANNOUNCED_BYTES || bytes == 0 && announced != 0 {
            self.announced.store(bytes, Relaxed);
            limits.barn_changed(announced, bytes);
        }
    }

    /// The lowest number of objects in the barn since the last call: no CPU needed these.
    pub(crate) fn unneeded(&self) -> usize {
        let mut sheaves = self.sheaves.lock();
        let level = sheaves.level;
        core::mem::replace(&mut sheaves.lowest, level)
    }

    /// Bytes of objects, to within 64 KiB. Takes no lock.
    pub fn bytes(&self) -> usize {
        self.announced.load(Relaxed)
    }

    /// Objects in the barn now.
    pub fn objects(&self) -> u64 {
        self.look().0
    }

    /// Objects in the barn now, and the counts of its exchanges, by one hold of the lock.
    pub fn look(&self) -> (u64, Traffic) {
        let sheaves = self.sheaves.lock();
        (sheaves.level as u64, sheaves.traffic)
    }

    /// Checks the equations at the top of this file.
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        let sheaves = self.sheaves.lock();
        let barn = Check::of("barn");
        let is_between = sheaves.lowest <= sheaves.level && sheaves.level <= sheaves.most;
        barn.that(is_between, "lowest <= level <= most")?;
        let off = (sheaves.level * sheaves.stride).abs_diff(self.bytes());
        let is_near = off < ANNOUNCED_BYTES.max(sheaves.stride);
        barn.that(is_near, "bytes = bytes announced, to within a step")
    }

    /// Visits the barn's lock.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("barn->lock", &self.sheaves);
    }

    /// Counters of the barn's lock.
    pub fn lock_stats(&self) -> LockStats {
        self.sheaves.stats()
    }
}

impl Default for Barn {
    fn default() -> Self {
        Self::new()
    }
}
