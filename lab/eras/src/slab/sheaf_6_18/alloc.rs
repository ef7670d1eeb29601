//! Allocation once `main` is empty.

use super::cache::{View, count};
use super::sheaf::Sheaf;
use core::mem::MaybeUninit;
use quarry_mm::slab::written;
use quarry_sys::percpu::{Arrays, Object};

impl<P: Arrays> View<'_, P> {
    /// Takes an object from any place that has one. `None` where there is no memory.
    pub(super) fn alloc_slow(&self) -> Option<Object> {
        let percpu = self.context.percpu;
        if let Some(object) = percpu.pop_unregistered(self.array()) {
            return Some(object);
        }
        if self.capacity() > 0 {
            self.open_main();
            if let Some(object) = self.exchange_empty().or_else(|| self.refill()) {
                count(&self.own.alloc_slow, 1);
                return Some(object);
            }
            // Another task may have filled `main`, or we are on another CPU now.
            if let Some(object) = percpu.pop(self.array()) {
                return Some(object);
            }
        }
        let mut object = [MaybeUninit::uninit()];
        let taken = self.take_from_slabs(&mut object);
        // SAFETY: the slabs wrote the first `taken` elements.
        let object = *unsafe { written(&object, taken) }.first()?;
        count(&self.own.alloc_slow, 1);
        Some(object)
    }

    /// Takes objects from slabs into the front of `out`; returns how many.
    fn take_from_slabs(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        self.own.slabs.alloc(self.context, self.cache, self.capacity().max(1), out).0
    }

    /// Moves the objects of a sheaf into `main`, except the top one, which it returns. Where `main`
    /// refuses them, because it is not empty or has no room, the sheaf keeps all.
    fn hand_over(&self, sheaf: &mut Sheaf) -> Option<Object> {
        let (object, rest) = sheaf.objects().split_last()?;
        if !self.context.percpu.push_batch(self.array(), rest) {
            return None;
        }
        count(&self.own.batched_in, rest.len());
        let object = *object;
        sheaf.clear();
        Some(object)
    }

    /// Exchanges `main`, which is empty, with `spare` if it has objects, or else with a full sheaf
    /// of the barn; returns one of the objects.
    fn exchange_empty(&self) -> Option<Object> {
        let mut spare = self.cpu().spare.try_lock()?;
        if let Some(sheaf) = spare.as_mut()
            && let Some(object) = self.hand_over(sheaf)
        {
            return Some(object);
        }
        self.barn().replace_empty(|full| self.hand_over(full))
    }

    /// Fills an empty sheaf from the slabs, with no lock held, and makes it `main`.
    fn refill(&self) -> Option<Object> {
        let mut sheaf = self.take_empty()?;
        let fill = |room: &mut [MaybeUninit<Object>]| {
            let capacity = self.capacity();
            let taken = self.take_from_slabs(&mut room[..capacity]);
            // Lowest address on top: what is handed out first lies together.
            room[..taken].reverse();
            taken
        };
        // SAFETY: the slabs write as many as they return.
        unsafe { sheaf.refill(fill) };
        // Another task may have filled `main` in between, or we are on another CPU; then `main`
        // serves, and the sheaf stays full.
        let object = self.hand_over(&mut sheaf);
        let object = object.or_else(|| sheaf.pop());
        self.install(sheaf);
        object
    }

    /// An empty sheaf: the running CPU's spare one, one of the barn, or a new one.
    fn take_empty(&self) -> Option<Sheaf> {
        if let Some(mut spare) = self.cpu().spare.try_lock()
            && spare.as_ref().is_some_and(Sheaf::is_empty)
        {
            return spare.take();
        }
        self.barn().get_empty().or_else(|| self.new_sheaf())
    }

    /// Gives a sheaf a place: as the running CPU's spare if that has no objects, else in the barn.
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

    /// Fills the front of `out`: from `main` and what it can be exchanged with, and from slabs once
    /// the barn has no full sheaf. Returns the number of objects.
    pub(super) fn alloc_bulk(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (percpu, array, capacity) = (self.context.percpu, self.array(), self.capacity());
        let mut taken = 0;
        if capacity > 0 {
            self.open_main();
        }
        while capacity > 0 && taken < out.len() {
            let end = out.len().min(taken + capacity);
            if percpu.pop_batch(array, &mut out[taken..end]) {
                count(&self.own.batched_out, end - taken);
                count(&self.own.bulk_alloc_fast, end - taken);
                taken = end;
                continue;
            }
            // `main` has fewer than that.
            let next = percpu.pop(array).or_else(|| {
                let object = self.exchange_empty();
                count(&self.own.alloc_slow, usize::from(object.is_some()));
                object
            });
            let Some(object) = next else { break };
            out[taken].write(object);
            taken += 1;
        }
        if taken < out.len() {
            let more = self.take_from_slabs(&mut out[taken..]);
            count(&self.own.alloc_slow, more);
            taken += more;
        }
        taken
    }
}
