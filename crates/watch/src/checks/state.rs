//! State of the checks of a stack.

use super::guards::{FreePlaces, GuardedObject};
use super::quarantine::Quarantine;
use super::record::{Shape, mixed};
use super::track::Tracked;
use quarry_mm::heap::{CheckFlags, CheckOptions};
use quarry_mm::slab::Late;
use quarry_mm::stack::Ring;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Objects of each class that are ready to be handed out in random order.
pub const WAYS: usize = 16;

/// Most large blocks that fault at every access after they were freed, until later blocks replace
/// them. Each takes two of the mappings that the kernel allows a process (65,530 by default).
const MOST_HIDDEN: usize = 32;

/// An object that filled a large block which was freed.
#[derive(Clone, Copy, Debug)]
pub struct Freed {
    /// True if the block is a mapping.
    pub is_mapping: bool,
    /// The position of the object in the block.
    pub shape: Shape,
    /// The threads that allocated and freed it.
    pub tracks: [Option<Tracked>; 2],
}

impl Freed {
    const NOTHING: Self = Self {
        is_mapping: false,
        shape: Shape { size: 0, front: 0, flags: CheckFlags::NONE },
        tracks: [None; 2],
    };
}

/// The checks of a stack. All zero bytes while none of them is on.
pub struct Checks {
    options: Late<CheckOptions>,
    /// Secret of the process.
    pub secret: AtomicU64,
    seed: AtomicU64,
    /// Small objects that were freed.
    pub quarantine: CountedLock<Quarantine>,
    pub(crate) hidden: CountedLock<Ring<Freed, MOST_HIDDEN>>,
    /// [`WAYS`] addresses for each size class; null without random order.
    pub shuffled: AtomicPtr<AtomicUsize>,
    /// Guard pages by sampling.
    pub guards: GuardState,
}

/// The pool of objects between guard pages.
pub struct GuardState {
    /// Its address; 0 while there is none.
    pub base: AtomicUsize,
    /// The records of its objects.
    pub objects: AtomicPtr<GuardedObject>,
    /// Objects that are free.
    pub free: CountedLock<FreePlaces>,
    /// Time of the next sample, on the coarse clock; 0 while the next request may be a sample.
    pub next_ns: AtomicU64,
}

impl Checks {
    /// No checks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            options: Late::new(),
            secret: AtomicU64::new(0),
            seed: AtomicU64::new(0),
            quarantine: CountedLock::new(Quarantine::new()),
            hidden: CountedLock::new(Ring::new(Freed::NOTHING)),
            shuffled: AtomicPtr::new(core::ptr::null_mut()),
            guards: GuardState {
                base: AtomicUsize::new(0),
                objects: AtomicPtr::new(core::ptr::null_mut()),
                free: CountedLock::new(FreePlaces::new()),
                next_ns: AtomicU64::new(0),
            },
        }
    }

    pub(crate) fn set_options(&self, options: CheckOptions) {
        let set = self.options.build(|| Ok(options));
        debug_assert!(set.is_ok(), "nothing in it can fail");
    }

    /// The options of the checks.
    #[inline]
    pub fn options(&self) -> &CheckOptions {
        self.options.get().unwrap_or(&CheckOptions::OFF)
    }

    /// Visits the locks.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("checks->quarantine", &self.quarantine);
        visit("checks->hidden", &self.hidden);
        visit("checks->guards", &self.guards.free);
    }

    /// A pseudorandom number, keyed by the secret. Two threads may get the same number.
    pub fn random(&self) -> usize {
        let next = self.seed.load(Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed.store(next, Relaxed);
        mixed(next ^ self.secret.load(Relaxed)) as usize
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}
