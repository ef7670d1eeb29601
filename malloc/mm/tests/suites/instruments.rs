//! Instruments switched on and off while a heap is used.

use crate::support::{Backing, Bed, VirtualConfig, small};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::heap::{CheckOptions, Sampling};
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Instrument, Stack, StackHost, Watch};
use quarry_sys::os::Linux;
use quarry_sys::percpu::Object;

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const ALL: [Instrument; 4] =
    [Instrument::Profile, Instrument::Guard, Instrument::Debug, Instrument::Harden];

fn bed() -> HeapBed {
    HeapBed::new(Backing::Linux, 4096, 2, &StackOptions { heap: true, ..small() })
}

fn objects(bed: &HeapBed) -> Vec<Object> {
    let sizes = (0..200).map(|step| step * 37).chain([100_000, 3 << 20]);
    sizes.map(|size| bed.stack.alloc(size).expect("there is memory")).collect()
}

fn free(bed: &HeapBed, objects: Vec<Object>) {
    for object in objects {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
}

#[test]
fn while_one_is_on_every_request_takes_its_slow_entry() {
    for instrument in ALL {
        let bed = bed();
        let held = |bed: &HeapBed| bed.stack.stats().slots.held_bytes;
        let before = objects(&bed);
        bed.stack.switch_instrument(instrument, true);
        assert!(bed.stack.instruments.has(instrument));
        let sees_frees = matches!(instrument, Instrument::Debug | Instrument::Harden);
        assert_eq!(bed.stack.fast.usable(before[9]).is_none(), sees_frees);
        free(&bed, before);
        let parked = held(&bed);
        assert!(parked > 0);
        let during = objects(&bed);
        for size in [0, 1, 100, 8192] {
            assert_eq!(bed.stack.fast.alloc(size), None, "{instrument:?}, {size} bytes");
        }
        assert!(held(&bed) < parked, "what the arrays hold serves first");
        bed.stack.switch_instrument(instrument, false);
        free(&bed, during);
        assert!(bed.stack.fast.alloc(100).map(|object| free(&bed, vec![object])).is_some());
        assert_eq!(bed.stack.validate(), Ok(()));
    }
}

#[test]
fn one_that_goes_off_leaves_the_others_on() {
    let bed = bed();
    bed.stack.switch_instrument(Instrument::Debug, true);
    bed.stack.switch_instrument(Instrument::Profile, true);
    bed.stack.switch_instrument(Instrument::Profile, false);
    assert_eq!(bed.stack.fast.alloc(100), None);
    assert!(!bed.stack.instruments.has(Instrument::Profile));
    // When the window grows, the fast path of `free` still refuses addresses.
    let many: Vec<_> = (0..40).map(|_| bed.stack.alloc(1 << 20).expect("memory")).collect();
    assert_eq!(bed.stack.fast.usable(many[39]), None);
    free(&bed, many);
    let object = bed.stack.alloc(64).expect("memory");
    assert_eq!(bed.stack.fast.usable(object), None);
    assert_eq!(bed.stack.usable_size(object).unwrap(), 64);
    free(&bed, vec![object]);
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// If a program takes fast paths only, an object becomes a sample because other code calls `tick`.
#[test]
fn upkeep_lets_the_next_request_be_a_sample() {
    let mut options = StackOptions { heap: true, ..small() };
    options.checks = CheckOptions { guard: Sampling::Each(1), ..CheckOptions::OFF };
    // Guard pages must fault, but the pages of a bed do not.
    let stack = Box::leak(Box::new(Stack::<VirtualConfig<Sheaf>>::new()));
    stack.percpu().choice().declare(1, || 0);
    stack.init(&Linux, &options, &Default::default()).expect("memory");
    assert!(stack.instruments.has(Instrument::Guard));
    for _ in 0..3 {
        while !stack.instruments.has(Instrument::Guard) {
            stack.watch.tick(stack);
        }
        let sample = stack.alloc(100).expect("memory");
        assert!(!stack.instruments.has(Instrument::Guard), "the sample has been taken");
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { stack.free(sample) };
    }
}
