//! Pointers that cannot be freed, under each version of `slub`, as in `misuse`.

use crate::support::aborting::{NOT_IN_USE, SIZE, aborts_in};
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabPolicy};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Object, VirtualSlots};

type SlubBed<S> = Bed<VirtualConfig<S>>;

/// A slab of which three objects are in use, and CPU 1 has freed the first of the four returned.
fn slab<S: SlabPolicy<VirtualSlots> + 'static>() -> (SlubBed<S>, CacheId, Vec<Object>) {
    let bed = SlubBed::<S>::new(Backing::Fake, 4096, 2, &small());
    let id = bed
        .stack
        .create_cache("misuse", &CacheParams { size: SIZE, align: 16 }, &CacheOptions::default())
        .unwrap();
    on_cpu(0);
    let objects: Vec<_> = (0..4).map(|_| bed.stack.cache(id).alloc().unwrap()).collect();
    on_cpu(1);
    // SAFETY: it was live and is freed once.
    unsafe { bed.stack.cache(id).free(objects[0]) };
    (bed, id, objects)
}

fn twice<S: SlabPolicy<VirtualSlots> + 'static>() {
    let (bed, id, objects) = slab::<S>();
    // SAFETY: the error under test. The object heads its slab's free list, which the stack detects.
    unsafe { bed.stack.cache(id).free(objects[0]) };
}

fn into_a_slab_given_back<S: SlabPolicy<VirtualSlots> + 'static>() {
    let (bed, id, objects) = slab::<S>();
    for &object in &objects[1..] {
        // SAFETY: they were live and are freed once.
        unsafe { bed.stack.cache(id).free(object) };
    }
    bed.stack.cache(id).shrink();
    // SAFETY: the error under test. The object's slab is gone, which the stack detects.
    unsafe { bed.stack.cache(id).free(objects[2]) };
}

fn more_than_in_use<S: SlabPolicy<VirtualSlots> + 'static>() {
    let (bed, id, objects) = slab::<S>();
    on_cpu(0);
    bed.stack.cache(id).shrink();
    on_cpu(1);
    for &object in objects[1..].iter().chain(&objects[1..]) {
        // SAFETY: live in the first round. In the second, the error under test, none is in use.
        unsafe { bed.stack.cache(id).free(object) };
    }
}

fn a_written_link<S: SlabPolicy<VirtualSlots> + 'static>() {
    let (bed, id, objects) = slab::<S>();
    // SAFETY: it was live and is freed once.
    unsafe { bed.stack.cache(id).free(objects[1]) };
    // SAFETY: the error under test, but the object's memory is mapped.
    unsafe { objects[1].cast::<u64>().write(0x4141_4141_4141_4141) };
    on_cpu(0);
    // CPU 0 takes the objects that were freed into its slab once its own list is used up.
    while bed.stack.cache(id).alloc().is_some() {}
}

/// Each case ends the process, so it runs as an ignored test in a process of its own.
macro_rules! stamp {
    ($($name:ident: $policy:ident;)+) => {$(
        mod $name {
            use super::{NOT_IN_USE, aborts_in};
            use quarry_eras::slab::$policy;

            const SUITE: &str = concat!("slub_misuse::", stringify!($name));

            #[test]
            fn twice_into_its_slab() {
                aborts_in(SUITE, "freed_twice", NOT_IN_USE);
            }

            #[test]
            #[ignore = "run by the test above: it aborts"]
            fn freed_twice() {
                super::twice::<$policy>();
            }

            #[test]
            fn into_a_slab_that_was_given_back() {
                aborts_in(SUITE, "freed_into_a_slab_given_back", NOT_IN_USE);
            }

            #[test]
            #[ignore = "run by the test above: it aborts"]
            fn freed_into_a_slab_given_back() {
                super::into_a_slab_given_back::<$policy>();
            }

            #[test]
            fn more_objects_than_are_in_use() {
                aborts_in(SUITE, "freed_more_than_in_use", NOT_IN_USE);
            }

            #[test]
            #[ignore = "run by the test above: it aborts"]
            fn freed_more_than_in_use() {
                super::more_than_in_use::<$policy>();
            }

            #[test]
            fn a_link_that_was_written_to() {
                let line = ": overwritten: the program wrote to an object of 48 bytes that is free";
                aborts_in(SUITE, "walked_into_a_written_link", line);
            }

            #[test]
            #[ignore = "run by the test above: it aborts"]
            fn walked_into_a_written_link() {
                super::a_written_link::<$policy>();
            }
        }
    )+};
}

stamp! {
    slub_2_6_29: Slub2_6_29;
    slub_3_0: Slub3_0;
    slub_3_1: Slub3_1;
    slub_4_9: Slub4_9;
}
