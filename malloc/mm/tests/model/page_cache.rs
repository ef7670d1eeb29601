//! The page cache on two virtual CPUs: tasks pin, evict, truncate, fill, latch and write pages at
//! the same time. Each page holds one word with its index and the number of its last fill. So a
//! task that has pinned a page can tell whether another page uses its memory.

use crate::explore;
use crate::system::{Backing, TestOs};
use quarry_cache::lru::{PageNo, State};
use quarry_cache::page_cache::{
    Effort, MappingId, MappingOptions, PageCacheRef, ReadError, ScanFor, ScanRequest, Slot,
};
use quarry_cache::{PageCaching, PageCachingOptions};
use quarry_mm::frame::NodeId;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Stack, StackConfig, StackHost};
use quarry_sys::percpu::SteppedSlots;
use quarry_watch::AllInstruments;
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Config;

impl StackConfig for Config {
    type PerCpu = SteppedSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = PageCaching;
    type Watch = AllInstruments;
}

/// A stack with one file mapping.
struct Play {
    stack: Box<Stack<Config>>,
    id: MappingId,
    fills: AtomicU64,
    os: &'static TestOs,
}

impl Play {
    fn new() -> Arc<Self> {
        let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
        let stack = Box::new(Stack::<Config>::new());
        stack.percpu().sequences().set_cpus(2);
        let mut options = StackOptions { heap: false, ..StackOptions::default() };
        options.pages.reserve_bytes = 64 << 20;
        let mut cached = PageCachingOptions::default();
        cached.lru.add_batch = 2;
        stack.init(os, &options, &cached).expect("a system on which nothing fails");
        let cache = PageCaching::open(&*stack).expect("a system on which nothing fails");
        let id = cache.create_mapping(&MappingOptions::default()).expect("memory");
        Arc::new(Self { stack, id, fills: AtomicU64::new(0), os })
    }

    fn cache(&self) -> PageCacheRef<'_, Stack<Config>> {
        PageCaching::opened(&*self.stack).expect("made at the start")
    }

    fn word(&self, page: PageNo) -> *mut u64 {
        self.cache().address(page).as_ptr().cast()
    }

    /// Writes the word of a page that is being filled.
    fn fill(&self, page: PageNo, index: u64) {
        let fill = self.fills.fetch_add(1, Relaxed) + 1;
        // SAFETY: the page is pinned, and this thread fills it.
        unsafe { self.word(page).write(fill << 8 | index) };
    }

    /// Reads a page twice while it is pinned: its word has the page's index, and does not change.
    fn read(&self, index: u64) {
        let cache = self.cache();
        let page = match cache.get_or_alloc(self.id, index, Effort::Easy) {
            Ok(Slot::Found(page)) => page,
            Ok(Slot::New(page)) => {
                self.fill(page, index);
                cache.fill_done(page);
                page
            }
            Err(error) => panic!("{error:?}: there is memory, and no fill fails"),
        };
        self.look(page, index);
        cache.unpin(page);
    }

    fn look(&self, page: PageNo, index: u64) {
        // SAFETY: the page is pinned and up to date; no task writes such pages here.
        let before = unsafe { self.word(page).read() };
        assert_eq!(before & 0xff, index, "a page of another index");
        thread::yield_now();
        // SAFETY: as above.
        assert_eq!(unsafe { self.word(page).read() }, before, "a pinned page was used again");
    }

    fn get(&self, index: u64) {
        if let Some(page) = self.cache().get(self.id, index) {
            self.look(page, index);
            self.cache().unpin(page);
        }
    }

    fn reclaim(&self, who: ScanFor) {
        let request =
            ScanRequest { who, most: 2, most_scanned: 4, until_ns: u64::MAX, spares_low: true };
        self.cache().reclaim(NodeId(0), &request);
    }

    /// Checks that all pages and descriptors have gone back.
    fn finish(&self) {
        let cache = self.cache();
        assert_eq!(cache.validate(), Ok(()));
        assert!(cache.destroy_mapping(self.id));
        cache.trim();
        assert_eq!(cache.validate(), Ok(()));
        assert_eq!((cache.pages_in_use(), cache.events().in_memory()), ((0, 0), 0));
        self.os.release_all();
    }
}

/// Runs each function on a separate thread, except the last one, which runs on this thread.
fn together(play: &Arc<Play>, work: Vec<fn(&Play)>) {
    let threads: Vec<_> = work
        .into_iter()
        .map(|work| {
            let play = Arc::clone(play);
            thread::spawn(move || work(&play))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn model_pages_are_pinned_evicted_and_truncated() {
    explore(60, || {
        let play = Play::new();
        (0..3).for_each(|index| play.read(index));
        together(
            &play,
            vec![
                |play| {
                    play.get(1);
                    play.read(1);
                    play.get(2);
                },
                |play| {
                    play.reclaim(ScanFor::Background);
                    play.reclaim(ScanFor::Direct);
                },
                |play| {
                    play.cache().truncate(play.id, 1);
                    play.read(2);
                },
            ],
        );
        play.finish();
    });
}

#[test]
fn model_one_task_fills_and_the_others_wait() {
    explore(60, || {
        let play = Play::new();
        together(&play, vec![|play| play.read(0), |play| play.read(0), |play| play.read(0)]);
        assert_eq!(play.fills.load(Relaxed), 1, "nothing took the page out in between");
        play.finish();
    });
}

#[test]
fn model_whoever_waits_for_a_failed_fill_gets_its_error() {
    fn fail(play: &Play) {
        let cache = play.cache();
        match cache.get_or_alloc(play.id, 0, Effort::Easy) {
            Ok(Slot::New(page)) => {
                play.fills.fetch_add(1, Relaxed);
                cache.fill_failed(page, 5);
            }
            Ok(Slot::Found(page)) => panic!("{page:?} was never filled"),
            Err(error) => assert_eq!(error, ReadError::Failed(5)),
        }
    }
    explore(60, || {
        let play = Play::new();
        together(&play, vec![fail, fail, fail]);
        assert!(play.fills.load(Relaxed) >= 1);
        assert_eq!(play.cache().pages_of(play.id), 0);
        play.finish();
    });
}

/// Writers change the two words of a page one after the other; readers always see both words equal.
/// No task sleeps for ever.
#[test]
fn model_latches_keep_writers_and_readers_apart() {
    fn write(play: &Play) {
        let cache = play.cache();
        let page = cache.get(play.id, 0).expect("nothing evicts it");
        cache.latch_exclusive(page);
        // SAFETY: the page is pinned and latched for writing, and has two words.
        unsafe {
            let word = play.word(page);
            word.write(word.read() + 1);
            thread::yield_now();
            word.add(1).write(word.read());
        }
        cache.unlatch_exclusive(page);
        cache.unpin(page);
    }
    fn read(play: &Play) {
        let cache = play.cache();
        let page = cache.get(play.id, 0).expect("nothing evicts it");
        cache.latch_shared(page);
        // SAFETY: the page is pinned and latched, and has two words.
        let (first, second) = unsafe { (play.word(page).read(), play.word(page).add(1).read()) };
        cache.unlatch_shared(page);
        cache.unpin(page);
        assert_eq!(first, second, "a reader saw half a write");
    }
    explore(60, || {
        let play = Play::new();
        let cache = play.cache();
        let Ok(Slot::New(page)) = cache.get_or_alloc(play.id, 0, Effort::Easy) else {
            panic!("there is memory, and no page yet");
        };
        // SAFETY: this thread fills the page.
        unsafe { play.word(page).write_bytes(0, 2) };
        cache.fill_done(page);
        cache.unpin(page);
        together(&play, vec![write, read, write, read]);
        play.finish();
    });
}

/// A truncation waits for a write that has begun, and also removes a page that is still dirty.
#[test]
fn model_truncation_waits_for_writeback() {
    explore(60, || {
        let play = Play::new();
        (0..2).for_each(|index| play.read(index));
        let page = play.cache().get(play.id, 1).expect("it was read");
        assert!(play.cache().mark_dirty(page));
        play.cache().unpin(page);
        together(
            &play,
            vec![
                |play| {
                    let cache = play.cache();
                    let mut pages = [PageNo(0); 2];
                    let count = cache.dirty_pages(play.id, 0, &mut pages);
                    for page in &pages[..count] {
                        cache.latch_shared(*page);
                        let begun = cache.begin_writeback(*page);
                        cache.unlatch_shared(*page);
                        if begun {
                            assert!(cache.state(*page).has(State::LIVE), "truncated while written");
                            cache.end_writeback(*page, false);
                        }
                        cache.unpin(*page);
                    }
                },
                |play| {
                    play.cache().truncate(play.id, 0);
                    assert_eq!(play.cache().get(play.id, 1), None);
                },
                |play| play.reclaim(ScanFor::Background),
            ],
        );
        assert_eq!(play.cache().pages_of(play.id), 0);
        play.finish();
    });
}

/// An owner holds pages and gives them up while other tasks evict; a page that is held stays.
#[test]
fn model_held_pages_stay() {
    explore(60, || {
        let play = Play::new();
        together(
            &play,
            vec![
                |play| {
                    let cache = play.cache();
                    for index in [0, 1, 0] {
                        let held = cache.hold(play.id, index, Some(Effort::Easy));
                        let slot = held.expect("there is memory").expect("an effort was made");
                        if let Slot::New(page) = slot {
                            play.fill(page, index);
                        }
                        play.look(slot.page(), index);
                        let again = cache.hold(play.id, index, None);
                        assert_eq!(again, Ok(Some(Slot::Found(slot.page()))));
                        cache.unhold(slot.page(), false);
                    }
                },
                |play| {
                    play.reclaim(ScanFor::Background);
                    play.reclaim(ScanFor::Direct);
                },
                |play| play.reclaim(ScanFor::Direct),
            ],
        );
        play.finish();
    });
}
