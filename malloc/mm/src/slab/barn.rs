//! The barn of a cache on one node: sheaves between the CPUs and the slabs (Linux 6.18,
//! `node_barn`).
//!
//! In the kernel CPUs own sheaves, and exchange pointers to them with the barn. Here a CPU's
//! objects lie at a fixed place in its slot, which saves the fast path one dependent load. An
//! exchange copies object pointers between the slot and the barn by one restartable sequence, under
//! the barn's lock. So a sheaf is only the objects of one exchange, and the barn is one stack of
//! objects. The lock also guards the counts, which would otherwise need a contended cache line.
//!
//! Invariants: `lowest <= level <= written <= capacity`; the first `level` entries of the storage
//! are objects; those from `written` on have no memory; `announced` differs from `level * stride`
//! by less than `max(ANNOUNCED_BYTES, stride)`.

use super::cache_limits::CacheLimits;
use super::stats::Exchanges;
use crate::frame::{Metadata, MetadataKind};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Contention, CountedLock, Guard, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// A barn announces its bytes to [`CacheLimits`] when they have changed by this much.
const ANNOUNCED_BYTES: usize = 64 << 10;

/// Maximum number of entries of a barn's first storage.
const FIRST: usize = 16384;
/// Unused entries of the storage that keep their memory, 32 KiB.
const KEPT: usize = 4096;
/// Entries whose memory goes back in one critical section, which takes some 20 us.
const TRIM_STEP: usize = 32 << 10;

struct Sheaves {
    level: usize,
    /// Room for `capacity` pointers; `None` before the first exchange.
    storage: Option<NonNull<MaybeUninit<Object>>>,
    capacity: usize,
    /// The highest level since the memory above it was given back.
    written: usize,
    stride: usize,
    /// The lowest level since the last call of [`Barn::unneeded`].
    lowest: usize,
    exchanges: Exchanges,
    seen: Contention,
}

// SAFETY: the storage belongs to the barn alone and is reached only under its lock.
unsafe impl Send for Sheaves {}

impl Sheaves {
    fn top(&self, count: usize) -> &[Object] {
        let Some(storage) = self.storage else { return &[] };
        debug_assert!(count <= self.level);
        // SAFETY: the first `level` entries of the storage are written, and its lock is held.
        unsafe {
            let first = storage.as_ptr().add(self.level - count);
            core::slice::from_raw_parts(first.cast::<Object>(), count)
        }
    }

    /// Returns `count` unused entries of the storage, which it enlarges if necessary. `None` if the
    /// barn would hold more than `most` objects, or if there is no memory.
    fn room(
        &mut self,
        metadata: &Metadata,
        count: usize,
        most: usize,
    ) -> Option<&mut [MaybeUninit<Object>]> {
        let wanted = self.level + count;
        if wanted > most {
            return None;
        }
        if wanted > self.capacity {
            self.widen(metadata, wanted.max(most.min(FIRST)))?;
        }
        let storage = self.storage?;
        // SAFETY: the storage has `capacity >= level + count` entries, and its lock is held.
        Some(unsafe { core::slice::from_raw_parts_mut(storage.as_ptr().add(self.level), count) })
    }

    /// Moves the objects to a new storage for at least `wanted` objects. The old storage, at most a
    /// quarter as large as the new one, is not used again.
    #[cold]
    fn widen(&mut self, metadata: &Metadata, wanted: usize) -> Option<()> {
        let capacity = wanted.max(4 * self.capacity);
        let bytes = capacity * size_of::<Object>();
        let storage = metadata.alloc(bytes, 64, MetadataKind::Sheaves).ok()?.cast();
        if let Some(old) = self.storage {
            // SAFETY: the old storage has `level` entries, and the new one has room for them.
            unsafe { storage.copy_from_nonoverlapping(old, self.level) };
            metadata.purge(entry(old, 0), entry(old, self.written));
        }
        (self.storage, self.capacity, self.written) = (Some(storage), capacity, self.level);
        Some(())
    }
}

/// The address of an entry of a storage.
fn entry(storage: NonNull<MaybeUninit<Object>>, index: usize) -> usize {
    storage.as_ptr() as usize + index * size_of::<Object>()
}

/// A barn whose lock is held.
pub(super) struct Reached<'a>(Guard<'a, Sheaves>);

impl Reached<'_> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.level == 0
    }
}

/// A stack of objects under one counted lock.
#[repr(align(64))]
pub struct Barn {
    sheaves: CountedLock<Sheaves>,
    /// Bytes that [`CacheLimits`] counts for this barn. Written under the lock.
    announced: AtomicUsize,
    /// 1 if the lock was contended when it was last looked at. Set under the lock.
    is_contended: AtomicU32,
}

impl Barn {
    /// An empty barn; [`configure`](Self::configure) sets the size of its objects.
    #[must_use]
    pub const fn new() -> Self {
        let exchanges = Exchanges { alloc_slow: 0, free_slow: 0, batched_in: 0, batched_out: 0 };
        Self {
            sheaves: CountedLock::new(Sheaves {
                level: 0,
                storage: None,
                capacity: 0,
                written: 0,
                stride: 0,
                lowest: 0,
                exchanges,
                seen: Contention::new(),
            }),
            announced: AtomicUsize::new(0),
            is_contended: AtomicU32::new(0),
        }
    }

    /// Sets the bytes of an object, which may change only while the barn is empty.
    pub fn configure(&self, stride: usize) {
        let mut sheaves = self.sheaves.lock();
        debug_assert!(sheaves.level == 0 || sheaves.stride == stride);
        sheaves.stride = stride;
    }

    /// Resets the counts of an empty barn.
    pub fn start(&self) {
        let mut sheaves = self.sheaves.lock();
        debug_assert!(sheaves.level == 0);
        sheaves.exchanges = Exchanges::default();
        sheaves.lowest = 0;
    }

    /// Offers `accept` up to `most - 1` objects from the top, and returns one more; `None` if the
    /// barn is empty. Objects that `accept` refuses stay in the barn. O(most) under the lock.
    ///
    /// (A prefetch of the first 16 objects, which another CPU has cached, made nothing faster.)
    pub fn hand_out(
        &self,
        limits: &CacheLimits,
        most: usize,
        accept: impl FnOnce(&[Object]) -> bool,
    ) -> Option<Object> {
        self.hand_out_of(self.reach(), limits, most, accept)
    }

    /// Takes the lock of the barn.
    #[inline]
    pub(super) fn reach(&self) -> Reached<'_> {
        Reached(self.sheaves.lock())
    }

    /// Takes the lock of the barn if no other task holds it.
    pub(super) fn try_reach(&self) -> Option<Reached<'_>> {
        self.sheaves.try_lock().map(Reached)
    }

    /// [`hand_out`](Self::hand_out) by who has reached the barn.
    #[inline]
    pub(super) fn hand_out_of(
        &self,
        sheaves: Reached<'_>,
        limits: &CacheLimits,
        most: usize,
        accept: impl FnOnce(&[Object]) -> bool,
    ) -> Option<Object> {
        let mut sheaves = sheaves.0;
        let count = sheaves.level.min(most);
        let (object, rest) = sheaves.top(count).split_last()?;
        let object = *object;
        let accepted = if accept(rest) { count - 1 } else { 0 };
        sheaves.exchanges.alloc_slow += 1;
        sheaves.exchanges.batched_in += accepted as u64;
        sheaves.level -= accepted + 1;
        self.note_level(limits, &mut sheaves);
        Some(object)
    }

    /// Lets `fill` write up to `count` objects on top, and count them in [`Exchanges`]. Returns the
    /// number of objects; 0 if the barn would hold more than `most` or there is no memory.
    pub(super) fn bring_in(
        &self,
        metadata: &Metadata,
        limits: &CacheLimits,
        (count, most): (usize, usize),
        fill: impl FnOnce(&mut [MaybeUninit<Object>], &mut Exchanges) -> usize,
    ) -> usize {
        let mut sheaves = self.sheaves.lock();
        let mut exchanges = sheaves.exchanges;
        let Some(room) = sheaves.room(metadata, count, most) else { return 0 };
        let filled = fill(room, &mut exchanges);
        debug_assert!(filled <= count);
        sheaves.exchanges = exchanges;
        sheaves.level += filled;
        sheaves.written = sheaves.written.max(sheaves.level);
        self.note_level(limits, &mut sheaves);
        filled
    }

    /// Takes objects off the top into `out`; returns their number. O(out) under the lock.
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

    /// Puts all `objects` on top, or puts none and returns false if the barn would hold more than
    /// `most`. O(objects) under the lock.
    pub fn put(
        &self,
        metadata: &Metadata,
        limits: &CacheLimits,
        objects: &[Object],
        most: usize,
    ) -> bool {
        let put = self.bring_in(metadata, limits, (objects.len(), most), |room, _| {
            for (place, object) in room.iter_mut().zip(objects) {
                place.write(*object);
            }
            objects.len()
        });
        put == objects.len()
    }

    #[inline]
    fn note_level(&self, limits: &CacheLimits, sheaves: &mut Sheaves) {
        sheaves.lowest = sheaves.lowest.min(sheaves.level);
        if sheaves.seen.is_high(self.sheaves.stats()) {
            self.is_contended.store(1, Relaxed);
        }
        let (bytes, announced) = (sheaves.level * sheaves.stride, self.announced.load(Relaxed));
        if bytes.abs_diff(announced) >= ANNOUNCED_BYTES || bytes == 0 && announced != 0 {
            self.announced.store(bytes, Relaxed);
            limits.barn_changed(announced, bytes);
        }
    }

    /// Objects that no CPU needed: the lowest level since the last call of this function.
    pub(crate) fn unneeded(&self) -> usize {
        let mut sheaves = self.sheaves.lock();
        let level = sheaves.level;
        core::mem::replace(&mut sheaves.lowest, level)
    }

    /// Gives back the memory of the storage's unused entries, except for [`KEPT`] of them if the
    /// barn is not empty. If the barn `is_used`, keeps twice the entries in use and [`TRIM_STEP`]
    /// more, and gives back whole steps. (Trimmed only if idle, storage kept 9 MiB after a program
    /// freed 4 million objects. With `KEPT` entries for each empty barn, a program whose sizes had
    /// moved on held 1.2 MiB at rest.)
    pub(super) fn trim_storage(&self, metadata: &Metadata, is_used: bool) {
        loop {
            let mut sheaves = self.sheaves.lock();
            let (level, written) = (sheaves.level, sheaves.written);
            let (keep, step) = match level {
                _ if is_used => (2 * level + TRIM_STEP, TRIM_STEP),
                0 => (0, 0),
                _ => (level + KEPT, 0),
            };
            let Some(storage) = sheaves.storage.filter(|_| keep + step < written) else { return };
            sheaves.written = keep.max(written.saturating_sub(TRIM_STEP));
            metadata.purge(entry(storage, sheaves.written), entry(storage, written));
        }
    }

    /// Bytes of objects, correct to within 64 KiB or one larger object. Takes no lock.
    pub fn bytes(&self) -> usize {
        self.announced.load(Relaxed)
    }

    /// Returns whether CPUs have waited for the barn since the last call that returned true.
    #[inline]
    pub(super) fn was_contended(&self) -> bool {
        self.is_contended.load(Relaxed) != 0 && self.is_contended.swap(0, Relaxed) != 0
    }

    /// Objects in the barn now, and its counts.
    pub fn look(&self) -> (u64, Exchanges) {
        let sheaves = self.sheaves.lock();
        (sheaves.level as u64, sheaves.exchanges)
    }

    /// Checks the equations at the top of this file; fails with the first that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        let sheaves = self.sheaves.lock();
        let barn = Check::of("barn");
        let is_between = sheaves.lowest <= sheaves.level
            && sheaves.level <= sheaves.written
            && sheaves.written <= sheaves.capacity;
        barn.that(is_between, "lowest <= level <= written <= capacity")?;
        let off = (sheaves.level * sheaves.stride).abs_diff(self.bytes());
        let is_near = off < ANNOUNCED_BYTES.max(sheaves.stride);
        barn.that(is_near, "bytes = bytes announced, to within a step")
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("barn->lock", &self.sheaves);
    }

    /// Counters of the barn's lock.
    pub fn lock_stats(&self) -> LockStats {
        self.sheaves.stats()
    }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;
    use crate::slab::buffer::written;
    use crate::zone::tests::fake_os;
    use proptest::prelude::*;

    /// Steps: whether a batch enters (or leaves), its objects, and the bound if it enters.
    fn steps() -> impl Strategy<Value = Vec<(bool, usize, usize)>> {
        prop::collection::vec((any::<bool>(), 1..12usize, 0..200usize), 1..200)
    }

    /// The memory of the storage goes back as objects are taken out.
    #[test]
    fn an_emptied_barn_holds_little_memory() {
        let (barn, limits) = (Barn::new(), CacheLimits::new());
        let metadata = Metadata::new(fake_os());
        barn.configure(64);
        let objects: Vec<Object> = (1..=8 * TRIM_STEP)
            .filter_map(|number| Object::new((64 * number) as *mut u8))
            .collect();
        for batch in objects.chunks(1024) {
            assert!(barn.put(&metadata, &limits, batch, objects.len()));
        }
        let mut out = vec![MaybeUninit::uninit(); 1024];
        while barn.take(&limits, &mut out) > 0 {
            barn.trim_storage(&metadata, true);
        }
        assert!(barn.sheaves.lock().written <= 2 * TRIM_STEP);
        assert_eq!(barn.validate(), Ok(()));
    }

    proptest! {
        /// The barn is a stack that refuses a batch beyond its bound, also while its storage grows.
        #[test]
        fn a_barn_is_a_stack(steps in steps()) {
            let (barn, limits) = (Barn::new(), CacheLimits::new());
            let metadata = Metadata::new(fake_os());
            barn.configure(64);
            let (mut model, mut next) = (Vec::new(), 0);
            for (enters, count, most) in steps {
                if enters {
                    let object = |number| Object::new((64 * (1 + number)) as *mut u8);
                    let batch: Vec<Object> = (next..next + count).filter_map(object).collect();
                    let fits = model.len() + count <= most;
                    prop_assert_eq!(barn.put(&metadata, &limits, &batch, most), fits);
                    if fits {
                        model.extend(batch);
                        next += count;
                    }
                } else {
                    let mut out = vec![MaybeUninit::uninit(); count];
                    let taken = barn.take(&limits, &mut out);
                    let left = model.split_off(model.len() - count.min(model.len()));
                    // SAFETY: `take` wrote the first `taken` elements.
                    prop_assert_eq!(unsafe { written(&out, taken) }, &left[..]);
                }
                prop_assert_eq!(barn.look().0, model.len() as u64);
                prop_assert_eq!(barn.validate(), Ok(()));
            }
        }
    }
}
