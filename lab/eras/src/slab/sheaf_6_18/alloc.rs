//! Allocation once `main` is empty.

use super::below::Below;
use super::cache::View;
use super::sheaf::Sheaf;
use core::mem::MaybeUninit;
use quarry_mm::slab::Count::*;
use quarry_mm::slab::written;
use quarry_sys::percpu::{Arrays, Object};

impl<P: Arrays, B: Below<P>> View<'_, P, B> {
    /// Takes an object from any source. `None` if there is no memory.
    pub(super) fn alloc_slow(&self) -> Option<Object> {
        let percpu = self.context.percpu;
        if let Some(object) = percpu.pop_unregistered(self.array()) {
            return Some(object);
        }
        if self.capacity() > 0 {
            self.open_main();
            if let Some(object) = self.exchange_empty().or_else(|| self.refill()) {
                self.own.counts.add(AllocSlow, 1);
                return Some(object);
            }
            // Another task may have filled `main`, or this thread has moved to another CPU.
            if let Some(object) = percpu.pop(self.array()) {
                return Some(object);
            }
        }
        let mut object = [MaybeUninit::uninit()];
        let taken = self.take_from_slabs(&mut object);
        // SAFETY: the slabs wrote the first `taken` elements.
        let object = *unsafe { written(&object, taken) }.first()?;
        self.own.counts.add(AllocSlow, 1);
        Some(object)
    }

    fn take_from_slabs(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        self.below.alloc(self.cache_in(), self.capacity().max(1), out)
    }

    /// Moves the objects of a sheaf into `main`, except the top one, which it returns. If `main` is
    /// not empty or has no room, the sheaf keeps all objects.
    fn hand_over(&self, sheaf: &mut Sheaf) -> Option<Object> {
        let (object, rest) = sheaf.objects().split_last()?;
        if !self.context.percpu.push_batch(self.array(), rest) {
            return None;
        }
        self.own.counts.add(BatchedIn, rest.len());
        let object = *object;
        sheaf.clear();
        Some(object)
    }

    /// Exchanges the empty `main` with `spare` if that has objects, else with a full sheaf of the
    /// barn. Returns one of the objects.
    fn exchange_empty(&self) -> Option<Object> {
        let mut spare = self.cpu().spare.try_lock()?;
        if let Some(sheaf) = spare.as_mut()
            && let Some(object) = self.hand_over(sheaf)
        {
            return Some(object);
        }
        self.barn().replace_empty(|full| self.hand_over(full))
    }

    /// Fills an empty sheaf from slabs, without a lock, and makes it `main`.
    fn refill(&self) -> Option<Object> {
        let mut sheaf = self.take_empty()?;
        let fill = |room: &mut [MaybeUninit<Object>]| {
            let capacity = self.capacity();
            let taken = self.take_from_slabs(&mut room[..capacity]);
            // The lowest address comes on top, so that objects allocated in turn are neighbours.
            room[..taken].reverse();
            taken
        };
        // SAFETY: the slabs write as many objects as they return.
        unsafe { sheaf.refill(fill) };
        // If another task has filled `main` or the thread has moved, `main` keeps its objects, and
        // the sheaf's top object serves the request.
        let object = self.hand_over(&mut sheaf);
        let object = object.or_else(|| sheaf.pop());
        self.install(sheaf);
        object
    }

    /// An empty sheaf: the running CPU's spare, one of the barn, or a new one.
    fn take_empty(&self) -> Option<Sheaf> {
        if let Some(mut spare) = self.cpu().spare.try_lock()
            && spare.as_ref().is_some_and(Sheaf::is_empty)
        {
            return spare.take();
        }
        self.barn().get_empty().or_else(|| self.new_sheaf())
    }

    /// Makes a sheaf the running CPU's spare if the present spare is missing or empty; else puts
    /// the sheaf into the barn.
    fn install(&self, sheaf: Sheaf) {
        let mut left = Some(sheaf);
        if let Some(mut spare) = self.cpu().spare.try_lock()
            && spare.as_ref().is_none_or(Sheaf::is_empty)
        {
            core::mem::swap(&mut *spare, &mut left);
        }
        match left {
            Some(sheaf) if sheaf.is_empty() => self.put_empty(sheaf),
            Some(sheaf) => self.put_full(sheaf),
            None => {}
        }
    }

    /// Fills the front of `out` from `main` and the sheaves that `main` can be exchanged with, then
    /// from slabs. Returns the number of objects.
    pub(super) fn alloc_bulk(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (percpu, array, capacity) = (self.context.percpu, self.array(), self.capacity());
        let mut taken = 0;
        if capacity > 0 {
            self.open_main();
        }
        while capacity > 0 && taken < out.len() {
            let end = out.len().min(taken + capacity);
            if percpu.pop_batch(array, &mut out[taken..end]) {
                self.own.counts.add(BatchedOut, end - taken);
                self.own.counts.add(BulkAlloc, end - taken);
                taken = end;
                continue;
            }
            let next = percpu.pop(array).or_else(|| {
                let object = self.exchange_empty();
                self.own.counts.add(AllocSlow, usize::from(object.is_some()));
                object
            });
            let Some(object) = next else { break };
            out[taken].write(object);
            taken += 1;
        }
        if taken < out.len() {
            let more = self.take_from_slabs(&mut out[taken..]);
            self.own.counts.add(AllocSlow, more);
            taken += more;
        }
        taken
    }
}
