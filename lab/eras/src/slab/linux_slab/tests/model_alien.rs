//! Model of one alien array: threads of a node free into it and one thread reaps it, while shuttle
//! decides every interleaving. The model also has to detect an array whose lock is missing.

use crate::slab::linux_slab::alien::{AlienArray, Freed};
use crate::slab::linux_slab::tuning::ALIEN_LIMIT;
use quarry_mm::frame::OsArray;
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicUsize, Ordering::Relaxed};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::vec::Vec;

const THREADS: usize = 3;
const OBJECTS: usize = 4;

/// An object that only has an address.
fn object(number: usize) -> Object {
    Object::new((16 * (1 + number)) as *mut u8).expect("not null")
}

/// The operations of the array; a version without a lock has the same ones.
trait Gathers: Send + Sync + 'static {
    /// Puts an object in, and returns those that leave together.
    fn free(&self, object: Object) -> Vec<Object>;
    /// Takes all objects.
    fn take(&self) -> Vec<Object>;
    /// Takes all objects, or none if another thread is using the array.
    fn try_take(&self) -> Vec<Object>;
}

impl Gathers for OsArray<AlienArray> {
    fn free(&self, object: Object) -> Vec<Object> {
        match self.at(0).free(object, ALIEN_LIMIT) {
            Freed::Stored(leaving) => {
                let leaving = leaving.objects().to_vec();
                assert!(leaving.is_empty() || leaving.len() == ALIEN_LIMIT, "a part of them left");
                leaving
            }
            Freed::Duplicate => panic!("every object is freed once"),
        }
    }

    fn take(&self) -> Vec<Object> {
        self.at(0).take().objects().to_vec()
    }

    fn try_take(&self) -> Vec<Object> {
        self.at(0).try_take().objects().to_vec()
    }
}

/// Runs threads that free objects and one that takes the gathered objects. Each object must come
/// home exactly once.
fn gather(array: impl Gathers) {
    let array = Arc::new(array);
    let home = Arc::new(Mutex::new(BTreeSet::new()));
    let come = |home: &Mutex<BTreeSet<usize>>, objects: Vec<Object>| {
        for object in objects {
            let is_new = home.lock().expect("no panic").insert(object.as_ptr() as usize);
            assert!(is_new, "{object:p} came home twice");
        }
    };
    let mut threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (array, home) = (Arc::clone(&array), Arc::clone(&home));
            shuttle::thread::spawn(move || {
                for number in 0..OBJECTS {
                    come(&home, array.free(object(thread * OBJECTS + number)));
                }
            })
        })
        .collect();
    let (reaped, home_of_reaped) = (Arc::clone(&array), Arc::clone(&home));
    threads.push(shuttle::thread::spawn(move || {
        (0..2).for_each(|_| come(&home_of_reaped, reaped.try_take()));
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    come(&home, array.take());
    assert_eq!(home.lock().expect("no panic").len(), THREADS * OBJECTS, "objects were lost");
}

fn explore(scenario: fn()) {
    let config = shuttle::Config::new;
    shuttle::Runner::new(RandomScheduler::new(1_000), config()).run(scenario);
    shuttle::Runner::new(PctScheduler::new(3, 1_000), config()).run(scenario);
}

#[test]
fn every_alien_comes_home_once() {
    explore(|| {
        let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
        gather(OsArray::<AlienArray>::zeroed(os, 1).expect("the fake OS refuses nothing"));
    });
}

/// An alien array without its lock.
#[derive(Default)]
struct Racy {
    level: AtomicUsize,
    entries: [AtomicUsize; ALIEN_LIMIT],
}

impl Gathers for Racy {
    fn free(&self, object: Object) -> Vec<Object> {
        let leaving = match self.level.load(Relaxed) {
            ALIEN_LIMIT => self.take(),
            _ => Vec::new(),
        };
        let level = self.level.load(Relaxed);
        self.entries[level.min(ALIEN_LIMIT - 1)].store(object.as_ptr() as usize, Relaxed);
        self.level.store(level + 1, Relaxed);
        leaving
    }

    fn take(&self) -> Vec<Object> {
        let level = self.level.load(Relaxed);
        let entries = self.entries[..level.min(ALIEN_LIMIT)].iter();
        let objects = entries.filter_map(|entry| Object::new(entry.load(Relaxed) as *mut u8));
        let objects = objects.collect();
        self.level.store(0, Relaxed);
        objects
    }

    fn try_take(&self) -> Vec<Object> {
        self.take()
    }
}

#[test]
#[should_panic]
fn an_alien_array_without_its_lock_is_found_out() {
    explore(|| gather(Racy::default()));
}
