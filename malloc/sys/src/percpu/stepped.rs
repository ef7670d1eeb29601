//! Restartable sequences as lists of steps, for the model checker (`--cfg quarry_model`).
//!
//! [`SteppedSlots`] is `RseqSlots` without the assembly: the same cells, the same code for opening,
//! draining and stripes (`sequenced`), but each sequence is a list of steps (one load or store
//! each) on a virtual CPU, and shuttle may run another thread before every step. Instead of its
//! next step, a sequence restarts if
//!
//! * another sequence has begun on its virtual CPU since its last step (it was preempted),
//! * a barrier has been called since then, or
//! * shuttle's random source demands it (a signal or a migration: about one step in 16).
//!
//! A sequence that is interrupted four times refuses, as one does that a debugger steps.
//!
//! An unpinned thread changes its virtual CPU at random when a sequence begins. The model is
//! sequentially consistent: it has no store buffers and no reordering.
//!
//! How to check code above this layer (a barn, a slab policy):
//!
//! ```ignore
//! #![cfg(quarry_model)]                       // tests/model_barn.rs, run by scripts/model.sh
//! use quarry_sys::percpu::{Arrays, PerCpu, SteppedSlots};
//! use shuttle::{sync::Arc, thread};
//!
//! fn scenario() {                             // runs thousands of times, each interleaved anew
//!     let slots = Arc::new(SteppedSlots::INERT);
//!     slots.sequences().set_cpus(2);          // before init; fewer CPUs than threads = preemption
//!     slots.init(&OS).unwrap();               // OS: a static FakeOs; atomics in it may be mapped
//!     slots.area().define(A, 2).unwrap();     // small capacities reach full and empty quickly
//!     let other = { let slots = slots.clone(); thread::spawn(move || { slots.prepare(A); .. }) };
//!     ..                                      // assert at the end what must always hold
//!     unsafe { slots.area().release(&OS) };    // each run maps its own slots
//! }
//! shuttle::check_random(scenario, 5_000);     // and shuttle::check_pct(scenario, 5_000, 3)
//! ```
//!
//! Rules: use shuttle's threads; call `primitive::relax` in waiting loops; keep all shared state in
//! `primitive`'s atomics or under a `CountedLock`, and none between runs. A failing run prints a
//! schedule for `shuttle::replay`. To test that a model can fail, plant a bug ([`Stepped::plant`]).

use super::area::SlotArea;
use super::layout::{ArrayId, CellWord, LIST_MAX, LOOKED_AT, SlotIndex};
use super::object::{Object, Push};
use super::sequenced::Sequenced;
use super::sequences::{Cpus, STOPPED_LIST, Sequences};
use super::word_tree::WordTree;
use crate::primitive::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, point};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use shuttle::rand::{Rng, thread_rng};

/// Maximum number of virtual CPUs of a model; four CPUs suffice for three threads.
const MAX_CPUS: usize = 8;
/// On average one step in this many is interrupted, as by a signal.
const INTERRUPT_ONE_IN: u32 = 16;
/// One sequence in this many begins on a CPU chosen at random, perhaps the thread's last one.
const MIGRATE_ONE_IN: u32 = 4;
/// Attempts after which a sequence refuses; in products a thread's patience allows more.
const ATTEMPTS: u32 = 4;

/// Slots of virtual CPUs under sequences that the model checker interrupts.
pub type SteppedSlots = Sequenced<Stepped>;

/// A bug that this file can contain on purpose, to show that a model finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedBug {
    /// No mistake.
    None = 0,
    /// A preempted sequence continues instead of restarting.
    CommitsAfterPreemption,
    /// The barrier interrupts no sequence.
    BarrierDoesNothing,
    /// A push loads the header before the bounds.
    HeaderBeforeBounds,
    /// A push commits before it checks the bounds, and undoes the commit if they refuse.
    CommitBeforeBounds,
    /// A pop reads the closed bounds of fresh memory as `begin = 0`.
    FreshBoundsAdmitPops,
    /// `compare_store` also stores to a stopped list.
    CompareStoreIgnoresStop,
    /// A pop also takes from a stopped list.
    ListPopIgnoresStop,
    /// A bounded push reads the guard of a stopped list as an endless bound.
    ListPushBelowIgnoresStop,
    /// `compare_store` writes to the given slot even from another CPU.
    CompareStoreIgnoresCpu,
    /// A free reads the owner of a slab before it takes the lock, and not again.
    OwnerIsReadOnce,
}

/// The virtual CPUs.
pub struct Stepped {
    cpus: AtomicU32,
    next_attempt: AtomicU64,
    /// For each CPU, the attempt that last began there; 0 after a barrier.
    running: [AtomicU64; MAX_CPUS],
    refuses_barrier: AtomicBool,
    bug: AtomicU8,
}

shuttle::thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static PINNED: Cell<bool> = const { Cell::new(false) };
    static UNREGISTERED: Cell<bool> = const { Cell::new(false) };
}

impl Stepped {
    /// Sets the number of virtual CPUs (2 by default); before `init`.
    ///
    /// # Panics
    /// If `cpus` is outside 1..=8.
    pub fn set_cpus(&self, cpus: u32) {
        assert!(cpus > 0 && cpus as usize <= MAX_CPUS, "a model has 1..=8 CPUs");
        self.cpus.raw().store(cpus, Ordering::Relaxed);
    }

    /// Moves the running thread to `cpu` and keeps it there.
    pub fn pin(cpu: u32) {
        CPU.with(|current| current.set(cpu));
        PINNED.with(|pinned| pinned.set(true));
    }

    /// From now on the running thread has no registration: the stripes serve it.
    pub fn unregister() {
        UNREGISTERED.with(|unregistered| unregistered.set(true));
    }

    /// From now on the kernel refuses the barrier, as under a seccomp filter installed late.
    pub fn refuse_barrier(&self) {
        self.refuses_barrier.raw().store(true, Ordering::Relaxed);
    }

    /// Plants one bug in the sequences. To be called before they run.
    pub fn plant(&self, bug: PlantedBug) {
        self.bug.raw().store(bug as u8, Ordering::Relaxed);
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bug.raw().load(Ordering::Relaxed) == bug as u8
    }

    /// Runs a sequence to its end. Returns `refused` if the running thread has no registration, or
    /// if each attempt was interrupted.
    fn run<T>(
        &self,
        area: &SlotArea,
        refused: T,
        mut steps: impl FnMut(&Attempt<'_>) -> Result<T, Interrupted>,
    ) -> T {
        if !self.registered() {
            return refused;
        }
        let mut attempts = (0..ATTEMPTS).map(|_| steps(&self.begin(area)));
        attempts.find_map(Result::ok).unwrap_or(refused)
    }

    fn begin<'a>(&'a self, area: &'a SlotArea) -> Attempt<'a> {
        point();
        let cpus = self.slots();
        if !PINNED.with(Cell::get) && thread_rng().gen_ratio(1, MIGRATE_ONE_IN) {
            CPU.with(|current| current.set(thread_rng().gen_range(0..cpus)));
        }
        let cpu = self.slot();
        let number = self.next_attempt.raw().fetch_add(1, Ordering::Relaxed) + 1;
        self.running[cpu as usize].raw().store(number, Ordering::Relaxed);
        Attempt { stepped: self, area, slot: SlotIndex(cpu), number }
    }
}

/// A sequence was preempted, signalled or stopped by a barrier, and has to restart.
struct Interrupted;

/// One attempt at a sequence, on the CPU on which it began.
struct Attempt<'a> {
    stepped: &'a Stepped,
    area: &'a SlotArea,
    slot: SlotIndex,
    number: u64,
}

impl Attempt<'_> {
    /// Makes one step. Another thread may run before it and interrupt this attempt.
    fn step<T>(&self, act: impl FnOnce() -> T) -> Result<T, Interrupted> {
        point();
        let running = &self.stepped.running[self.slot.index()];
        let preempted = running.raw().load(Ordering::Relaxed) != self.number
            && !self.stepped.has(PlantedBug::CommitsAfterPreemption);
        if preempted || thread_rng().gen_ratio(1, INTERRUPT_ONE_IN) {
            return Err(Interrupted);
        }
        Ok(act())
    }

    fn load(&self, word: &AtomicU64) -> Result<u64, Interrupted> {
        self.step(|| word.raw().load(Ordering::Relaxed))
    }

    fn store(&self, word: &AtomicU64, value: u64) -> Result<(), Interrupted> {
        self.step(|| word.raw().store(value, Ordering::Relaxed))
    }

    fn word(&self, array: ArrayId, word: usize) -> &AtomicU64 {
        self.area.word(self.slot, array, word)
    }

    fn at(&self, index: u64) -> &AtomicU64 {
        self.area.at(self.slot, index as usize)
    }

    /// `begin` from word 1 of a cell; 0xffff where it is closed.
    fn begin_of(&self, bounds: u64) -> u64 {
        let fresh_admits = bounds == 0 && self.stepped.has(PlantedBug::FreshBoundsAdmitPops);
        if fresh_admits { 0 } else { !bounds & 0xffff }
    }

    fn link(
        &self,
        array: ArrayId,
        list: u64,
        below: u64,
        object: Object,
    ) -> Result<Push, Interrupted> {
        let address = object.as_ptr() as u64;
        let head = (list >> 20) << 4;
        if head == address {
            return Ok(Push::Duplicate);
        }
        if list & LIST_MAX >= below {
            return Ok(Push::Refused);
        }
        self.store(link(&object), head)?;
        self.count(array, 3)?;
        self.store(self.word(array, 0), (address >> 4) << 20 | ((list & LIST_MAX) + 1))?;
        Ok(Push::Stored)
    }

    fn count(&self, array: ArrayId, word: usize) -> Result<(), Interrupted> {
        self.step(|| self.word(array, word).raw().fetch_add(1, Ordering::Relaxed)).map(|_| ())
    }
}

fn link(object: &Object) -> &AtomicU64 {
    // SAFETY: callers of the list operations promise that the first word of the object is the
    // list's; objects are aligned to 16 bytes, and the model's atomics have the layout of a u64.
    unsafe { object.cast::<AtomicU64>().as_ref() }
}

// SAFETY: every step checks, atomically with its act, that its attempt is still the last one on its
// CPU. So a sequence commits only if no other sequence and no barrier came on its slot since. Each
// loads bounds or guard first, and refuses where they are closed.
unsafe impl Cpus for Stepped {
    const INERT: Self = Self {
        cpus: AtomicU32::new(2),
        next_attempt: AtomicU64::new(0),
        running: [const { AtomicU64::new(0) }; MAX_CPUS],
        refuses_barrier: AtomicBool::new(false),
        bug: AtomicU8::new(0),
    };

    fn start(&self) -> bool {
        true
    }

    fn slots(&self) -> u32 {
        self.cpus.raw().load(Ordering::Relaxed)
    }

    fn registered(&self) -> bool {
        !UNREGISTERED.with(Cell::get)
    }

    fn slot(&self) -> u32 {
        CPU.with(Cell::get) % self.slots()
    }

    fn barrier(&self) -> bool {
        if self.refuses_barrier.raw().load(Ordering::Relaxed) {
            return false;
        }
        // One CPU is interrupted after the other, as by the kernel.
        for running in &self.running[..self.slots() as usize] {
            point();
            if !self.has(PlantedBug::BarrierDoesNothing) {
                running.raw().store(0, Ordering::Relaxed);
            }
        }
        true
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn reads_owner_once(&self) -> bool {
        self.has(PlantedBug::OwnerIsReadOnce)
    }
}

// SAFETY: as for `Cpus`.
unsafe impl Sequences for Stepped {
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        self.run(area, None, |attempt| {
            let begin = attempt.begin_of(attempt.load(attempt.word(array, 1))?);
            let header = attempt.load(attempt.word(array, 0))?;
            let top = header & 0xffff;
            if top <= begin {
                return Ok(None);
            }
            let object = attempt.load(attempt.at(top - 1))?;
            attempt.store(attempt.word(array, 0), header.wrapping_add(0xffff))?;
            Ok(Object::new(object as *mut u8))
        })
    }

    fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        self.run(area, Push::Refused, |attempt| {
            let address = object.as_ptr() as u64;
            let load_bounds = || attempt.load(attempt.word(array, 1));
            let load_header = || attempt.load(attempt.word(array, 0));
            let (bounds, header) = if self.has(PlantedBug::HeaderBeforeBounds) {
                let header = load_header()?;
                (load_bounds()?, header)
            } else {
                (load_bounds()?, load_header()?)
            };
            let top = header & 0xffff;
            let committed = header.wrapping_add(0x1_0001);
            if self.has(PlantedBug::CommitBeforeBounds) && top != 0 {
                attempt.store(attempt.at(top), address)?;
                attempt.store(attempt.word(array, 0), committed)?;
                if top >= bounds >> 16 {
                    attempt.word(array, 0).raw().store(header, Ordering::Relaxed);
                    return Ok(Push::Refused);
                }
                return Ok(Push::Stored);
            }
            if top >= bounds >> 16 {
                return Ok(Push::Refused);
            }
            // With the bug `HeaderBeforeBounds`, `top` may be 0: a CPU would read the slot in
            // front.
            for depth in 1..=LOOKED_AT as u64 {
                if top != 0 && attempt.load(attempt.at(top - depth))? == address {
                    return Ok(Push::Duplicate);
                }
            }
            attempt.store(attempt.at(top), address)?;
            attempt.store(attempt.word(array, 0), committed)?;
            Ok(Push::Stored)
        })
    }

    fn pop_batch(&self, area: &SlotArea, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        self.run(area, false, |attempt| {
            let begin = attempt.begin_of(attempt.load(attempt.word(array, 1))?);
            let header = attempt.load(attempt.word(array, 0))?;
            let (top, count) = (header & 0xffff, out.len() as u64);
            if top < begin + count {
                return Ok(false);
            }
            for (index, object) in (top - count..top).zip(&mut *out) {
                let address = attempt.load(attempt.at(index))? as *mut u8;
                object.write(NonNull::new(address).expect("arrays hold no null"));
            }
            attempt.store(attempt.word(array, 0), header - count)?;
            Ok(true)
        })
    }

    fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool {
        self.run(area, false, |attempt| {
            let bounds = attempt.load(attempt.word(array, 1))?;
            let header = attempt.load(attempt.word(array, 0))?;
            let (top, count) = (header & 0xffff, objects.len() as u64);
            if top + count > bounds >> 16 {
                return Ok(false);
            }
            for (index, object) in (top..).zip(objects) {
                attempt.store(attempt.at(index), object.as_ptr() as u64)?;
            }
            attempt.store(attempt.word(array, 0), header + count)?;
            Ok(true)
        })
    }

    unsafe fn list_pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        self.run(area, None, |attempt| {
            let guard = attempt.load(attempt.word(array, 1))?;
            if guard == STOPPED_LIST && !self.has(PlantedBug::ListPopIgnoresStop) {
                return Ok(None);
            }
            let list = attempt.load(attempt.word(array, 0))?;
            let Some(head) = Object::new(((list >> 20) << 4) as *mut u8) else { return Ok(None) };
            let next = attempt.load(link(&head))?;
            attempt.count(array, 2)?;
            attempt.store(attempt.word(array, 0), (next >> 4) << 20 | ((list & LIST_MAX) - 1))?;
            Ok(Some(head))
        })
    }

    unsafe fn list_push(
        &self,
        area: &SlotArea,
        array: ArrayId,
        guard: u64,
        object: Object,
    ) -> Push {
        self.run(area, Push::Refused, |attempt| {
            if attempt.load(attempt.word(array, 1))? != guard {
                return Ok(Push::Refused);
            }
            let list = attempt.load(attempt.word(array, 0))?;
            attempt.link(array, list, LIST_MAX, object)
        })
    }

    unsafe fn list_push_below(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        self.run(area, Push::Refused, |attempt| {
            let below = attempt.load(attempt.word(array, 1))? as u32 as i32;
            let list = attempt.load(attempt.word(array, 0))?;
            let stopped = below < 0 && !self.has(PlantedBug::ListPushBelowIgnoresStop);
            let below = if stopped { 0 } else { u64::from(below as u32) };
            attempt.link(array, list, below, object)
        })
    }

    fn compare_store(&self, area: &SlotArea, at: CellWord, expected: u64, new: u64) -> bool {
        let (slot, array, word) = at;
        self.run(area, false, |attempt| {
            if attempt.slot != slot && !self.has(PlantedBug::CompareStoreIgnoresCpu) {
                return Ok(false);
            }
            let of_slot = |word| attempt.area.word(slot, array, word);
            let stopped = attempt.load(of_slot(1))? == STOPPED_LIST;
            if stopped && !self.has(PlantedBug::CompareStoreIgnoresStop) {
                return Ok(false);
            }
            if attempt.load(of_slot(word))? != expected {
                return Ok(false);
            }
            attempt.store(of_slot(word), new)?;
            Ok(true)
        })
    }

    unsafe fn walk(&self, area: &SlotArea, tree: &WordTree, index: u64) -> u64 {
        self.run(area, 0, |attempt| {
            const LAST: u64 = WordTree::FAN_OUT as u64 - 1;
            const SHIFTS: u64 = WordTree::NODE_ALIGN as u64;
            let root = attempt.load(tree.root())?;
            if root & WordTree::IS_LEAF != 0 {
                return Ok(if index == 0 { root } else { 0 });
            }
            let mut shift = root % SHIFTS;
            let mut node = root - shift;
            if node == 0 || index >> shift > LAST {
                return Ok(0);
            }
            loop {
                let place = (index >> shift & LAST) as usize;
                // SAFETY: the word lies in a node that this sequence has found in the tree; the
                // caller promises that the node stays one until a barrier, which would have
                // interrupted this load.
                let word =
                    attempt.load(unsafe { &*(node as usize as *const AtomicU64).add(place) })?;
                if word & WordTree::IS_NODE == 0 {
                    return Ok(word);
                }
                node = word - WordTree::IS_NODE;
                shift = shift.wrapping_sub(WordTree::LEVEL_BITS.into()) % SHIFTS;
            }
        })
    }
}
