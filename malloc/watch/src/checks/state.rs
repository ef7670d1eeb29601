//! The state of a stack's checks.

use super::guards::{FreePlaces, GuardedObject};
use super::quarantine::Quarantine;
use super::record::{Shape, mixed};
use super::track::Tracked;
use super::zero_sized::ZeroSized;
use core::ops::Deref;
use quarry_mm::heap::{CheckFlags, CheckOptions};
use quarry_mm::slab::Late;
use quarry_mm::stack::Ring;
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::{AnyLock, Visit};
use quarry_sys::primitive::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Maximum number of objects per size class that are kept ready for allocation in random order, on
/// each stripe.
pub(crate) const WAYS: usize = 16;
/// Hardened allocations and frees of a CPU use the stripe of its number modulo this, so that CPUs
/// seldom share cache lines and locks.
pub(crate) const STRIPES: usize = 4;

/// Maximum number of freed large blocks that are kept inaccessible, until later ones replace them.
/// Each takes two of the VMAs that the kernel allows a process (65,530 by default).
const MOST_HIDDEN: usize = 32;

/// A freed object whose large block is kept inaccessible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) is_mapping: bool,
    pub(crate) shape: Shape,
    pub(crate) tracks: [Option<Tracked>; 2],
}

impl Freed {
    const NOTHING: Self = Self {
        is_mapping: false,
        shape: Shape { size: 0, front: 0, flags: CheckFlags::NONE },
        tracks: [None; 2],
    };
}

/// See [`STRIPES`].
#[repr(align(128))]
pub(crate) struct Stripe {
    seed: AtomicU64,
    /// Small objects that were freed, and large ones that are not hidden. Threads also take this
    /// lock outside the gate.
    pub(crate) quarantine: OutsideGate,
}

impl Stripe {
    const fn new() -> Self {
        Self {
            seed: AtomicU64::new(0),
            quarantine: OutsideGate(CountedLock::new(Quarantine::new())),
        }
    }
}

/// The lock of a quarantine, which threads also take outside the gate.
pub(crate) struct OutsideGate(CountedLock<Quarantine>);

impl Deref for OutsideGate {
    type Target = CountedLock<Quarantine>;

    fn deref(&self) -> &CountedLock<Quarantine> {
        &self.0
    }
}

impl AnyLock for OutsideGate {
    fn is_free(&self) -> bool {
        AnyLock::is_free(&self.0)
    }

    fn stats(&self) -> Option<LockStats> {
        AnyLock::stats(&self.0)
    }

    /// In the child of a fork, a quarantine that another thread was about to change is empty: the
    /// child loses the objects in it.
    fn adopt_in_child(&self) {
        self.0.adopt(Quarantine::forget);
    }
}

/// The checks of a stack. All zero bytes while none of them is on.
pub struct Checks {
    pub(crate) options: Late<CheckOptions>,
    pub(crate) secret: AtomicU64,
    /// True if all objects have the checks of `QUARRY_HARDEN`, and no others.
    pub(crate) is_hardened: AtomicBool,
    pub(crate) stripes: [Stripe; STRIPES],
    pub(crate) hidden: CountedLock<Ring<Freed, MOST_HIDDEN>>,
    /// [`WAYS`] addresses for each size class, on each stripe; null if allocations have no random
    /// order.
    pub(crate) shuffled: AtomicPtr<AtomicUsize>,
    pub(crate) guards: GuardState,
    pub(crate) zero_sized: ZeroSized,
}

/// The pool of objects between guard pages.
pub(crate) struct GuardState {
    /// The pool's address; 0 without a pool.
    pub(crate) base: AtomicUsize,
    /// Bytes of each page of the pool.
    pub(crate) page: AtomicUsize,
    pub(crate) objects: AtomicPtr<GuardedObject>,
    pub(crate) free: CountedLock<FreePlaces>,
    /// Time of the next sample, by the coarse clock; 0 if the next request may be a sample.
    pub(crate) next_ns: AtomicU64,
}

impl Checks {
    pub(crate) const fn new() -> Self {
        Self {
            options: Late::new(),
            secret: AtomicU64::new(0),
            is_hardened: AtomicBool::new(false),
            stripes: [const { Stripe::new() }; STRIPES],
            hidden: CountedLock::new(Ring::new(Freed::NOTHING)),
            shuffled: AtomicPtr::new(core::ptr::null_mut()),
            guards: GuardState {
                base: AtomicUsize::new(0),
                page: AtomicUsize::new(0),
                objects: AtomicPtr::new(core::ptr::null_mut()),
                free: CountedLock::new(FreePlaces::new()),
                next_ns: AtomicU64::new(0),
            },
            zero_sized: ZeroSized::new(),
        }
    }

    #[inline]
    pub(crate) fn options(&self) -> &CheckOptions {
        self.options.get().unwrap_or(&CheckOptions::OFF)
    }

    pub(crate) fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.stripes.iter().for_each(|stripe| visit("checks->quarantine", &stripe.quarantine));
        visit("checks->hidden", &self.hidden);
        visit("checks->guards", &self.guards.free);
    }

    /// A pseudorandom number that depends on the secret. Two threads may get the same number.
    pub(crate) fn random(&self, stripe: usize) -> usize {
        let seed = &self.stripes[stripe].seed;
        let next = seed.load(Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        seed.store(next, Relaxed);
        mixed(next ^ self.secret.load(Relaxed).rotate_left(stripe as u32)) as usize
    }
}
