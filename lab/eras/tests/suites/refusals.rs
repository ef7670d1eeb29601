//! A system that refuses one call: a request refused for this succeeds when it is made again.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_eras::slab::{Slam, Slub4_9};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{CacheOptions, CacheParams, SlabPolicy};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::VirtualSlots;

/// Lets another call fail in each round, until a round has fewer calls.
fn survives<S: SlabPolicy<VirtualSlots> + 'static>(options: &StackOptions) {
    on_cpu(0);
    for nth in 1.. {
        let bed = Bed::<VirtualConfig<S>>::new(Backing::Fake, 4096, 2, options);
        let before = bed.os.calls();
        bed.os.fail(nth, 1);
        let params = CacheParams { size: 512, align: 16 };
        let create = || bed.stack.create_cache("test", &params, &CacheOptions::default());
        let id = create().or_else(|_| create()).expect("only one call fails");
        let mut objects = Vec::new();
        let mut refused = 0;
        for _ in 0..200 {
            match bed.stack.cache(id).alloc() {
                Some(object) => objects.push(object),
                None => refused += 1,
            }
        }
        assert!(refused <= 1, "only one call fails");
        assert_eq!(bed.stack.validate(), Ok(()));
        for object in objects {
            // SAFETY: the object was just allocated, and only this loop frees it.
            unsafe { bed.stack.cache(id).free(object) };
        }
        bed.assert_empty(&[id]);
        if bed.os.calls() - before < nth {
            return;
        }
    }
}

#[test]
fn slam_survives_a_refusal_wherever_it_comes() {
    survives::<Slam>(&StackOptions { heap: false, ..small() });
}

#[test]
fn slub_survives_a_refusal_wherever_it_comes() {
    let mut options = small();
    options.pages.declared_cpus = 16;
    survives::<Slub4_9>(&options);
}
