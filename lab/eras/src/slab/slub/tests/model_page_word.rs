//! Model of one slab's packed word: threads free into the slab, take its objects, freeze and
//! unfreeze it, while shuttle decides every interleaving. Each scenario also runs with one rule of
//! the table in `page_word` broken, which the model has to detect.

use super::explore::{check, expect_failure, join};
use crate::slab::slub::page_word::{PageWord, Put};
use crate::slab::slub::state::{Linked, SlabWord};
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::{AtomicU32, Ordering::SeqCst};
use shuttle::sync::Arc;
use shuttle::thread;

const CACHE: u8 = 7;
const OBJECTS: u32 = 4;
/// In `held`: on the slab's own free list.
const FREE: u32 = 0;
/// In `held`: the slab's owner took the object from the slab, but handed it to no user yet.
const OWNER: u32 = 99;

/// A rule that a scenario may break.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The last object in use is put back without the list lock.
    EmptiesWithoutLock,
    /// A slab is unfrozen and put onto the list in two steps, without the list lock.
    UnfreezesWithoutLock,
    /// Free objects are taken from a slab that is not frozen.
    TakesFromUnfrozen,
}

/// A slab, its place, and the owners of its objects.
struct Slab {
    word: PageWord,
    /// For each object, the number + 1 of the next object in the free list.
    links: [AtomicU32; OBJECTS as usize],
    /// True if the slab is on its node's list.
    listed: CountedLock<bool>,
    /// The owner of each object: a thread's number, `FREE` or `OWNER`.
    held: [AtomicU32; OBJECTS as usize],
    /// Number of threads that own the slab, which is then frozen.
    owners: AtomicU32,
    given_back: AtomicU32,
    broken: Broken,
}

impl Slab {
    /// A new slab, owned by the caller. `held` has the holder of each object.
    fn new(held: [u32; OBJECTS as usize], broken: Broken) -> Self {
        let word = PageWord::default();
        word.start(CACHE, OBJECTS);
        Self {
            word,
            links: Default::default(),
            listed: CountedLock::new(false),
            held: held.map(AtomicU32::new),
            owners: AtomicU32::new(1),
            given_back: AtomicU32::new(0),
            broken,
        }
    }

    fn own(&self) {
        assert_eq!(self.owners.fetch_add(1, SeqCst), 0, "a slab has one owner");
    }

    fn disown(&self) {
        assert_eq!(self.owners.fetch_sub(1, SeqCst), 1, "a slab has one owner");
    }

    /// Puts object `number` of thread `me` back, as `free_chain` does.
    fn free(&self, me: u32, number: u32) {
        assert_eq!(self.held[number as usize].swap(FREE, SeqCst), me, "objects have one holder");
        let chain = Linked { first: number, count: 1 };
        let link = |next: Option<u32>| {
            self.links[number as usize].store(next.map_or(0, |next| next + 1), SeqCst);
        };
        let mut misses = 0;
        let unlocked = self.broken == Broken::EmptiesWithoutLock;
        let mut put = self.word.put(CACHE, chain, (true, unlocked), &mut misses, link);
        let mut listed = None;
        if put == Put::NeedsListLock {
            listed = Some(self.listed.lock());
            put = self.word.put(CACHE, chain, (true, true), &mut misses, link);
        }
        match put {
            Put::ToFrozen | Put::ToPartial => {}
            Put::Froze => {
                drop(listed);
                self.own();
                self.unfreeze();
            }
            Put::Emptied(was_listed) => {
                let mut listed = listed.unwrap_or_else(|| self.listed.lock());
                assert!(*listed && was_listed, "an emptied slab is on the list");
                *listed = false;
                drop(listed);
                self.give_back();
            }
            other => panic!("object {number} of thread {me}: {other:?}"),
        }
    }

    fn give_back(&self) {
        let state = self.word.load().state();
        assert_eq!((state.inuse, state.frozen), (0, false));
        self.word.end();
        assert_eq!(self.given_back.fetch_add(1, SeqCst), 0, "given back once");
    }

    /// Hands the caller's frozen slab to the node, as `unfreeze` of `free.rs` does.
    fn unfreeze(&self) {
        let mut misses = 0;
        self.disown();
        let early = self.broken == Broken::UnfreezesWithoutLock;
        let early = early.then(|| self.word.set_frozen(false, &mut misses));
        let mut listed = self.listed.lock();
        let state = early.unwrap_or_else(|| self.word.set_frozen(false, &mut misses));
        assert!(!*listed, "a frozen slab is on no list");
        if state.inuse == 0 {
            drop(listed);
            self.give_back();
        } else if state.head.is_some() {
            *listed = true;
        }
    }

    /// The objects of a taken chain; each now belongs to `OWNER`.
    fn taken(&self, chain: Option<Linked>) -> Vec<u32> {
        let Some(chain) = chain else { return Vec::new() };
        let mut numbers = vec![chain.first];
        while let Some(next) =
            self.links[*numbers.last().unwrap() as usize].load(SeqCst).checked_sub(1)
        {
            numbers.push(next);
            assert!(numbers.len() <= OBJECTS as usize, "the free list is a circle");
        }
        assert_eq!(numbers.len(), chain.count as usize, "a chain is as long as its count");
        for number in &numbers {
            let holder = self.held[*number as usize].swap(OWNER, SeqCst);
            assert_eq!(holder, FREE, "an object was taken that somebody has");
        }
        numbers
    }

    fn give(&self, numbers: Vec<u32>, me: u32) -> Vec<u32> {
        numbers.iter().for_each(|number| self.held[*number as usize].store(me, SeqCst));
        numbers
    }

    /// Takes the slab from its node's list, as `take_partial` does; returns its objects.
    fn take_partial(&self, me: u32) -> Option<Vec<u32>> {
        let mut listed = self.listed.lock();
        if !*listed {
            return None;
        }
        *listed = false;
        let chain = self.word.freeze_and_take(&mut 0);
        drop(listed);
        self.own();
        let numbers = self.taken(Some(chain));
        Some(self.give(numbers, me))
    }

    /// Takes the free objects of the slab, if it is frozen by any thread, as `refill` does.
    fn refill(&self, me: u32) -> Vec<u32> {
        let chain = if self.broken == Broken::TakesFromUnfrozen {
            // `take_or_unfreeze` is for the owner only.
            let word = self.word.load();
            (word.cache() == CACHE && word.state().head.is_some())
                .then(|| self.word.take_or_unfreeze(&mut 0))
                .flatten()
        } else {
            self.word.take_frozen(CACHE, &mut 0)
        };
        let numbers = self.taken(chain);
        self.give(numbers, me)
    }

    /// Lets go of the caller's slab, as `alloc_slow` does with a slab that is used up. If other
    /// threads have freed objects into it, returns these, and the caller still owns the slab.
    fn let_go(&self, me: u32) -> Vec<u32> {
        self.disown();
        match self.word.take_or_unfreeze(&mut 0) {
            Some(chain) => {
                self.own();
                let numbers = self.taken(Some(chain));
                self.give(numbers, me)
            }
            None => Vec::new(),
        }
    }

    /// Frees the remaining objects, and checks that the slab is in the right place.
    fn finish(&self) {
        for number in 0..OBJECTS {
            let holder = self.held[number as usize].load(SeqCst);
            if holder != FREE {
                self.free(holder, number);
            }
        }
        let given_back = self.given_back.load(SeqCst) == 1;
        let state = self.word.load().state();
        assert!(given_back || state.inuse == 0, "all objects are back");
        assert_eq!(self.word.agrees(0), given_back);
        assert_eq!(self.owners.load(SeqCst), u32::from(state.frozen));
        assert!(!*self.listed.lock(), "the last free takes the slab off the list");
    }
}

fn spawn(slab: &Arc<Slab>, body: impl FnOnce(&Slab) + Send + 'static) -> thread::JoinHandle<()> {
    let slab = slab.clone();
    thread::spawn(move || body(&slab))
}

/// Two threads free into a slab that its owner uses up and lets go.
fn frees_while_the_owner_lets_go(broken: Broken) {
    let slab = Arc::new(Slab::new([1, 2, 3, 3], broken));
    let others = [1, 2].map(|me| spawn(&slab, move |slab| slab.free(me, me - 1)));
    // Thread 3 owns the slab and has the other two objects.
    let mut mine = vec![2, 3];
    for _ in 0..2 {
        let more = slab.refill(3);
        mine.extend(more);
    }
    loop {
        let more = slab.let_go(3);
        if more.is_empty() {
            break;
        }
        mine.extend(more);
    }
    mine.into_iter().for_each(|number| slab.free(3, number));
    join(others);
    slab.finish();
}

/// The slab is full and has no owner. All threads free at once, and one may take the slab from the
/// list.
fn frees_against_a_taker(broken: Broken) {
    let slab = Arc::new(Slab::new([1, 2, 3, 3], broken));
    assert_eq!(slab.let_go(3), []);
    let others = [1, 2].map(|me| spawn(&slab, move |slab| slab.free(me, me - 1)));
    let taker = spawn(&slab, |slab| {
        if let Some(mine) = slab.take_partial(4) {
            mine.into_iter().for_each(|number| slab.free(4, number));
            slab.unfreeze();
        }
    });
    slab.free(3, 2);
    slab.free(3, 3);
    join(others);
    join([taker]);
    slab.finish();
}

/// A thread that wrongly believes that its guard is current takes the free objects, while the owner
/// lets the slab go.
fn a_late_refill(broken: Broken) {
    let slab = Arc::new(Slab::new([1, 2, 3, 3], broken));
    let late = spawn(&slab, |slab| {
        let mine = slab.refill(4);
        mine.into_iter().for_each(|number| slab.free(4, number));
    });
    let other = spawn(&slab, |slab| slab.free(1, 0));
    slab.free(3, 2);
    slab.unfreeze();
    if let Some(mine) = slab.take_partial(5) {
        mine.into_iter().for_each(|number| slab.free(5, number));
        slab.unfreeze();
    }
    slab.free(3, 3);
    slab.free(2, 1);
    join([late, other]);
    slab.finish();
}

#[test]
fn no_object_is_lost_when_the_owner_lets_go() {
    check(frees_while_the_owner_lets_go, Broken::Nothing);
}

#[test]
fn a_slab_is_emptied_once() {
    check(frees_against_a_taker, Broken::Nothing);
}

#[test]
fn a_late_refill_takes_only_what_is_frozen() {
    check(a_late_refill, Broken::Nothing);
}

#[test]
fn emptying_without_the_list_lock_is_found() {
    expect_failure(frees_against_a_taker, Broken::EmptiesWithoutLock);
}

#[test]
fn unfreezing_without_the_list_lock_is_found() {
    expect_failure(frees_against_a_taker, Broken::UnfreezesWithoutLock);
}

#[test]
fn taking_from_an_unfrozen_slab_is_found() {
    expect_failure(a_late_refill, Broken::TakesFromUnfrozen);
}
