//! What the checks of a stack remember.

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

/// Objects of a class that wait to be handed out in random order.
pub const WAYS: usize = 16;

/// Most large blocks that fault at every access after they were freed, until later ones take their
/// places. Each takes two of the mappings that the kernel allows a process (65,530 by default).
const MOST_HIDDEN: usize = 32;

/// An object that filled a large block which was freed.
#[derive(Clone, Copy, Debug)]
pub struct Freed {
    /// Whether the block is a mapping.
    pub is_mapping: bool,
    /// How the object lay in it.
    pub shape: Shape,
    /// Who allocated it, and who freed it.
    pub tracks: [Option<Tracked>; 2],
}

impl Freed {
    /// All zero bytes.
    const NOTHING: Self = Self {
        is_mapping: false,
        shape: Shape { size: 0, front: 0, flags: CheckFlags::NONE },
        tracks: [None; 2],
    };
}

/// The checks of a stack. All zero bytes where none is on.
pub struct Checks {
    options: Late<CheckOptions>,
    /// Known to nobody outside of the process.
    pub secret: AtomicU64,
    seed: AtomicU64,
    /// Small objects that were freed.
    pub quarantine: CountedLock<Quarantine>,
    /// Large ones.
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
    /// What is known of its objects.
    pub objects: AtomicPtr<GuardedObject>,
    /// Those that may be taken.
    pub free: CountedLock<FreePlaces>,
    /// When the next sample is due, on the coarse clock; 0 while the next request may be one.
    pub next_ns: AtomicU64,
}

impl Checks {
    /// Nothing.
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

    /// Writes down which checks are on, before the first request.
    pub(crate) fn set_options(&self, options: CheckOptions) {
        let set = self.options.build(|| Ok(options));
        debug_assert!(set.is_ok(), "nothing in it can fail");
    }

    /// The checks that are on.
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

    /// A number that follows from those before it and from the secret. Two threads may get the
    /// same one.
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
