//! The barn alone: several threads put sheaves in and take them out.

use crate::hands::Hands;
use crate::system::{Backing, TestOs};
use crate::{explore, explore_at_most};
use quarry_mm::frame::Metadata;
use quarry_mm::slab::{Barn, CacheLimits};
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicUsize, Ordering};
use shuttle::sync::Arc;
use shuttle::thread;
use std::mem::MaybeUninit;

const CAPACITY: usize = 3;
const MOST_FULL: usize = 2;
/// Bytes per object: so many that the barn announces its bytes to all CPUs at each exchange.
const STRIDE: usize = 32 << 10;
const THREADS: usize = 3;
const SHEAVES: usize = 2;

type Sheaf = [Object; CAPACITY];

/// A sheaf of three objects that have only an address; no two sheaves share an object.
fn sheaf(number: usize) -> Sheaf {
    std::array::from_fn(|index| {
        Object::new((16 * (1 + number * CAPACITY + index)) as *mut u8).expect("not null")
    })
}

/// The methods that the barn and a barn without its lock have in common.
trait Keeps: Send + Sync + 'static {
    fn put(&self, sheaf: &Sheaf) -> bool;
    fn take(&self, out: &mut Sheaf) -> bool;
}

struct RealBarn {
    barn: Barn,
    kept: CacheLimits,
    metadata: Metadata,
    turn: AtomicUsize,
}

impl RealBarn {
    fn new() -> Self {
        let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
        let barn = Barn::new();
        barn.configure(STRIDE);
        let metadata = Metadata::new(os);
        Self { barn, kept: CacheLimits::new(), metadata, turn: AtomicUsize::new(0) }
    }
}

impl Keeps for RealBarn {
    fn put(&self, sheaf: &Sheaf) -> bool {
        self.barn.put(&self.metadata, &self.kept, sheaf, CAPACITY * MOST_FULL)
    }

    fn take(&self, out: &mut Sheaf) -> bool {
        let mut buffer = [MaybeUninit::uninit(); CAPACITY];
        // Takes by turns as a CPU with an empty array does, and as a bulk request does.
        let taken = if self.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let rest = |rest: &[Object]| {
                buffer[1..].iter_mut().zip(rest).for_each(|(place, object)| {
                    place.write(*object);
                });
                true
            };
            let first = self.barn.hand_out(&self.kept, CAPACITY, rest);
            first.map_or(0, |first| {
                buffer[0].write(first);
                CAPACITY
            })
        } else {
            self.barn.take(&self.kept, &mut buffer)
        };
        for (object, found) in out.iter_mut().zip(&buffer[..taken]) {
            // SAFETY: `hand_out` and `take` both wrote the first `taken` elements.
            *object = unsafe { found.assume_init() };
        }
        assert!(taken == 0 || taken == CAPACITY, "a sheaf of {taken} objects");
        assert_eq!(self.barn.validate(), Ok(()));
        taken > 0
    }
}

/// Threads put their sheaves in and take sheaves out; each object is in exactly one place.
fn trade(barn: &Arc<impl Keeps>) {
    let hands = Arc::new(Hands::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (barn, hands) = (Arc::clone(barn), Arc::clone(&hands));
            thread::spawn(move || {
                let mut own: Vec<Sheaf> =
                    (0..SHEAVES).map(|index| sheaf(thread * SHEAVES + index)).collect();
                own.iter().flatten().for_each(|object| hands.take(*object));
                for _ in 0..3 {
                    if let Some(sheaf) = own.pop() {
                        sheaf.iter().for_each(|object| hands.give(*object));
                        if !barn.put(&sheaf) {
                            sheaf.iter().for_each(|object| hands.take(*object));
                            own.push(sheaf);
                        }
                    }
                    let mut out = sheaf(0);
                    if barn.take(&mut out) {
                        out.iter().for_each(|object| hands.take(*object));
                        own.push(out);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    let mut out = sheaf(0);
    while barn.take(&mut out) {
        out.iter().for_each(|object| hands.take(*object));
    }
    assert_eq!(hands.count(), THREADS * SHEAVES * CAPACITY, "objects were lost");
}

#[test]
fn every_object_is_in_one_place() {
    explore(2_000, || {
        let barn = Arc::new(RealBarn::new());
        trade(&barn);
    });
}

/// A barn without a lock: the model must find the error.
struct RacyBarn {
    full: AtomicUsize,
    objects: [[AtomicUsize; CAPACITY]; MOST_FULL],
}

impl Keeps for RacyBarn {
    fn put(&self, sheaf: &Sheaf) -> bool {
        let full = self.full.load(Ordering::Relaxed);
        if full == MOST_FULL {
            return false;
        }
        for (place, object) in self.objects[full].iter().zip(sheaf) {
            place.store(object.as_ptr() as usize, Ordering::Relaxed);
        }
        self.full.store(full + 1, Ordering::Relaxed);
        true
    }

    fn take(&self, out: &mut Sheaf) -> bool {
        let full = self.full.load(Ordering::Relaxed);
        if full == 0 {
            return false;
        }
        for (place, object) in self.objects[full - 1].iter().zip(out) {
            *object = Object::new(place.load(Ordering::Relaxed) as *mut u8).expect("not null");
        }
        self.full.store(full - 1, Ordering::Relaxed);
        true
    }
}

#[test]
#[should_panic]
fn a_barn_without_its_lock_is_found_out() {
    explore_at_most(2_000, || {
        let barn = RacyBarn {
            full: AtomicUsize::new(0),
            objects: std::array::from_fn(|_| std::array::from_fn(|_| AtomicUsize::new(0))),
        };
        trade(&Arc::new(barn));
    });
}
