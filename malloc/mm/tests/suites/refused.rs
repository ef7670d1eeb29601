//! Frees that the fast path refuses: it says why, and the slow path does not ask again.

use crate::support::{Backing, Bed, Direct, PUSHES, VirtualConfig, small};
use quarry_mm::frame::Kind;
use quarry_mm::heap::classes;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{CacheOptions, CacheParams, Sheaf, SlabPolicy};
use quarry_mm::stack::{NotFreed, StackHost};
use quarry_sys::percpu::{Object, VirtualSlots};

const SIZE: usize = 100;

fn bed<S: SlabPolicy<VirtualSlots> + 'static>() -> Bed<VirtualConfig<S>> {
    Bed::new(Backing::Linux, 4096, 2, &StackOptions { heap: true, ..small() })
}

#[test]
fn the_fast_path_tells_why_it_refuses() {
    let bed = bed::<Sheaf>();
    let alloc = |size| bed.stack.alloc(size).expect("there is memory");
    // SAFETY: the objects were just allocated, and no other code uses them.
    let try_free = |address: *mut u8| unsafe { bed.stack.fast.free(address) };
    let (block, mapping) = (alloc(100_000), alloc(3 << 20));
    let mut local = 0u64;
    let kind_at = |object: Object, offset| try_free(object.as_ptr().wrapping_add(offset));
    assert_eq!(try_free(std::ptr::null_mut()), Err(NotFreed::Outside));
    assert_eq!(try_free((&raw mut local).cast()), Err(NotFreed::Outside));
    assert_eq!(kind_at(block, 0), Err(NotFreed::Kind(Kind::PAGES)));
    assert_eq!(kind_at(block, 16), Err(NotFreed::Kind(Kind::PAGES)));
    assert_eq!(kind_at(block, 4096), Err(NotFreed::Kind(Kind::NONE)));
    assert_eq!(kind_at(mapping, 0), Err(NotFreed::Kind(Kind::MAPPING)));
    let class = classes::of(SIZE);
    let mut objects: Vec<Object> = (0..10_000).map(|_| alloc(SIZE)).collect();
    let last = *objects.last().expect("10,000 objects");
    assert_eq!(kind_at(last, 8), Err(NotFreed::Kind(class.kind())));
    let full = loop {
        let object = objects.pop().expect("no array has room for all");
        if let Err(why) = try_free(object.as_ptr()) {
            objects.push(object);
            break why;
        }
        if objects.len() == 9_999 {
            assert_eq!(try_free(object.as_ptr()), Err(NotFreed::Duplicate(class)));
        }
    };
    assert_eq!(full, NotFreed::Full(class));
    let object = objects.pop().expect("the refused one");
    // SAFETY: as above; each object is freed once.
    unsafe {
        bed.stack.free_refused(object, full);
        objects.into_iter().chain([block, mapping]).for_each(|object| bed.stack.free(object));
    }
    bed.assert_empty(&[]);
}

#[test]
fn an_object_without_room_is_pushed_once() {
    let bed = bed::<Direct>();
    let params = CacheParams { size: SIZE, align: 16 };
    let id = bed.stack.create_cache("test", &params, &CacheOptions::default()).expect("a cache");
    let of_malloc: Vec<Object> = (0..50).map(|_| bed.stack.alloc(SIZE).expect("memory")).collect();
    let of_cache: Vec<Object> =
        (0..50).map(|_| bed.stack.cache(id).alloc().expect("memory")).collect();
    let before = PUSHES.get();
    // SAFETY: the objects were just allocated, and no other code uses them.
    of_malloc.into_iter().for_each(|object| unsafe { bed.stack.free(object) });
    assert_eq!(PUSHES.get() - before, 50);
    // SAFETY: as above.
    of_cache.into_iter().for_each(|object| unsafe { bed.stack.cache(id).free(object) });
    assert_eq!(PUSHES.get() - before, 100);
    bed.assert_empty(&[id]);
}
