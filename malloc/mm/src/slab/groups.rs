//! The groups into which a cache divides the CPUs, each with a shard of its own: one, until CPUs
//! wait for each other; then twice as many each time, down to [`GROUP_CPUS`] CPUs in a group.
//!
//! CPU `n` is in group `n mod count`, so a group that splits leaves its shard to one half of its
//! CPUs. If the count falls again, shards without a group remain, and others take what is in them.

use crate::frame::{Metadata, MetadataKind};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// CPUs of a group on average. (With 4, `phases` takes 1.27 of the time on 16 simulated CPUs.)
const GROUP_CPUS: usize = if cfg!(quarry_model) { 1 } else { 2 };

/// A set of shards, in a cache line of its own. Only a hint: members may be missing or wrong until
/// their next change.
#[repr(align(64))]
pub(crate) struct ShardSet(AtomicU64);

impl ShardSet {
    /// Puts a shard into the set, or takes it out.
    #[inline]
    pub(super) fn set(&self, shard: usize, is_in: bool) {
        let bit = 1 << shard;
        if (self.0.load(Relaxed) & bit != 0) == is_in {
            return;
        }
        if is_in {
            self.0.fetch_or(bit, Relaxed);
        } else {
            self.0.fetch_and(!bit, Relaxed);
        }
    }

    #[inline]
    pub(super) fn has(&self, shard: usize) -> bool {
        self.0.load(Relaxed) >> shard & 1 == 1
    }
}

/// All of `count` shards but `own`, from the one behind it on.
pub(super) fn others(own: usize, count: usize) -> impl Iterator<Item = usize> {
    (1..count).map(move |step| (own + step) % count)
}

/// Hints that groups give each other, once there are several.
pub(crate) struct Hints {
    /// Shards whose slabs have objects to spare.
    pub(super) spare: ShardSet,
    /// Shards whose barns hold objects.
    pub(super) filled: ShardSet,
}

/// The groups of one cache. All CPUs read them, and hardly any writes. Zero bytes are one group.
pub(crate) struct Groups {
    /// `count - 1`, so that a mask is at hand: `count` is a power of two.
    mask: AtomicU32,
    /// One of the states below.
    state: AtomicU32,
    hints: AtomicPtr<Hints>,
}

const CALM: u32 = 0;
const CONTENDED: u32 = 1;
const CHANGING: u32 = 2;
/// Contended, but with too few CPUs for more groups.
const SPLIT_UP: u32 = 3;

impl Groups {
    pub(super) const fn new() -> Self {
        Self {
            mask: AtomicU32::new(0),
            state: AtomicU32::new(CALM),
            hints: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The hints; `None` where there was only one group so far.
    #[inline]
    pub(super) fn hints(&self) -> Option<&Hints> {
        // SAFETY: null, or hints in metadata, whose memory is never given back.
        unsafe { self.hints.load(Acquire).as_ref() }
    }

    /// The number of groups.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.mask.load(Acquire) as usize + 1
    }

    /// The group of a CPU; `slot` is called if there are several groups.
    #[inline]
    pub(super) fn of(&self, slot: impl FnOnce() -> SlotIndex) -> usize {
        match self.mask.load(Acquire) as usize {
            0 => 0,
            mask => slot().index() & mask,
        }
    }

    /// Notes that a lock of a shard was contended.
    #[cold]
    pub(super) fn note_contended(&self) {
        let _ = self.state.compare_exchange(CALM, CONTENDED, Relaxed, Relaxed);
    }

    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.state.load(Relaxed) == CONTENDED
    }

    /// Makes twice as many groups, at most `most`, after `make` has made a shard for each, if
    /// `cpus` CPUs are enough for them, and the groups are contended.
    #[cold]
    pub(super) fn split(
        &self,
        (cpus, most): (usize, usize),
        metadata: &Metadata,
        make: impl FnOnce(usize) -> OsResult<()>,
    ) {
        if self.state.compare_exchange(CONTENDED, CHANGING, Acquire, Relaxed).is_err() {
            return;
        }
        let count = self.count() * 2;
        let may = count <= most && count * GROUP_CPUS <= cpus;
        let has_split = may && self.make_hints(metadata).and_then(|()| make(count)).is_ok();
        if has_split {
            self.mask.store(count as u32 - 1, Release);
        }
        self.state.store(if has_split { CALM } else { SPLIT_UP }, Release);
    }

    fn make_hints(&self, metadata: &Metadata) -> OsResult<()> {
        if self.hints().is_none() {
            let (bytes, align) = (size_of::<Hints>(), align_of::<Hints>());
            let hints = metadata.alloc(bytes, align, MetadataKind::CpuSlabs)?;
            // Zero bytes are empty sets.
            self.hints.store(hints.as_ptr().cast(), Release);
        }
        Ok(())
    }

    /// Makes so few groups that `cpus` CPUs are enough for them, and lets contention split them
    /// again.
    #[inline(never)]
    pub(super) fn join(&self, cpus: usize) {
        if self.state.swap(CHANGING, Acquire) == CHANGING {
            return;
        }
        let most = (cpus / GROUP_CPUS).max(1);
        let count = self.count().min(1 << most.ilog2());
        self.mask.store(count as u32 - 1, Release);
        self.state.store(CALM, Release);
    }
}
