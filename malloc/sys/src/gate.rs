//! The gate that a thread enters to do work of several steps, and that `fork` closes.
//!
//! The child of a fork has only the thread that forked. The work of all others stays unfinished:
//! their locks stay held, and a page on its way between two lists is on neither. So a thread is
//! *inside* while it changes shared state in several steps, and a thread that forks closes the gate
//! and waits until no other thread is inside. Then every lock is free and every equation holds.
//!
//! * A thread inside occupies a *place*: it stores its task number in one of a few words, each in
//!   its own cache line. Entering is one compare-and-exchange, leaving one store.
//! * While the process has one thread, that thread occupies no place and closes nothing: if its
//!   signal handler forks in the middle of interrupted work, both processes finish that work. The
//!   same holds beside a brief thread: this one never forks, and leaves before a fork, if it can.
//! * The thread that has closed the gate may still enter, so handlers of `fork` may allocate. It
//!   may also close the gate again: a signal handler may fork while its thread is forking.
//! * A thread that is inside may enter again.
//! * A thread leaves the gate while it waits for another one ([`outside`]), because the other may
//!   have to enter to make progress. The waiting thread holds no lock and no half-done work.
//! * A signal handler may also fork while its thread is inside. It does not wait for its own place.
//!   It waits for other threads only for a while, because they may wait for a lock that its thread
//!   holds. Then it forks anyway: POSIX allows the child only async-signal-safe functions.

use crate::primitive::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, futex, relax, task, timer,
};
use core::marker::PhantomData;

/// Number of places. Threads that find all occupied are only counted, together, as the *crowd*.
const PLACES: usize = if cfg!(quarry_model) { 2 } else { 128 };
/// Rounds of spinning before a waiting thread naps, as in `lock`.
const SPIN_ROUNDS: u32 = if cfg!(quarry_model) { 1 } else { 100 };
/// Rounds that a closer with a place waits for others, which may wait for it: some 3 ms of naps.
const PATIENCE: u32 = SPIN_ROUNDS + 50;
/// Rounds that a closer without a place waits for the crowd, which may include it: about 1 s.
const PATIENCE_WITH_CROWD: u32 = SPIN_ROUNDS + 10_000;
/// Number of low bits of `closer`; they count how often the closing thread has closed the gate. The
/// bits above are its task number.
const TIMES_BITS: u32 = 12;

/// A task that is inside, or 0. Two cache lines long, because CPUs prefetch lines in pairs.
#[repr(align(128))]
struct Place(AtomicUsize);

/// The gate; see the head of this file.
#[repr(align(128))]
pub struct Gate {
    /// `task << 12 | times` of the thread that has closed the gate, 0 while it is open.
    closer: AtomicU64,
    sleepers: AtomicU32,
    /// The futex word on which `sleepers` sleep. It counts how often the closer woke them.
    opened: AtomicU32,
    /// Number of threads that are inside without a place.
    crowd: AtomicU32,
    places: [Place; PLACES],
}

/// Proof that the thread is inside. Dropping the guard leaves.
pub struct GateGuard<'a> {
    entered: Entered<'a>,
    stays_on_thread: PhantomData<*mut ()>,
}

enum Entered<'a> {
    /// The process has no other thread that may close the gate.
    Alone,
    Place(&'a AtomicUsize),
    Crowd(&'a AtomicU32),
}

static PROCESS: AtomicPtr<Gate> = AtomicPtr::new(core::ptr::null_mut());

/// Enters the gate of the process, if one is set.
#[must_use]
pub fn enter() -> Option<GateGuard<'static>> {
    // SAFETY: the pointer is null or that of a static.
    let gate = unsafe { PROCESS.load(Ordering::Acquire).as_ref() }?;
    // Thread control blocks lie pages apart, so the low bits say nothing.
    Some(gate.enter(|| task::current() >> 12))
}

/// Runs `sleep` outside the process's gate. The caller holds no lock that is taken inside, and has
/// no unfinished work that the child of a fork would need.
pub fn outside<T>(sleep: impl FnOnce() -> T) -> T {
    // SAFETY: the pointer is null or that of a static.
    match unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        Some(gate) => gate.leave_while(sleep),
        None => sleep(),
    }
}

fn is_of(closer: u64, thread: usize) -> bool {
    closer >> TIMES_BITS == thread as u64
}

fn wait_a_round(round: &mut u32, patience: u32) -> bool {
    *round = round.saturating_add(1);
    if *round > SPIN_ROUNDS {
        timer::nap()
    } else {
        relax()
    }
    *round < patience
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            closer: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            crowd: AtomicU32::new(0),
            places: [const { Place(AtomicUsize::new(0)) }; PLACES],
        }
    }

    /// Enters; waits while another thread has closed the gate. `hint` is the place to try first.
    #[inline]
    pub fn enter(&self, hint: impl FnOnce() -> usize) -> GateGuard<'_> {
        let entered =
            if task::is_known_alone() { Entered::Alone } else { self.enter_beside_others(hint()) };
        GateGuard { entered, stays_on_thread: PhantomData }
    }

    /// Enters unless the gate is closed, even by this thread; a lone thread enters. Never waits.
    pub fn try_enter(&self, hint: usize) -> Option<GateGuard<'_>> {
        let stays_on_thread = PhantomData;
        if task::is_alone() {
            return Some(GateGuard { entered: Entered::Alone, stays_on_thread });
        }
        let entered = self.occupy(hint, task::current());
        if self.closer.load(Ordering::SeqCst) != 0 {
            entered.leave();
            return None;
        }
        Some(GateGuard { entered, stays_on_thread })
    }

    #[inline(never)]
    fn enter_beside_others(&self, hint: usize) -> Entered<'_> {
        let me = task::current();
        loop {
            let entered = self.occupy(hint, me);
            // Sequentially consistent, like the closer's accesses: one sees the other's store.
            let closer = self.closer.load(Ordering::SeqCst);
            if closer == 0 || is_of(closer, me) || self.is_inside_already(&entered, me) {
                return entered;
            }
            entered.leave();
            self.sleep_until_open();
        }
    }

    #[inline]
    fn occupy(&self, hint: usize, me: usize) -> Entered<'_> {
        for offset in 0..PLACES {
            let Place(place) = &self.places[(hint + offset) % PLACES];
            if place.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return Entered::Place(place);
            }
        }
        self.crowd.fetch_add(1, Ordering::SeqCst);
        Entered::Crowd(&self.crowd)
    }

    fn is_inside_already(&self, entered: &Entered<'_>, me: usize) -> bool {
        let of_now = usize::from(matches!(entered, Entered::Place(_)));
        self.places_of(me) > of_now
    }

    fn places_of(&self, thread: usize) -> usize {
        self.places.iter().filter(|place| place.0.load(Ordering::Relaxed) == thread).count()
    }

    #[cold]
    fn sleep_until_open(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let opened = self.opened.load(Ordering::SeqCst);
        if self.closer.load(Ordering::SeqCst) != 0 {
            futex::wait(&self.opened, opened);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Closes the gate before `fork`; waits for others inside (only a while if the caller is, too).
    pub fn close(&self) {
        let me = task::current();
        // A signal handler that forks between this load and the exchange reopens the gate itself.
        if is_of(self.closer.load(Ordering::Relaxed), me) {
            self.closer.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let may_be_inside = self.places_of(me) > 0 || task::is_known_alone();
        let patience = if may_be_inside { PATIENCE } else { u32::MAX };
        let (mut round, mine) = (0, (me as u64) << TIMES_BITS | 1);
        while self.closer.compare_exchange(0, mine, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            if !wait_a_round(&mut round, patience) {
                return;
            }
        }
        let (mut crowd_round, crowd_patience) = (0, patience.min(PATIENCE_WITH_CROWD));
        while self.crowd.load(Ordering::SeqCst) != 0
            && wait_a_round(&mut crowd_round, crowd_patience)
        {}
        for Place(place) in &self.places {
            let is_others = || ![0, me].contains(&place.load(Ordering::SeqCst));
            while is_others() && wait_a_round(&mut round, patience) {}
        }
    }

    /// Makes this the gate that [`enter`] and [`outside`] use.
    pub fn is_of_process(&'static self) {
        PROCESS.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Gives up the places of the calling thread, runs `sleep`, and takes them again. (A thread
    /// counted in the crowd stays inside.)
    fn leave_while<T>(&self, sleep: impl FnOnce() -> T) -> T {
        let me = task::current();
        let mut mine = 0u128;
        for (number, Place(place)) in self.places.iter().enumerate() {
            mine |= u128::from(place.load(Ordering::Relaxed) == me) << number;
        }
        let of_mine =
            || self.places.iter().enumerate().filter(|(number, _)| mine >> number & 1 == 1);
        of_mine().for_each(|(_, Place(place))| place.store(0, Ordering::Release));
        let result = sleep();
        if mine == 0 {
            return result;
        }
        loop {
            // In ascending order, so that no two threads wait for each other's places.
            for (_, Place(place)) in of_mine() {
                let mut round = 0;
                while place.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                    wait_a_round(&mut round, u32::MAX);
                }
            }
            let closer = self.closer.load(Ordering::SeqCst);
            if closer == 0 || is_of(closer, me) {
                return result;
            }
            of_mine().for_each(|(_, Place(place))| place.store(0, Ordering::Release));
            self.sleep_until_open();
        }
    }

    /// Opens the gate in the parent. Called once for each `close` by this thread.
    pub fn open(&self) {
        let closer = self.closer.load(Ordering::Relaxed);
        if is_of(closer, task::current()) {
            self.open_once(closer);
        }
    }

    fn open_once(&self, closer: u64) {
        if closer & ((1 << TIMES_BITS) - 1) > 1 {
            self.closer.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.closer.store(0, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.opened.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.opened);
        }
    }

    /// Opens the gate in the child, where no other thread exists.
    pub fn open_in_child(&self) {
        let me = task::current();
        self.sleepers.store(0, Ordering::Relaxed);
        for Place(place) in &self.places {
            if ![0, me].contains(&place.load(Ordering::Relaxed)) {
                place.store(0, Ordering::Relaxed);
            }
        }
        match self.closer.load(Ordering::Relaxed) {
            closer if is_of(closer, me) => self.open_once(closer),
            _ => self.closer.store(0, Ordering::Relaxed),
        }
    }
}

impl Entered<'_> {
    #[inline]
    fn leave(&self) {
        match self {
            Self::Alone => {}
            Self::Place(place) => place.store(0, Ordering::Release),
            Self::Crowd(crowd) => {
                crowd.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

impl Drop for GateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.entered.leave();
    }
}
