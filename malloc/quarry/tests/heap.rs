//! `Heap` as programs in Rust use it.
#![cfg(feature = "heaps")]

use quarry::{Heap, HeapBox};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_box_drops_its_value_and_gives_its_memory_back() {
    let drops = AtomicUsize::new(0);
    let heap = Heap::new("drops").expect("Quarry serves");
    let boxed = heap.alloc(Counted(&drops)).ok().expect("there is memory");
    assert_eq!((drops.load(Ordering::Relaxed), heap.used()), (0, 16));
    drop(boxed);
    assert_eq!((drops.load(Ordering::Relaxed), heap.used()), (1, 0));
    let value = heap.alloc(Counted(&drops)).ok().expect("there is memory").into_inner();
    assert_eq!((drops.load(Ordering::Relaxed), heap.used()), (1, 0));
    drop(value);
    std::mem::forget(heap.alloc(Counted(&drops)));
    drop(heap);
    assert_eq!(drops.load(Ordering::Relaxed), 2, "a heap drops no value");
}

#[test]
fn threads_share_a_heap() {
    let heap = Heap::new("shared").expect("Quarry serves");
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..4u64)
            .map(|thread| {
                let heap = &heap;
                scope.spawn(move || {
                    (0..1000).map(|it| heap.alloc(thread << 32 | it).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        for (thread, maker) in makers.into_iter().enumerate() {
            let boxes: Vec<HeapBox<'_, u64>> = maker.join().expect("it has made them");
            let is_right = |(it, value): (usize, &HeapBox<'_, u64>)| {
                **value == (thread as u64) << 32 | it as u64
            };
            assert!(boxes.iter().enumerate().all(is_right));
        }
    });
    assert_eq!(heap.used(), 0);
    assert_eq!(heap.stats().allocs, 4000);
}

#[test]
fn the_latest_function_is_told_and_each_is_dropped() {
    let told = Arc::new(AtomicUsize::new(0));
    let mut heap = Heap::with_limit("pressed", 64 << 10).expect("Quarry serves");
    for weight in [1, 100] {
        let told = told.clone();
        heap.on_pressure(move |_| {
            told.fetch_add(weight, Ordering::Relaxed);
        })
        .expect("there is memory");
    }
    assert_eq!(Arc::strong_count(&told), 2, "the first function is gone");
    assert!(heap.alloc([0u8; 100_000]).is_err());
    assert_eq!(told.load(Ordering::Relaxed), 100);
    drop(heap);
    assert_eq!(Arc::strong_count(&told), 1, "the second function is gone");
}
