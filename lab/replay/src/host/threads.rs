//! Tasks that are threads, on the CPUs and with the locks of the system.

use super::Moment;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::sync::{self, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Duration;

pub(crate) use crate::spin::work;
pub(crate) use std::sync::{Barrier, MutexGuard};
pub(crate) use std::thread::{Scope, scope, yield_now};

/// Stack size of a thread: there can be hundreds of threads, and none of them nests deeply.
const STACK_BYTES: usize = 256 << 10;

/// A lock whose waiters sleep. Poisoning is ignored, because a thread that panics with the lock
/// held ends the process or fails its test anyway.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition that tasks wait for; a waiting task releases its [`Mutex`] meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The lock of an address space: several readers at a time, or one writer.
#[derive(Debug, Default)]
pub(crate) struct RwLock(sync::RwLock<()>);

impl RwLock {
    pub(crate) fn read(&self) -> sync::RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> sync::RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread on the CPU at position `index` of `cpus`, counted modulo their number; on any
/// CPU if the list is empty.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    index: usize,
    run: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let cpu = cpus.get(index % cpus.len().max(1)).copied();
    let body = move || {
        if let Some(cpu) = cpu {
            pin(cpu).expect("the CPU is one of those allowed");
        }
        run()
    };
    Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body).expect("a thread can start")
}

/// Starts the thread that stands for the handler of a device's interrupts on the first of `cpus`.
pub(crate) fn spawn_handler<'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: &[usize],
    run: impl FnOnce() + Send + 'scope,
) {
    spawn(scope, cpus, 0, run);
}

/// Binds the calling thread to one CPU.
fn pin(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// CPU time that this process has used, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time =
        clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(time).as_nanos() as u64
}

/// Fills the first bytes of a buffer with zeros, by `write`.
#[inline]
pub(crate) fn clear(_bytes: usize, write: impl FnOnce()) {
    write();
}

/// Occupies the CPU until `ns` nanoseconds have passed.
pub(crate) fn wait(ns: u64) {
    let start = Moment::now();
    while start.elapsed() < Duration::from_nanos(ns) {
        std::hint::spin_loop();
    }
}

/// Sleeps for `ns` nanoseconds, or a little longer.
pub(crate) fn sleep(ns: u64) {
    if ns > 0 {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}
