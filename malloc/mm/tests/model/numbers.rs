//! A new cache takes the number of a destroyed one, while another thread looks at all caches.

use crate::explore;
use crate::system::{Backing, TestOs};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::{CacheOptions, CacheParams, Sheaf};
use quarry_mm::stack::{Stack, StackConfig, StackHost};
use quarry_sys::percpu::SteppedSlots;
use quarry_watch::AllInstruments;
use shuttle::sync::Arc;
use shuttle::thread;

struct Config;

impl StackConfig for Config {
    type PerCpu = SteppedSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

/// A thread that sees a cache sees it complete, and sees the cache that has the number now.
#[test]
fn a_number_that_is_used_again_shows_one_cache_at_a_time() {
    explore(1000, || {
        let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
        let stack = Arc::new(Stack::<Config>::new());
        stack.percpu().sequences().set_cpus(2);
        let mut options = StackOptions { heap: false, ..StackOptions::default() };
        options.pages.reserve_bytes = 64 << 20;
        stack.init(os, &options, &Default::default()).expect("a system on which nothing fails");
        let create = |stack: &Stack<Config>, size| {
            stack
                .create_cache("model", &CacheParams { size, align: 16 }, &CacheOptions::default())
                .expect("a cache")
        };
        let id = create(&stack, 16 << 10);
        let object = stack.cache(id).alloc().expect("there is memory");
        // SAFETY: the object is live and freed once; there is no other thread yet.
        unsafe {
            stack.cache(id).free(object);
            assert_eq!(stack.destroy_cache(id), Ok(()));
        }
        let other = Arc::clone(&stack);
        let looker = thread::spawn(move || {
            for _ in 0..3 {
                if let Some(cache) = other.caches.get(id) {
                    assert_eq!((cache.generation(), cache.stride()), (2, 4096));
                }
                let objects = other.stats().memory.objects;
                assert!(objects.is_multiple_of(4096), "{objects} bytes, of which cache?");
            }
        });
        assert_eq!(create(&stack, 4096), id, "the number is free");
        let object = stack.cache(id).alloc().expect("there is memory");
        // SAFETY: the object is live, and freed once.
        unsafe { stack.cache(id).free(object) };
        looker.join().expect("it saw whole caches only");
        // SAFETY: there is no other thread any more.
        assert_eq!(unsafe { stack.destroy_cache(id) }, Ok(()));
        assert_eq!(stack.validate(), Ok(()));
        os.release_all();
    });
}
