//! What the checks of a stack remember.

use super::guards::{FreePlaces, GuardedObject};
use super::hidden::Hidden;
use super::quarantine::Quarantine;
use super::record::mixed;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Objects of a class that wait to be handed out in random order.
pub const WAYS: usize = 16;

/// See the module. All zero bytes in a stack without checks.
pub struct CheckState {
    /// Known to nobody outside of the process.
    pub secret: AtomicU64,
    seed: AtomicU64,
    /// Small objects that were freed.
    pub quarantine: CountedLock<Quarantine>,
    /// Large ones.
    pub hidden: CountedLock<Hidden>,
    /// [`WAYS`] addresses for each size class; null without random order.
    pub shuffled: AtomicPtr<AtomicUsize>,
    /// Guard pages by sampling.
    pub guards: GuardState,
    /// Frees that named a wrong size, and went on.
    pub wrong_sizes: AtomicU64,
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

impl CheckState {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            secret: AtomicU64::new(0),
            seed: AtomicU64::new(0),
            quarantine: CountedLock::new(Quarantine::new()),
            hidden: CountedLock::new(Hidden::new()),
            shuffled: AtomicPtr::new(core::ptr::null_mut()),
            guards: GuardState {
                base: AtomicUsize::new(0),
                objects: AtomicPtr::new(core::ptr::null_mut()),
                free: CountedLock::new(FreePlaces::new()),
                next_ns: AtomicU64::new(0),
            },
            wrong_sizes: AtomicU64::new(0),
        }
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

impl Default for CheckState {
    fn default() -> Self {
        Self::new()
    }
}
