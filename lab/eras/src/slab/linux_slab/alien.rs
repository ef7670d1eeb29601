//! An alien array: objects of another node's memory that CPUs of one node have freed. A full array
//! goes to its home node as a whole (`alloc_alien_cache`, Linux 2.6.16).
//!
//! Equation: `level <= most`; the first `level` entries are objects whose memory is of the array's
//! home node.

use super::tuning::ALIEN_LIMIT;
use core::mem::MaybeUninit;
use quarry_mm::frame::FreshZero;
use quarry_mm::slab::written;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;

/// Objects that are in an alien array, or leave it together. The oldest comes first.
#[derive(Clone, Copy)]
pub(super) struct Aliens {
    entries: [MaybeUninit<Object>; ALIEN_LIMIT],
    level: usize,
}

impl Aliens {
    pub(super) fn objects(&self) -> &[Object] {
        // SAFETY: the first `level` entries are written.
        unsafe { written(&self.entries, self.level) }
    }
}

struct Inside {
    aliens: Aliens,
    frees: u64,
}

#[repr(C, align(64))]
pub(super) struct AlienArray {
    inside: CountedLock<Inside>,
}

// SAFETY: the array owns the objects in it, and they are reached only under its lock.
unsafe impl Send for Inside {}
// SAFETY: a free lock around an empty array and counters of 0 are all zero bytes.
unsafe impl FreshZero for AlienArray {}

pub(super) enum Freed {
    /// The object is now in the array. If the array was full before, this value has its former
    /// objects, and the caller must bring them home.
    Stored(Aliens),
    Duplicate,
}

const EMPTY: Aliens = Aliens { entries: [MaybeUninit::uninit(); ALIEN_LIMIT], level: 0 };

impl AlienArray {
    /// Puts an object into the array, which may hold `most` objects. If the array is full, first
    /// takes all of them out and returns them. O(most).
    pub(super) fn free(&self, object: Object, most: usize) -> Freed {
        let mut inside = self.inside.lock();
        if inside.aliens.objects().contains(&object) {
            return Freed::Duplicate;
        }
        let mut leaving = EMPTY;
        if inside.aliens.level == most {
            leaving = core::mem::replace(&mut inside.aliens, EMPTY);
        }
        let level = inside.aliens.level;
        inside.aliens.entries[level].write(object);
        inside.aliens.level += 1;
        inside.frees += 1;
        Freed::Stored(leaving)
    }

    pub(super) fn take(&self) -> Aliens {
        core::mem::replace(&mut self.inside.lock().aliens, EMPTY)
    }

    /// Takes all objects out, or nothing if another thread holds the lock (`reap_alien`).
    pub(super) fn try_take(&self) -> Aliens {
        match self.inside.try_lock() {
            Some(mut inside) => core::mem::replace(&mut inside.aliens, EMPTY),
            None => EMPTY,
        }
    }

    /// Number of objects in the array, and number of objects that were ever freed into it.
    pub(super) fn counts(&self) -> (u64, u64) {
        let inside = self.inside.lock();
        (inside.aliens.level as u64, inside.frees)
    }

    pub(super) fn look(&self) -> Aliens {
        self.inside.lock().aliens
    }

    pub(super) fn restart(&self) {
        self.inside.lock().frees = 0;
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slab->alien", &self.inside);
    }
}
