//! Threads on the real operating system. They pass objects to each other through mailboxes, and a
//! thread may free an object that another one allocated, while one thread keeps giving memory back.
//! Each object has a tag, so the thread that frees it finds out if it was handed out twice or lost.

use crate::support::{Backing, Bed, TestOs, small, unregister};
use quarry_mm::frame::NodeId;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{PagePolicy, V6_18};
use quarry_mm::slab::{CacheId, PolicyOptions, Sheaf, SlabPolicy};
use quarry_mm::stack::{ReclaimState, Request, Stack, StackConfig, StackHost};
use quarry_sys::percpu::{LockedSlots, NativeSlots, Object, PerCpu, ThreadStripe};
use quarry_watch::AllInstruments;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::idle::reclaim;
use crate::support::pattern;
use crate::support::seed::{Dice, seed};

/// Makes the tests of the suite for each policy.
macro_rules! stamp {
    ($($name:ident: $text:literal, $policy:ty;)*) => {$(
        mod $name {
            use super::{LockedSlots, NativeSlots, ThreadStripe, exchange};

            #[test]
            fn objects_change_hands_on_native_slots() {
                exchange::<NativeSlots, $policy>(4, 0, 1);
            }

            #[test]
            fn objects_change_hands_between_nodes() {
                exchange::<NativeSlots, $policy>(4, 1, 2);
            }

            #[test]
            fn objects_change_hands_with_threads_that_have_no_registration() {
                exchange::<NativeSlots, $policy>(4, 2, 1);
            }

            #[test]
            fn objects_change_hands_on_locked_slots() {
                exchange::<LockedSlots<ThreadStripe>, $policy>(4, 0, 1);
            }
        }
    )*};
}

slab_policies!(stamp);
stamp! { direct: "direct", crate::support::Direct; }

/// Steps of a thread, multiplied by `QUARRY_TEST_ROUNDS`.
const STEPS: usize = 8_000;
/// Maximum number of objects and bytes that a thread holds.
const MOST_OBJECTS: usize = 300;
const MOST_BYTES: usize = 6 << 20;

/// A stack without a page cache.
pub(crate) struct Config<P, S, L = V6_18>(PhantomData<(P, S, L)>);

impl<P, S, L> StackConfig for Config<P, S, L>
where
    P: PerCpu + 'static,
    S: SlabPolicy<P> + 'static,
    L: PagePolicy,
{
    type PerCpu = P;
    type Slab = S;
    type Pages = L;
    type Cache = ();
    type Watch = AllInstruments;
}

/// An object that one thread sends to another.
struct Parcel {
    object: Object,
    bytes: usize,
    tag: u64,
}

// SAFETY: the thread that has the parcel owns the object.
unsafe impl Send for Parcel {}

/// The data that the threads share.
struct Market<'a, C: StackConfig> {
    stack: &'a Stack<C>,
    mailboxes: Vec<Mutex<Vec<Parcel>>>,
    working: AtomicUsize,
}

/// Counts a thread as finished when dropped, also if it panics, because the others wait for it.
struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A thread and the objects that it holds.
struct Trader<'a, C: StackConfig> {
    market: &'a Market<'a, C>,
    number: usize,
    dice: Dice,
    held: Vec<Parcel>,
    bytes: usize,
    tags: u64,
}

impl<C: StackConfig> Trader<'_, C> {
    /// A size from 0 to 4 MiB, mostly small.
    fn size(&mut self) -> usize {
        let bits = match self.dice.below(100) {
            0..60 => self.dice.below(9),
            60..90 => self.dice.below(16),
            90..99 => self.dice.below(20),
            _ => self.dice.below(22),
        };
        (1usize << bits) - 1 + self.dice.below(1 << bits)
    }

    fn adopt(&mut self, object: Object) {
        self.tags += 1;
        let tag = (self.number as u64 + 1) << 40 | self.tags;
        let bytes = self.market.stack.usable_size(object).unwrap();
        pattern::fill(object, bytes, tag);
        self.bytes += bytes;
        self.held.push(Parcel { object, bytes, tag });
    }

    fn alloc(&mut self) {
        let size = self.size();
        let stack = self.market.stack;
        let object = match self.dice.below(8) {
            0 => stack.alloc(Request::of(size).zeroed()).inspect(|object| {
                assert!(pattern::is_zero(*object, size), "calloc of {size} is not zero");
            }),
            1 => {
                let align = 1 << self.dice.below(14);
                stack.alloc(Request::of(size).aligned(align)).inspect(|object| {
                    assert!((object.as_ptr() as usize).is_multiple_of(align));
                })
            }
            _ => stack.alloc(size),
        };
        self.adopt(object.unwrap_or_else(|| self.refused(size)));
    }

    fn refused(&self, size: usize) -> ! {
        let stack = self.market.stack;
        let (usage, taken) = (stack.stats().heap, stack.pages().arena().pageblocks_taken());
        panic!("{size} bytes refused with {taken} pageblocks taken: {usage:?}")
    }

    fn pick(&mut self) -> Option<Parcel> {
        if self.held.is_empty() {
            return None;
        }
        let index = self.dice.below(self.held.len());
        let parcel = self.held.swap_remove(index);
        self.bytes -= parcel.bytes;
        Some(parcel)
    }

    fn free(&mut self) {
        if let Some(parcel) = self.pick() {
            self.discard(&parcel);
        }
    }

    fn discard(&self, parcel: &Parcel) {
        let Parcel { object, bytes, tag } = *parcel;
        assert!(pattern::holds(object, bytes, tag), "{object:p}: contents of {tag:#x} are gone");
        // SAFETY: the parcel owned the object, and the parcel is used no more.
        unsafe { self.market.stack.free(object) };
    }

    fn realloc(&mut self) {
        let size = self.size();
        let Some(Parcel { object, bytes, tag }) = self.pick() else { return };
        // SAFETY: the parcel owned the object.
        let moved = unsafe { self.market.stack.realloc(object, size) };
        let moved = moved.unwrap_or_else(|| self.refused(size));
        let kept = bytes.min(size);
        assert!(pattern::holds(moved, kept, tag), "realloc to {size} lost contents of {tag:#x}");
        self.adopt(moved);
    }

    fn send(&mut self) {
        for _ in 0..self.dice.below(20) {
            let Some(parcel) = self.pick() else { return };
            let to = self.dice.below(self.market.mailboxes.len());
            self.market.mailboxes[to].lock().unwrap().push(parcel);
        }
    }

    fn receive(&mut self) {
        let parcels = std::mem::take(&mut *self.market.mailboxes[self.number].lock().unwrap());
        self.bytes += parcels.iter().map(|parcel| parcel.bytes).sum::<usize>();
        self.held.extend(parcels);
    }

    fn work(&mut self, steps: usize) {
        let working = Working(&self.market.working);
        for _ in 0..steps {
            while self.held.len() > MOST_OBJECTS || self.bytes > MOST_BYTES {
                self.free();
            }
            match self.dice.below(20) {
                0..10 => self.alloc(),
                10..15 => self.free(),
                15..17 => self.realloc(),
                17..19 => self.send(),
                _ => self.receive(),
            }
        }
        drop(working);
        // A thread that still works may still send objects.
        while self.market.working.load(Ordering::Acquire) > 0 {
            self.receive_and_free();
            thread::yield_now();
        }
        self.receive_and_free();
    }

    fn receive_and_free(&mut self) {
        self.receive();
        while !self.held.is_empty() {
            self.free();
        }
    }
}

/// Gives memory back again and again, by `trim` and by looks.
fn give_back<C: StackConfig>(stack: &Stack<C>, done: &AtomicBool, mut dice: Dice) {
    let mut state = ReclaimState::new();
    while !done.load(Ordering::Acquire) {
        if dice.below(4) == 0 {
            let _ = stack.trim();
        } else {
            reclaim(stack, &mut state);
        }
        for _ in 0..dice.below(50) {
            thread::yield_now();
        }
    }
}

/// `threads` threads trade, `unregistered` of them without restartable sequences. With several
/// `nodes`, CPUs belong to two nodes by turns.
fn exchange<P, S>(threads: usize, unregistered: usize, nodes: u8)
where
    P: PerCpu + 'static,
    S: SlabPolicy<P> + 'static,
{
    exchange_on::<Config<P, S>>(threads, unregistered, nodes, V6_18);
}

/// Same as [`exchange`], with a page policy.
pub(crate) fn exchange_on<C>(threads: usize, unregistered: usize, nodes: u8, policy: C::Pages)
where
    C: StackConfig<Pages: Default>,
{
    exchange_in::<C>(threads, unregistered, nodes, policy, PolicyOptions::default());
}

/// Same as [`exchange_on`], with options of the slab policy.
pub(crate) fn exchange_in<C>(
    threads: usize,
    unregistered: usize,
    nodes: u8,
    policy: C::Pages,
    slab: PolicyOptions,
) where
    C: StackConfig<Pages: Default>,
{
    let seed = seed();
    let rounds = std::env::var("QUARRY_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let mut options = small();
    (options.heap, options.slab) = (true, slab);
    options.pages.policy = policy;
    options.pages.reserve_bytes = 2 << 30;
    options.pages.nodes = nodes;
    if nodes > 1 {
        options.pages.node_of_slot = |slot| NodeId(slot.0 as u8 % 2);
    }
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    let bed = Bed::<C>::on(os, &options, |_| {}).expect("a system that fails nowhere");
    let market = Market {
        stack: &bed.stack,
        mailboxes: (0..threads).map(|_| Mutex::default()).collect(),
        working: AtomicUsize::new(threads),
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let traders: Vec<_> = (0..threads)
            .map(|number| {
                let dice = Dice::new(seed + number as u64);
                let mut trader =
                    Trader { market: &market, number, dice, held: Vec::new(), bytes: 0, tags: 0 };
                scope.spawn(move || {
                    if number < unregistered {
                        unregister();
                    }
                    trader.work(STEPS * rounds);
                })
            })
            .collect();
        let giver = scope.spawn(|| give_back(&bed.stack, &done, Dice::new(!seed)));
        let results: Vec<_> = traders.into_iter().map(|trader| trader.join()).collect();
        done.store(true, Ordering::Release);
        giver.join().expect("giving memory back");
        for result in results {
            result.expect("a trader");
        }
    });
    conserved(&bed);
}

/// Checks that all objects came back, by the counts of each cache and by the memory in use.
fn conserved<C: StackConfig>(bed: &Bed<C>) {
    assert_eq!(bed.stack.validate(), Ok(()));
    let ids: Vec<_> = (1..=quarry_mm::heap::classes::COUNT).map(CacheId::new).collect();
    for &id in &ids {
        let stats = bed.stack.cache(id).stats();
        let allocs = stats.alloc_fast + stats.alloc_slow;
        let frees = stats.free_fast + stats.free_slow;
        // Some policies count a list operation before it commits, so a restarted one counts twice.
        assert!(allocs == frees || <C::Slab as SlabPolicy<_>>::NAME != "sheaf", "{stats:?}");
        assert_eq!(stats.active_objects, stats.parked_objects, "{stats:?}");
    }
    assert_eq!(bed.stack.stats().heap.mappings, 0);
    bed.assert_empty(&ids);
}

/// Two threads share room for four large blocks, while a third one gives every free block to the
/// system. A request that finds no block must wait for a block that is being purged.
#[test]
fn what_is_being_purged_is_not_refused() {
    let options = StackOptions { heap: true, ..small() };
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    let bed = Bed::<Config<NativeSlots, Sheaf>>::on(os, &options, |_| {});
    let bed = bed.expect("a system that fails nowhere");
    let size = 1 << 20;
    let mut filling: Vec<Object> = std::iter::from_fn(|| bed.stack.alloc(size)).collect();
    // SAFETY: all objects freed here and below are live, and no other code knows them.
    let free = |object| unsafe { bed.stack.free(object) };
    filling.split_off(filling.len() - 4).into_iter().for_each(free);
    let working = AtomicUsize::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _working = Working(&working);
                for round in 0..30_000 {
                    let object = bed.stack.alloc(size);
                    let object = object.unwrap_or_else(|| panic!("refused in round {round}"));
                    pattern::fill(object, 8, 1);
                    free(object);
                }
            });
        }
        while working.load(Ordering::Acquire) > 0 {
            let _ = bed.stack.mappings.purge_all(bed.stack.pages().zones());
        }
    });
    filling.into_iter().for_each(free);
    bed.assert_empty(&[]);
}
