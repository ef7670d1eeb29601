//! Collections in Quarry's memory and in heaps, by the traits of `allocator-api2`.
#![cfg(all(feature = "heaps", feature = "allocator-api2"))]

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use hashbrown::{DefaultHashBuilder, HashMap};
use quarry::{Heap, Quarry};

/// Fills an allocation with bytes that depend on their place.
fn fill(memory: NonNull<[u8]>) {
    // SAFETY: the test has just got the memory.
    let bytes = unsafe { memory.as_ptr().as_mut().expect("it is not null") };
    (0_u8..=250).cycle().zip(bytes).for_each(|(value, byte)| *byte = value);
}

fn is_filled(memory: NonNull<[u8]>, bytes: usize) -> bool {
    // SAFETY: as for `fill`, which has written the bytes.
    let all = unsafe { memory.as_ref() };
    (0_u8..=250).cycle().zip(&all[..bytes]).all(|(value, byte)| value == *byte)
}

/// Resizes an allocation through all kinds of sizes and alignments, and looks at its bytes.
fn keeps_what_it_resizes(allocator: &impl Allocator) -> Result<(), AllocError> {
    let mut layout = Layout::from_size_align(100, 8).expect("a layout");
    let mut memory = allocator.allocate(layout)?;
    fill(memory);
    for (size, align) in [
        (100, 64),
        (1000, 8),
        (0, 8),
        (40_000, 4096),
        (3 << 20, 16),
        (5 << 20, 2 << 20),
        (50, 1),
        (0, 1),
        (0, 4096),
        (17, 4096),
    ] {
        let new = Layout::from_size_align(size, align).expect("a layout");
        let pointer = memory.cast();
        // SAFETY: the allocator gave this memory with this layout; its old place is not used.
        memory = unsafe {
            if size >= layout.size() {
                allocator.grow(pointer, layout, new)?
            } else {
                allocator.shrink(pointer, layout, new)?
            }
        };
        assert_eq!((memory.len(), memory.cast::<u8>().addr().get() % align), (size, 0));
        assert!(is_filled(memory, size.min(layout.size())), "{layout:?} {new:?}");
        fill(memory);
        layout = new;
    }
    // SAFETY: as above.
    unsafe { allocator.deallocate(memory.cast(), layout) };
    let layout = Layout::from_size_align(10_000, 256).expect("a layout");
    let zeroed = allocator.allocate_zeroed(layout)?;
    // SAFETY: as above.
    unsafe {
        assert!(zeroed.as_ref().iter().all(|byte| *byte == 0));
        allocator.deallocate(zeroed.cast(), layout);
    }
    Ok(())
}

#[test]
fn what_is_resized_keeps_its_bytes() {
    keeps_what_it_resizes(&Quarry).expect("there is memory");
    let heap = Heap::new("resized").expect("Quarry serves");
    keeps_what_it_resizes(&&heap).expect("there is memory");
    assert_eq!(heap.used(), 0, "all of it came back");
}

#[test]
fn collections_live_in_their_heap() {
    let heap = Heap::new("collections").expect("Quarry serves");
    let mut rows = Vec::new_in(&heap);
    let mut index = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    for number in 0..10_000_u64 {
        rows.push(Box::new_in(number, &heap));
        index.insert(number * 7, number);
    }
    assert!(heap.used() > 10_000 * (16 + 8 + 17), "{}", heap.used());
    assert!((0..10_000).all(|number| *rows[number as usize] == index[&(number * 7)]));
    drop(rows);
    drop(index);
    assert_eq!(heap.used(), 0);
}

#[test]
fn collections_meet_the_limit_of_their_heap_and_go_on() {
    let heap = Heap::with_limit("bounded", 1 << 20).expect("Quarry serves");
    let mut numbers = Vec::<u64, &Heap>::new_in(&heap);
    let refused = loop {
        if let Err(refused) = numbers.try_reserve(1) {
            break refused;
        }
        numbers.push(numbers.len() as u64);
    };
    assert!(numbers.len() * 8 >= 256 << 10, "{refused:?} after {}", numbers.len());
    assert!((0..numbers.len()).all(|place| numbers[place] == place as u64));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert!(numbers.try_reserve(1000).is_ok(), "the memory came back");
}
