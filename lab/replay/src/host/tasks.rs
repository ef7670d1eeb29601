//! Tasks of a simulated machine, and the locks that they use. The binary supplies the machine. A
//! system lock would stop the whole machine when a task waits for it, because all tasks of a
//! machine share one thread.

use super::word::{Word, new_machine};
use quarry_sys::primitive::{Ordering::SeqCst, futex};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The services that a replay needs from its machine, besides time.
pub trait Host {
    /// Starts a task on CPU number `cpu` of the machine, or on one that the scheduler chooses.
    fn spawn(&self, cpu: Option<usize>, body: Box<dyn FnOnce()>);

    /// Starts the handler of a device's interrupts: it takes precedence over every task of its CPU.
    fn spawn_handler(&self, cpu: usize, body: Box<dyn FnOnce()>);

    /// The running task computes for `ns` nanoseconds.
    fn work(&self, ns: u64);

    /// The running task writes `bytes` bytes that no cache holds.
    fn memory(&self, bytes: usize);

    /// The running task sleeps for `ns` nanoseconds.
    fn sleep(&self, ns: u64);

    /// Lets other tasks of the CPU run before the running task goes on.
    fn yield_now(&self);

    /// Number of CPUs, including the CPU of the measuring task.
    fn cpus(&self) -> u32;

    /// The CPU of the running task.
    fn cpu(&self) -> u32;

    /// Time for which CPUs were busy so far, summed over all CPUs, in nanoseconds.
    fn busy_ns(&self) -> u64;
}

std::thread_local! {
    static HOST: Cell<Option<&'static dyn Host>> = const { Cell::new(None) };
}

/// Lets replays in `body` start their tasks on `host`.
///
/// # Panics
/// If `run_on` is already running on this thread.
pub fn run_on<R>(host: &'static dyn Host, body: impl FnOnce() -> R) -> R {
    assert!(HOST.replace(Some(host)).is_none(), "one machine at a time");
    new_machine();
    let result = body();
    HOST.set(None);
    result
}

fn host() -> &'static dyn Host {
    HOST.get().expect("a replay runs on a machine")
}

/// A scope for tasks: it ends only after every task that was started in it.
pub(crate) struct Scope<'scope, 'env: 'scope> {
    running: Rc<Countdown>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Tasks that have not ended.
#[derive(Default)]
struct Countdown {
    tasks: Cell<u32>,
    ended: Word,
}

impl Countdown {
    fn wait(&self) {
        while self.tasks.get() > 0 {
            let seen = self.ended.load(SeqCst);
            if self.tasks.get() > 0 {
                futex::wait(&self.ended, seen);
            }
        }
    }

    fn end(&self) {
        self.tasks.set(self.tasks.get() - 1);
        self.ended.fetch_add(1, SeqCst);
        futex::wake_all(&self.ended);
    }
}

/// Calls `body`, and waits for the tasks that it has started.
pub(crate) fn scope<'env, T>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope { running: Rc::default(), scope: PhantomData, env: PhantomData };
    let result = body(&scope);
    scope.running.wait();
    result
}

pub(crate) struct Handle<T> {
    result: Rc<Cell<Option<T>>>,
    running: Rc<Countdown>,
}

impl<T> Handle<T> {
    /// Waits until the task has ended, and returns its result. A task of a machine cannot fail.
    pub(crate) fn join(self) -> Result<T, std::convert::Infallible> {
        loop {
            let seen = self.running.ended.load(SeqCst);
            if let Some(result) = self.result.take() {
                return Ok(result);
            }
            futex::wait(&self.running.ended, seen);
        }
    }
}

/// Starts a task on the CPU at position `index` of `cpus`, counted modulo their number; on any CPU
/// if the list is empty.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    index: usize,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Handle<T> {
    let cpu = cpus.get(index % cpus.len().max(1)).copied();
    spawn_by(scope, run, |body| host().spawn(cpu, body))
}

/// Starts the handler of a device's interrupts on the first of `cpus`.
pub(crate) fn spawn_handler<'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    run: impl FnOnce() + Send + 'scope,
) {
    let cpu = cpus.first().copied().unwrap_or(0);
    spawn_by(scope, run, |body| host().spawn_handler(cpu, body));
}

fn spawn_by<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
    start: impl FnOnce(Box<dyn FnOnce()>),
) -> Handle<T> {
    let (result, running) = (Rc::new(Cell::new(None)), scope.running.clone());
    running.tasks.set(running.tasks.get() + 1);
    let handle = Handle { result: result.clone(), running: running.clone() };
    let body = move || {
        result.set(Some(run()));
        running.end();
    };
    let body: Box<dyn FnOnce() + 'scope> = Box::new(body);
    // SAFETY: only the lifetime changes. `scope` does not return before every task that was started
    // in it has ended (`Countdown::wait`), and what the task borrows lives longer than `scope`. A
    // panic in `body` of `scope` ends the process: profiles abort.
    let body =
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'scope>, Box<dyn FnOnce()>>(body) };
    start(body);
    handle
}

/// A lock whose waiters sleep.
pub(crate) struct Mutex<T> {
    held: Word,
    value: UnsafeCell<T>,
}

// SAFETY: one task at a time has the guard, and with it the value; all tasks of a machine share one
// thread of the system.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// States of the word, as in `quarry_sys::lock`; a new word is free.
const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { held: Word::default(), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        if self.held.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_err() {
            while self.held.swap(AWAITED, SeqCst) != FREE {
                futex::wait(&self.held, AWAITED);
            }
        }
        MutexGuard { mutex: self }
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// The right to use the value of a locked mutex.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the owner of the guard holds the lock, so no `&mut` is alive but through it.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference through the guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.mutex.held.swap(FREE, SeqCst) == AWAITED {
            futex::wake_one(&self.mutex.held);
        }
    }
}

/// A condition that tasks wait for; a waiting task releases its [`Mutex`] meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    times: Word,
}

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let (mutex, seen) = (guard.mutex, self.times.load(SeqCst));
        drop(guard);
        futex::wait(&self.times, seen);
        mutex.lock()
    }

    pub(crate) fn notify_one(&self) {
        self.times.fetch_add(1, SeqCst);
        futex::wake_one(&self.times);
    }

    pub(crate) fn notify_all(&self) {
        self.times.fetch_add(1, SeqCst);
        futex::wake_all(&self.times);
    }
}

/// A barrier: every task that reaches it waits until the last one has come.
#[derive(Debug)]
pub(crate) struct Barrier {
    tasks: usize,
    waiting: Mutex<usize>,
    opened: Condvar,
}

impl Barrier {
    pub(crate) fn new(tasks: usize) -> Self {
        Self { tasks, waiting: Mutex::new(0), opened: Condvar::default() }
    }

    pub(crate) fn wait(&self) {
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        if *waiting == self.tasks {
            *waiting = 0;
            drop(waiting);
            self.opened.notify_all();
        } else {
            let seen = self.opened.times.load(SeqCst);
            drop(waiting);
            while self.opened.times.load(SeqCst) == seen {
                futex::wait(&self.opened.times, seen);
            }
        }
    }
}

/// The lock of an address space (`mmap_sem`): several readers at a time or one writer, in order of
/// arrival. Locking and unlocking each operate once on one cache line. A task that finds the lock
/// taken sleeps. The task that releases the lock hands it to the next in the queue: to one writer,
/// or to all readers that wait in a row.
#[derive(Default)]
pub(crate) struct RwLock {
    /// The value is never used. The operations on it take as long as those on the kernel's lock.
    word: Word,
    inside: RefCell<Inside>,
}

#[derive(Default)]
struct Inside {
    readers: u32,
    writing: bool,
    queue: VecDeque<Rc<Waiter>>,
}

struct Waiter {
    writes: bool,
    granted: Word,
}

// SAFETY: all tasks of a machine share one thread of the system, and the machine switches tasks at
// no point between a read of `inside` and the change that follows.
unsafe impl Sync for RwLock {}
// SAFETY: as for `Sync`.
unsafe impl Send for RwLock {}

impl RwLock {
    pub(crate) fn read(&self) -> SpaceGuard<'_> {
        self.enter(false)
    }

    pub(crate) fn write(&self) -> SpaceGuard<'_> {
        self.enter(true)
    }

    fn enter(&self, writes: bool) -> SpaceGuard<'_> {
        if !writes {
            // In the kernel `down_read_trylock`, which a page fault calls, also loads the count
            // before the exchange.
            self.word.load(SeqCst);
        }
        self.word.fetch_add(1, SeqCst);
        if !self.inside.borrow_mut().admit(writes) {
            let waiter = Rc::new(Waiter { writes, granted: Word::default() });
            self.inside.borrow_mut().queue.push_back(waiter.clone());
            while waiter.granted.load(SeqCst) == 0 {
                futex::wait(&waiter.granted, 0);
            }
        }
        SpaceGuard { lock: self, writes }
    }

    fn leave(&self, writes: bool) {
        self.word.fetch_add(1, SeqCst);
        let next = self.inside.borrow_mut().release(writes);
        for waiter in next {
            waiter.granted.store(1, SeqCst);
            futex::wake_one(&waiter.granted);
        }
    }
}

impl Inside {
    /// Admits a task, unless others wait, a writer is inside, or it writes and readers are inside.
    fn admit(&mut self, writes: bool) -> bool {
        let free = self.queue.is_empty() && !self.writing && (!writes || self.readers == 0);
        if free {
            self.hold(writes);
        }
        free
    }

    fn hold(&mut self, writes: bool) {
        self.writing = writes;
        self.readers += u32::from(!writes);
    }

    /// Removes one owner. Returns the waiters that may now enter.
    fn release(&mut self, writes: bool) -> Vec<Rc<Waiter>> {
        self.writing = false;
        self.readers -= u32::from(!writes);
        let mut next = Vec::new();
        while let Some(waiter) = self.queue.front() {
            if self.writing || (waiter.writes && self.readers > 0) {
                break;
            }
            let writes = waiter.writes;
            next.extend(self.queue.pop_front());
            self.hold(writes);
        }
        next
    }
}

/// The right to use a locked address space.
pub(crate) struct SpaceGuard<'a> {
    lock: &'a RwLock,
    writes: bool,
}

impl Drop for SpaceGuard<'_> {
    fn drop(&mut self) {
        self.lock.leave(self.writes);
    }
}

/// Lets other tasks of the CPU run.
pub(crate) fn yield_now() {
    host().yield_now();
}

/// Time for which CPUs were busy so far, summed over all CPUs, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    host().busy_ns()
}

/// Number of CPUs of the machine, including the CPU of the measuring task.
pub(crate) fn cpus() -> u32 {
    host().cpus()
}

/// The CPU of the running task.
pub(crate) fn cpu() -> u32 {
    host().cpu()
}

pub(crate) fn sleep(ns: u64) {
    if ns > 0 {
        host().sleep(ns);
    }
}

/// Keeps the CPU busy for `ns` nanoseconds.
pub(crate) fn work(ns: u64) {
    host().work(ns);
}

/// Occupies the CPU until `ns` nanoseconds have passed.
pub(crate) fn wait(ns: u64) {
    work(ns);
}

/// Clears bytes by `write`. A page or more only takes the time, because no task reads its bytes.
pub(crate) fn clear(bytes: usize, write: impl FnOnce()) {
    if bytes < super::CLEARED_PAGE {
        return write();
    }
    host().memory(bytes);
}
