//! The figures of a heap, compared with the objects that its callers hold.

use crate::support::seed::{Dice, seed};
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::heap::LARGEST_BLOCK;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::{Object, VirtualSlots};

/// A heap on two CPUs, and the objects that its callers hold.
struct Holder<S: SlabPolicy<VirtualSlots> + 'static> {
    bed: Bed<VirtualConfig<S>>,
    held: Vec<Object>,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Holder<S> {
    fn new() -> Self {
        let mut options = StackOptions { heap: true, ..small() };
        options.pages.reserve_bytes = 256 << 20;
        Self { bed: Bed::new(Backing::Linux, 4096, 2, &options), held: Vec::new() }
    }

    fn alloc(&mut self, size: usize) {
        self.held.push(self.bed.stack.alloc(size).expect("there is memory"));
    }

    fn free(&mut self, index: usize) {
        let object = self.held.swap_remove(index);
        // SAFETY: the object was live, and only `held` had it.
        unsafe { self.bed.stack.free(object) };
    }

    /// Checks the figures, which are exact while no other thread is at work.
    fn check(&self) {
        let stack = &self.bed.stack;
        let usage = stack.stats().heap;
        let sizes = || self.held.iter().map(|object| stack.usable_size(*object).unwrap());
        let used: usize = sizes().filter(|size| *size <= LARGEST_BLOCK).sum();
        let mapped: usize = sizes().filter(|size| *size > LARGEST_BLOCK).sum();
        assert_eq!(usage.used_bytes, used, "{usage:?}");
        // A kept mapping that serves again stays charged for the largest part that was in use.
        assert!(usage.mapped_bytes >= mapped, "{mapped} bytes mapped: {usage:?}");
        assert_eq!(usage.mapped_bytes == 0, mapped == 0, "{usage:?}");
        assert_eq!(usage.used_bytes + usage.free_bytes, usage.arena_bytes, "{usage:?}");
        assert!(usage.parked_bytes <= usage.free_bytes, "{usage:?}");
        assert!(usage.arena_bytes + usage.mapped_bytes <= usage.address_space_bytes, "{usage:?}");
        let memory = stack.stats().memory;
        assert_eq!(usage.used_bytes, memory.objects + memory.blocks, "{usage:?}, {memory:?}");
        assert_eq!(usage.mapped_bytes, memory.mappings, "{usage:?}, {memory:?}");
        assert_eq!(usage.parked_bytes, memory.parked, "{usage:?}, {memory:?}");
    }

    fn finish(mut self) {
        while !self.held.is_empty() {
            self.free(0);
        }
        self.check();
        self.bed.assert_empty(&[]);
        self.check();
    }
}

fn one_object_is_what_it_takes<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut holder = Holder::<S>::new();
    on_cpu(0);
    holder.check();
    holder.alloc(64);
    assert_eq!(holder.bed.stack.stats().heap.used_bytes, 64);
    holder.check();
    holder.finish();
}

fn what_is_in_use_is_what_callers_hold<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut holder = Holder::<S>::new();
    let mut dice = Dice::new(seed());
    for step in 0..6000 {
        on_cpu(dice.below(2) as u32);
        let bits = if dice.below(40) == 0 { 16 + dice.below(6) } else { 4 + dice.below(11) };
        match dice.below(2) {
            0 if !holder.held.is_empty() => holder.free(dice.below(holder.held.len())),
            _ => holder.alloc((1 << bits) + dice.below(1 << bits)),
        }
        if step % 100 == 0 {
            holder.check();
        }
        if step % 1500 == 0 {
            let _ = holder.bed.stack.trim();
            holder.check();
        }
    }
    holder.finish();
}

#[test]
fn figures_of_one_object() {
    macro_rules! each {
        ($($name:ident: $text:literal, $policy:ty;)*) => {
            $(one_object_is_what_it_takes::<$policy>();)*
        };
    }
    slab_policies!(each);
}

#[test]
fn figures_of_many() {
    macro_rules! each {
        ($($name:ident: $text:literal, $policy:ty;)*) => {
            $(what_is_in_use_is_what_callers_hold::<$policy>();)*
        };
    }
    slab_policies!(each);
}
