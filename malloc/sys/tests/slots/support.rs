//! Shared by the tests of the slots: a trait for all backends, slots, and objects.

use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{
    ArrayId, Arrays, CellWord, Limits, Lists, NativeSlots, Object, PerCpu, Push, SlotArea,
    SlotIndex, Take, TakeList, VirtualSlots, Which,
};
use quarry_sys::primitive::Ordering;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ops::Deref;

/// The OS from which all slots of these tests get memory.
pub(crate) static OS: FakeOs = FakeOs::new(4096);

/// The numbers of two arrays and a list.
pub(crate) const A: ArrayId = ArrayId::new(1);
pub(crate) const B: ArrayId = ArrayId::new(2);
pub(crate) const LIST: ArrayId = ArrayId::new(100);
pub(crate) const CAPACITY_A: usize = 3;
/// Capacity of A in its wide place; B has no wide place.
pub(crate) const WIDE_A: usize = 9;
pub(crate) const CAPACITY_B: usize = 9;

/// The counts of `LIST` in all slots.
#[derive(Debug, Default)]
pub(crate) struct ListUse {
    /// Objects on the list now.
    pub(crate) level: u64,
    /// Pops and pushes so far, interrupted and repeated attempts included.
    pub(crate) pops: u64,
    pub(crate) pushes: u64,
}

pub(crate) fn list_usage(area: &SlotArea) -> ListUse {
    let mut sum = ListUse::default();
    for slot in (0..area.slots()).map(SlotIndex) {
        let word = |word| area.word(slot, LIST, word).load(Ordering::Relaxed);
        sum.level += word(0) & 0xf_ffff;
        sum.pops += word(2);
        sum.pushes += word(3);
    }
    sum
}

/// Says that the running test is skipped, and why. Writes to standard error directly, because the
/// test harness hides the output of tests that pass.
pub(crate) fn skipped(why: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}

/// A backend as the suite uses it.
pub(crate) trait Backend: Arrays + Lists + Send + 'static {
    /// Called before `init`.
    fn configure(&self) {}
    /// Declares the slot of the running thread, if the backend allows that.
    fn enter(_hint: u32) {}
    /// True if a thread's slot is the one that `enter` declared.
    const DECLARED: bool = false;
    /// Returns whether slots are only used under locks.
    fn is_locked(&self) -> bool {
        true
    }
}

impl Backend for NativeSlots {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)))]
    fn is_locked(&self) -> bool {
        !self.is_sequenced()
    }
}

/// Every slot under its lock, even where sequences are available.
#[cfg(not(quarry_no_rseq))]
impl Backend for quarry_sys::percpu::LockedSlots<quarry_sys::percpu::ThreadStripe> {}

std::thread_local! {
    static ENTERED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// `VirtualSlots` with `N` slots.
pub(crate) struct Virtual<const N: u32>(VirtualSlots);

impl<const N: u32> Backend for Virtual<N> {
    fn configure(&self) {
        self.0.choice().declare(N, || ENTERED.get());
    }
    fn enter(hint: u32) {
        ENTERED.set(hint % N);
    }
    const DECLARED: bool = true;
}

macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)+) => {
        $(fn $name(&self $(, $argument: $kind)*) $(-> $result)? { self.0.$name($($argument),*) })+
    };
    (unsafe $(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)+) => {
        $(unsafe fn $name(&self $(, $argument: $kind)*) $(-> $result)? {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.0.$name($($argument),*) }
        })+
    };
}

// SAFETY: everything is forwarded to a backend that keeps the contract.
unsafe impl<const N: u32> PerCpu for Virtual<N> {
    const INERT: Self = Self(VirtualSlots::INERT);
    forward! {
        fn init(&self, os: &'static dyn quarry_sys::os::Os) -> quarry_sys::os::OsResult<()>;
        fn area(&self) -> &quarry_sys::percpu::SlotArea;
        fn current(&self) -> SlotIndex;
        fn visit_locks(&self, visit: &mut quarry_sys::locks::Visit<'_>);
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<const N: u32> Arrays for Virtual<N> {
    forward! {
        fn pop(&self, array: ArrayId) -> Option<Object>;
        fn push(&self, array: ArrayId, object: Object) -> Push;
        fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;
        fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool;
        fn make_room(&self, array: ArrayId, limits: &Limits, take: &mut Take<'_>) -> bool;
        fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool;
        fn drain_where(&self, which: &Which<'_>, take: &mut Take<'_>) -> bool;
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<const N: u32> Lists for Virtual<N> {
    forward! {
        fn compare_store(&self, at: CellWord, expected: u64, new: u64) -> bool;
        fn drain_lists(&self, array: ArrayId, take: &mut TakeList<'_>) -> bool;
    }
    forward! { unsafe
        fn list_pop(&self, array: ArrayId) -> Option<Object>;
        fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push;
        fn list_push_below(&self, array: ArrayId, object: Object) -> Push;
    }
}

/// The slots of one test, with A and B defined. Dropping them releases their memory.
pub(crate) struct Slots<S: Backend>(Box<S>);

impl<S: Backend> Slots<S> {
    pub(crate) fn new() -> Self {
        let slots = Box::new(S::INERT);
        slots.configure();
        slots.init(&OS).expect("the fake OS refuses nothing");
        slots.area().define(A, CAPACITY_A).expect("fresh slots have room");
        slots.area().define(B, CAPACITY_B).expect("fresh slots have room");
        slots.area().define_wide(A, WIDE_A);
        let slots = Self(slots);
        slots.enroll();
        slots
    }

    /// Lets the running thread register itself, if it has to: it does so on its first slow path.
    pub(crate) fn enroll(&self) {
        self.current();
    }

    /// Pops by the fast path, then by the slow one: also for threads without a registration.
    pub(crate) fn take(&self, array: ArrayId) -> Option<Object> {
        self.pop(array).or_else(|| self.pop_unregistered(array))
    }

    /// Pushes by the fast path, then by the slow one.
    pub(crate) fn put(&self, array: ArrayId, object: Object) -> Push {
        match self.push(array, object) {
            Push::Refused => self.push_unregistered(array, object),
            push => push,
        }
    }

    /// Pops a batch of `count`.
    pub(crate) fn take_batch(&self, array: ArrayId, count: usize) -> Option<Vec<Object>> {
        let mut out = vec![MaybeUninit::uninit(); count];
        self.pop_batch(array, &mut out).then(|| {
            // SAFETY: `pop_batch` returned true, so it wrote every element.
            out.into_iter().map(|object| unsafe { object.assume_init() }).collect()
        })
    }

    /// Drains the array in all slots; returns its objects.
    pub(crate) fn drained(&self, array: ArrayId) -> Vec<Object> {
        let mut all = Vec::new();
        assert!(self.drain(array, &mut |objects| all.extend_from_slice(objects)));
        all
    }
}

impl<S: Backend> Deref for Slots<S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: Backend> Drop for Slots<S> {
    fn drop(&mut self) {
        // SAFETY: the test is over; its threads have been joined.
        unsafe { self.0.area().release(&OS) };
    }
}

/// An object without memory: only a number.
pub(crate) fn tag(number: usize) -> Object {
    Object::new(((number + 1) * 16) as *mut u8).expect("numbers are small")
}

/// The number of a `tag`.
pub(crate) fn number(object: Object) -> usize {
    object.as_ptr() as usize / 16 - 1
}

/// Memory of objects for lists.
#[repr(align(16))]
pub(crate) struct Cell16(std::cell::UnsafeCell<[u64; 2]>);

/// `count` objects for lists, all different.
pub(crate) struct Objects(Box<[Cell16]>);

// SAFETY: only the holder of an object (by the list's contract, one thread) touches its memory.
unsafe impl Sync for Objects {}

impl Objects {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Cell16(std::cell::UnsafeCell::new([0; 2]))).collect())
    }

    pub(crate) fn get(&self, index: usize) -> Object {
        Object::new(self.0[index].0.get().cast()).expect("a box is not null")
    }

    pub(crate) fn index_of(&self, object: Object) -> usize {
        let offset = object.as_ptr() as usize - self.0.as_ptr() as usize;
        assert!(
            offset.is_multiple_of(16) && offset / 16 < self.0.len(),
            "an object that was not pushed"
        );
        offset / 16
    }

    /// The numbers of the objects that are linked from `head` on.
    pub(crate) fn walk(&self, head: Option<Object>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut next = head;
        while let Some(object) = next {
            found.push(self.index_of(object));
            assert!(found.len() <= self.0.len(), "a list that never ends");
            // SAFETY: the object is one of ours, and its first word is the list's.
            next = Object::new(unsafe { object.cast::<u64>().read() } as *mut u8);
        }
        found
    }
}
