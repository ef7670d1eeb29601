//! The actions of a running task besides calling Quarry. All functions act for the task that calls
//! them. Outside of tasks, `cpu`, `now_ns` and `busy_ns` return 0, `cpus` returns 1, others panic.

use crate::caches::LINE;
use crate::machine::Simulated;
use crate::state::Placement;
use quarry_sys::locks::AnyLock;
use quarry_sys::primitive::{Access, Machine};
use std::cell::Cell;

std::thread_local! {
    static HERE: Cell<*const Simulated> = const { Cell::new(std::ptr::null()) };
}

/// Makes a machine the current one of this thread, until this value is dropped.
pub(crate) struct Here;

impl Here {
    pub(crate) fn set(machine: &Simulated) -> Self {
        HERE.set(machine);
        Self
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(std::ptr::null());
    }
}

/// The current machine of this thread, if there is one.
fn machine<'a>() -> Option<&'a Simulated> {
    // SAFETY: the pointer is set only while a `Here` exists. The machine and this `Here` have the
    // same owner, in whose frame all tasks run. Callers use the reference within one call.
    unsafe { HERE.get().as_ref() }
}

pub(crate) fn here<'a>() -> &'a Simulated {
    machine().expect("a function of quarry_sim::task is called by a task of a simulation")
}

/// The CPU that the task is on. `DeclaredSlot::declare` takes this function.
#[must_use]
pub fn cpu() -> u32 {
    machine().map_or(0, |machine| machine.state().here().0)
}

/// The time on the task's CPU.
#[must_use]
pub fn now_ns() -> u64 {
    machine().map_or(0, Machine::now_ns)
}

/// Number of CPUs, including the CPU outside the sockets. `DeclaredSlot::declare` needs this number
/// if a task runs on that CPU.
#[must_use]
pub fn cpus() -> u32 {
    machine().map_or(1, |machine| machine.state().topology.cpus() + 1)
}

/// Time for which CPUs of the sockets have had a task so far, summed over them, in nanoseconds.
#[must_use]
pub fn busy_ns() -> u64 {
    machine().map_or(0, |machine| machine.state().busy_ns().iter().sum())
}

/// Computes for `ns` nanoseconds, a time that holds at the highest clock and alone on a core. Other
/// tasks get their turn when the task's slice ends.
pub fn compute(ns: u64) {
    here().compute(ns);
}

/// Uses the lines of `bytes` bytes at `address` as plain memory, without waiting for other tasks.
pub fn lines(address: usize, bytes: usize, access: Access) {
    here().touch(address, bytes, access);
}

/// Uses the lines of `bytes` bytes at `address` as a program does: lines from another core come in
/// the order of simulated time, but the processor goes on meanwhile (`next_line_ns`).
pub fn program_lines(address: usize, bytes: usize, access: Access) {
    if !here().state().has(address, bytes, access) {
        here().order();
    }
    here().state().lines.is_ahead = true;
    here().touch(address, bytes, access);
    here().state().lines.is_ahead = false;
}

/// Uses line `key`, which tasks share (a counter, for example), in the order of simulated time.
pub fn shared_line(key: u32, access: Access) {
    // Above all addresses of a process, in the kernel's half.
    here().shared(1 << 63 | (key as usize) << 6, 1, access);
}

/// Reads or writes `bytes` bytes of the memory of the task's node, as fast as the task's core and
/// the socket's bandwidth allow. Caches take the bytes in. Outside the sockets this takes no time.
pub fn memory(bytes: u64) {
    let node = {
        let state = here().state();
        state.topology.socket_of(state.here().0)
    };
    here().order();
    let mut guard = here().state();
    let state = &mut *guard;
    let (cpu, now_ns) = state.here();
    if state.topology.is_outside(cpu) {
        return;
    }
    let after = |busy_until_ns: &mut f64, bytes_per_ns: f64| {
        *busy_until_ns = busy_until_ns.max(now_ns as f64) + bytes as f64 / bytes_per_ns;
        *busy_until_ns - now_ns as f64
    };
    let (core, costs) = (state.topology.core_of(cpu), &state.costs);
    let of_core_ns = after(&mut state.core_busy_until_ns[core as usize], costs.core_bytes_per_ns);
    let of_socket_ns =
        after(&mut state.memory_busy_until_ns[node as usize], costs.socket_bytes_per_ns);
    let took_ns = of_core_ns.max(of_socket_ns);
    state.lines.caches.take_in(core, bytes / LINE as u64, true);
    state.pass(took_ns.round() as u64);
}

/// Sleeps for `ns` nanoseconds; the CPU is free meanwhile.
pub fn sleep(ns: u64) {
    Machine::sleep(here(), 0, Some(ns));
}

/// Sleeps until a task wakes `key`, but no longer than `at_most_ns`. `key` is not 0. Returns true
/// if a task woke `key`.
pub fn sleep_on(key: usize, at_most_ns: Option<u64>) -> bool {
    here().order();
    Machine::sleep(here(), key, at_most_ns);
    here().state().task().was_woken
}

/// Wakes up to `most` tasks that sleep on `key`.
pub fn wake(key: usize, most: usize) {
    Machine::wake(here(), key, most);
}

/// Lets the other tasks of the CPU run. If there are none, the time of one round of waiting passes.
pub fn yield_cpu() {
    let mut state = here().state();
    if state.cpu().queue.is_empty() {
        drop(state);
        return Machine::relax(here());
    }
    state.yield_cpu();
    drop(state);
    here().suspend();
}

/// Yields until no other task is earlier, so that plain reads of shared variables see all writes
/// that other tasks have made before the present time.
pub fn order() {
    here().order();
}

/// Runs `body` while the task keeps its CPU, as with interrupts switched off.
pub fn interrupts_off<T>(body: impl FnOnce() -> T) -> T {
    here().state().task().keeps_cpu += 1;
    let result = body();
    here().state().task().keeps_cpu -= 1;
    result
}

/// Runs `body`, which reads state that tasks share, at no cost: no time passes and no cache line
/// moves. The task still waits for a lock that another task holds.
pub fn watch<T>(body: impl FnOnce() -> T) -> T {
    here().state().task().watches += 1;
    let result = body();
    here().state().task().watches -= 1;
    result
}

/// Counts waits for cache lines from now on, and names the lines of these addresses.
pub fn name_lines(names: impl IntoIterator<Item = (usize, String)>) {
    let mut state = here().state();
    let line_of = |(address, name)| (state.lines.of(address, 1).0, name);
    let names = names.into_iter().map(line_of).collect();
    state.lines.waits.begin(names);
}

/// Number of times that tasks have taken `lock` inside [`watch`] so far.
#[must_use]
pub fn watched(lock: &dyn AnyLock) -> u64 {
    here().state().locks.at(std::ptr::from_ref(lock).cast::<()>() as usize).watched
}

/// A random number that follows from the run's seed.
#[must_use]
pub fn random() -> u64 {
    here().random()
}

/// Starts another task.
pub fn spawn(placement: Placement, work: impl FnOnce() + 'static) {
    let machine = here();
    machine.order();
    let mut state = machine.state();
    let (cpu, now_ns) = state.here();
    let task = state.add(placement, cpu);
    state.make_ready(task, now_ns);
    machine.spawned.borrow_mut().push((task, Box::new(work)));
}

/// A barrier: tasks that reach it wait until all have come.
pub struct Barrier {
    tasks: usize,
    come: Cell<usize>,
}

impl Barrier {
    /// Makes a barrier for `tasks` tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self { tasks, come: Cell::new(0) }
    }

    /// Waits until all tasks have called this. The barrier can be used again.
    pub fn wait(&self) {
        let key = std::ptr::from_ref(self) as usize;
        here().order();
        self.come.set(self.come.get() + 1);
        if self.come.get() < self.tasks {
            here().block(key, None);
            return;
        }
        self.come.set(0);
        let mut state = here().state();
        let (_, now_ns) = state.here();
        state.wake(key, usize::MAX, now_ns);
    }
}
