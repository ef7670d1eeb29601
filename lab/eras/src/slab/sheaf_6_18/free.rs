//! Freeing once `main` is full.

use super::barn::NotReplaced;
use super::below::Below;
use super::cache::View;
use super::capacity;
use super::sheaf::Sheaf;
use crate::slab::one_cache::is_stored;
use core::mem::MaybeUninit;
use quarry_mm::slab::Count::*;
use quarry_mm::slab::{not_in_use, written};
use quarry_sys::percpu::{Arrays, Object};

/// Maximum number of objects that leave `main` in one batch (`PCS_BATCH_MAX`, Linux 6.18).
const FLUSH_BATCH: usize = 32;
/// Times that a bulk free retries when it could not put objects into `main`.
const TRIES: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicted {
    /// `main` was full; its objects have been moved elsewhere.
    Yes,
    /// `main` is unchanged: it was not full, or no place could take its objects.
    No,
    /// `main` contained the object to be freed, which is therefore not in use.
    Double,
}

impl<P: Arrays, B: Below<P>> View<'_, P, B> {
    pub(super) fn free_slow(&self, object: Object) {
        if !self.is_remote(object) {
            // On a machine with several nodes, the fast path has not tried to push.
            if (self.looks_at_frees() && self.push(object)) || self.push_unregistered(object) {
                return;
            }
            if self.capacity() > 0 && self.free_to_main(object) {
                return;
            }
        }
        self.own.counts.add(FreeSlow, 1);
        self.to_slabs(&[object]);
    }

    fn push(&self, object: Object) -> bool {
        is_stored(self.cache, object, self.context.percpu.push(self.array(), object))
    }

    /// [`push`](Self::push), for a task without a registered slot.
    fn push_unregistered(&self, object: Object) -> bool {
        is_stored(self.cache, object, self.context.percpu.push_unregistered(self.array(), object))
    }

    /// Makes room in a full `main` and puts an object there; returns whether it did.
    fn free_to_main(&self, object: Object) -> bool {
        // `push_batch` is used because this free must not count as a fast operation.
        if !self.open_main()
            && self.evict_for(object, true)
            && self.context.percpu.push_batch(self.array(), &[object])
        {
            self.own.counts.add(BatchedIn, 1);
            self.own.counts.add(FreeSlow, 1);
            return true;
        }
        // `main` was not full, or another task has filled it again.
        self.push(object)
    }

    /// Moves the objects of a full `main` elsewhere. Aborts if `object` is among them.
    fn evict_for(&self, object: Object, may_grow: bool) -> bool {
        match self.evict(object, may_grow) {
            Evicted::Yes => true,
            Evicted::No => false,
            // All locks are free here: a signal handler of the abort may allocate.
            Evicted::Double => not_in_use(self.cache, object),
        }
    }

    /// Does the same as `evict_for`, but does not abort. Without `may_grow`, uses only sheaves that
    /// exist and flushes none.
    fn evict(&self, object: Object, may_grow: bool) -> Evicted {
        let Some(mut spare) = self.cpu().spare.try_lock() else { return Evicted::No };
        let Some(sheaf) = spare.as_mut() else {
            drop(spare);
            let empty = self.barn().get_empty();
            return self.install_empty(empty, object, may_grow);
        };
        if sheaf.len() < self.capacity() {
            return self.swap(sheaf, object);
        }
        let replaced = self.barn().replace_full(|empty| self.move_main(empty, object));
        match replaced {
            Ok(evicted) => evicted,
            Err(_) if !may_grow => Evicted::No,
            Err(NotReplaced::TooManyFull) => {
                let flushed = spare.take().map(|mut sheaf| {
                    drop(spare);
                    self.flush(&mut sheaf);
                    sheaf
                });
                self.install_empty(flushed, object, may_grow)
            }
            Err(NotReplaced::NoEmpty) => {
                drop(spare);
                self.install_empty(None, object, may_grow)
            }
        }
    }

    /// Exchanges `main` with `empty`, or with a new sheaf. The full sheaf becomes the spare if
    /// there is none, else it goes into the barn. If there is no memory for a sheaf, the objects go
    /// to slabs.
    fn install_empty(&self, empty: Option<Sheaf>, object: Object, may_grow: bool) -> Evicted {
        let empty = match empty {
            None if may_grow => self.new_sheaf(),
            empty => empty,
        };
        let Some(mut empty) = empty else {
            return if may_grow { self.flush_main(object) } else { Evicted::No };
        };
        let Some(mut spare) = self.cpu().spare.try_lock() else {
            self.put_empty(empty);
            return Evicted::No;
        };
        // Another task may have set a spare meanwhile, or the thread has moved to another CPU.
        let evicted = match spare.as_mut() {
            Some(sheaf) if sheaf.len() < self.capacity() => self.swap(sheaf, object),
            _ => self.move_main(&mut empty, object),
        };
        if !empty.is_empty() && spare.is_none() {
            *spare = Some(empty);
            return evicted;
        }
        drop(spare);
        match empty.is_empty() {
            true => self.put_empty(empty),
            false => self.put_full(empty),
        }
        evicted
    }

    fn move_main(&self, sheaf: &mut Sheaf, object: Object) -> Evicted {
        let capacity = self.capacity();
        let take = |room: &mut [MaybeUninit<Object>]| {
            let is_full = self.context.percpu.pop_batch(self.array(), &mut room[..capacity]);
            if is_full { capacity } else { 0 }
        };
        // SAFETY: pop_batch writes all `capacity` elements if it succeeds.
        let moved = unsafe { sheaf.refill(take) };
        self.own.counts.add(BatchedOut, moved);
        match moved {
            0 => Evicted::No,
            // A full array refuses before it looks for a duplicate on top.
            _ if sheaf.objects().contains(&object) => Evicted::Double,
            _ => Evicted::Yes,
        }
    }

    /// Exchanges `main`, if it is full, with the spare sheaf, which has room.
    fn swap(&self, spare: &mut Sheaf, object: Object) -> Evicted {
        if spare.is_empty() {
            return self.move_main(spare, object);
        }
        let (percpu, capacity) = (self.context.percpu, self.capacity());
        let mut main = [MaybeUninit::uninit(); capacity::MOST];
        if !percpu.pop_batch(self.array(), &mut main[..capacity]) {
            return Evicted::No;
        }
        self.own.counts.add(BatchedOut, capacity);
        // SAFETY: pop_batch wrote all `capacity` elements.
        let full = unsafe { written(&main, capacity) };
        if full.contains(&object) {
            return Evicted::Double;
        }
        if !percpu.push_batch(self.array(), spare.objects()) {
            // Another task has filled `main` meanwhile.
            self.to_slabs(full);
            return Evicted::No;
        }
        self.own.counts.add(BatchedIn, spare.len());
        let fill = |room: &mut [MaybeUninit<Object>]| {
            room[..capacity].copy_from_slice(&main[..capacity]);
            capacity
        };
        // SAFETY: the first `capacity` elements of `main` are written.
        unsafe { spare.refill(fill) };
        Evicted::Yes
    }

    /// Gives the objects of `main` to their slabs (`sheaf_flush_main`).
    fn flush_main(&self, object: Object) -> Evicted {
        let batch = FLUSH_BATCH.min(self.capacity());
        let mut evicted = Evicted::No;
        let mut buffer = [MaybeUninit::uninit(); FLUSH_BATCH];
        while self.context.percpu.pop_batch(self.array(), &mut buffer[..batch]) {
            self.own.counts.add(BatchedOut, batch);
            // SAFETY: pop_batch wrote all `batch` elements.
            let objects = unsafe { written(&buffer, batch) };
            if objects.contains(&object) {
                return Evicted::Double;
            }
            self.to_slabs(objects);
            evicted = Evicted::Yes;
        }
        evicted
    }

    /// Frees objects into `main` and the sheaves that `main` can be exchanged with; objects that
    /// these cannot take go to slabs.
    pub(super) fn free_bulk(&self, objects: &[Object]) {
        let mut rest = objects;
        while let Some(&first) = rest.first() {
            let is_remote = self.is_remote(first);
            let is_alike = |object: &&Object| self.is_remote(**object) == is_remote;
            let (alike, others) = rest.split_at(rest.iter().take_while(is_alike).count());
            let left = if is_remote { alike } else { self.bulk_to_main(alike) };
            if !left.is_empty() {
                self.own.counts.add(FreeSlow, left.len());
                self.to_slabs(left);
            }
            rest = others;
        }
    }

    /// Puts objects into `main` as long as it can be emptied; returns the remaining objects.
    fn bulk_to_main<'o>(&self, objects: &'o [Object]) -> &'o [Object] {
        let (percpu, array, capacity) = (self.context.percpu, self.array(), self.capacity());
        if capacity == 0 {
            return objects;
        }
        self.open_main();
        let (mut rest, mut tries) = (objects, TRIES);
        while let Some(&first) = rest.first() {
            let level = percpu.area().slot_level(percpu.current(), array) as usize;
            let fits = capacity.saturating_sub(level).min(rest.len());
            if fits > 0 && percpu.push_batch(array, &rest[..fits]) {
                self.own.counts.add(BatchedIn, fits);
                self.own.counts.add(BulkFree, fits);
                rest = &rest[fits..];
            } else if !self.evict_for(first, false) {
                tries -= 1;
                if tries == 0 {
                    break;
                }
            }
        }
        rest
    }
}
