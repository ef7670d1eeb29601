//! The machine under `quarry_sys`: what a task's calls cost, and where other tasks get their turn.

use crate::caches::LINE;
use crate::costs::Waiting;
use crate::random;
use crate::state::{Event, State, Status, TaskId};
use quarry_sys::primitive::announce::Waited;
use quarry_sys::primitive::{Access, Effort, Machine};
use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::panic::Location;

/// On a CPU with interrupts, the longest time that a task computes before it lets an interrupt in.
const INTERRUPT_NS: u64 = 500;

pub(crate) type Work<'a> = Box<dyn FnOnce() + 'a>;

/// The machine of a run. Its state is borrowed only within one step, never while another task runs.
pub(crate) struct Simulated {
    pub(crate) state: RefCell<State>,
    /// Tasks that running tasks have spawned and that have not begun, with their work.
    pub(crate) spawned: RefCell<Vec<(TaskId, Work<'static>)>>,
    random: Cell<u64>,
}

impl Simulated {
    pub(crate) fn new(state: State, seed: u64) -> Self {
        Self { state: RefCell::new(state), spawned: RefCell::default(), random: Cell::new(seed) }
    }

    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Lets other tasks run until an event resumes the running task.
    pub(crate) fn suspend(&self) {
        let yielder = self.state().task().yielder;
        // SAFETY: the running task stored the pointer when it began. A yielder lives as long as its
        // coroutine runs, and that coroutine is the caller.
        unsafe { (*yielder).suspend(()) };
    }

    /// A random number below 2^64.
    pub(crate) fn random(&self) -> u64 {
        let mut state = self.random.get();
        let number = random::next(&mut state);
        self.random.set(state);
        number
    }

    /// Waits until no other task is earlier in simulated time. Other tasks of the CPU may run here.
    pub(crate) fn order(&self) {
        let mut state = self.state();
        if state.task().watches > 0 {
            return;
        }
        let (running, (_, now_ns)) = (state.running, state.here());
        if state.slice_is_over() {
            state.outcome.events += 1;
            state.yield_cpu();
        } else if state.events.peek().is_none_or(|Reverse((at_ns, ..))| *at_ns > now_ns) {
            state.outcome.events += 1;
            return;
        } else {
            state.queue_event(now_ns, Event::Resume(running));
        }
        drop(state);
        self.suspend();
    }

    /// Lets `ns` nanoseconds pass for the running task, even if other tasks are then earlier.
    pub(crate) fn pass(&self, ns: u64) {
        let mut state = self.state();
        if state.task().watches == 0 {
            state.pass(ns);
        }
    }

    /// See [`crate::task::compute`].
    pub(crate) fn compute(&self, ns: u64) {
        let mut ns = self.state().stretched(ns);
        loop {
            let (left_ns, slice_ns) = {
                let mut state = self.state();
                let slice_ns = state.costs.slice_ns;
                let cpu = state.cpu();
                let slice_ns =
                    if cpu.has_interrupts { INTERRUPT_NS.min(slice_ns) } else { slice_ns };
                (cpu.slice_ends_ns.saturating_sub(cpu.now_ns), slice_ns)
            };
            // If no other task waits, the running task goes on for another slice.
            let step_ns = ns.min(if left_ns == 0 { slice_ns } else { left_ns.min(slice_ns) });
            self.pass(step_ns);
            ns -= step_ns;
            if ns == 0 {
                return;
            }
            self.order();
        }
    }

    /// Fetches lines, and lets the time for it pass. Returns this time.
    fn fetch(&self, address: usize, bytes: usize, access: Access) -> u64 {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.task().watches > 0 {
            return 0;
        }
        let here = state.here();
        let lines = state.lines.of(address, bytes);
        state.lines.waits.place = state.task().place.take();
        let machine = (&state.topology, &state.costs);
        let mut fetched = state.lines.fetch(machine, here, lines, access);
        if state.task().keeps_cpu > 0 {
            fetched.ns = (fetched.ns as f64 / state.costs.section_overlap) as u64;
        }
        state.outcome.lines_in_socket += fetched.in_socket;
        state.outcome.lines_remote += fetched.remote;
        state.pass(fetched.ns);
        fetched.ns
    }

    /// Accesses a shared line in the order of simulated time. The access takes effect at its end.
    pub(crate) fn shared(&self, address: usize, bytes: usize, access: Access) {
        self.order();
        let own_ns = {
            let costs = &self.state().costs;
            costs.hit_ns + costs.locked_ns
        };
        if self.fetch(address, bytes, access) > own_ns {
            self.order();
        }
    }

    /// Suspends the running task, off its CPU, until another task wakes `key` or `until_ns` has
    /// come. Returns whether it was woken.
    pub(crate) fn block(&self, key: usize, until_ns: Option<u64>) -> bool {
        let mut state = self.state();
        let running = state.running;
        if key != 0 {
            state.sleepers.entry(key).or_default().push_back(running);
        }
        state.begin_wait(Status::Sleeps(key), until_ns);
        state.leave_cpu();
        drop(state);
        self.suspend();
        self.state().task().was_woken
    }

    /// Spins for a lock, at most until `until_ns`. Returns whether its owner handed the lock over.
    fn spin(&self, lock: usize, until_ns: Option<u64>) -> bool {
        let mut state = self.state();
        let (running, (_, now_ns)) = (state.running, state.here());
        state.locks.at(lock).queue.push_back((running, now_ns));
        state.begin_wait(Status::Spins(lock), until_ns);
        drop(state);
        self.suspend();
        self.state().task().was_woken
    }

    /// Waits for a lock as Quarry's futex lock does: spins on the CPU for a while, then sleeps.
    fn wait_as_futex(&self, lock: usize) -> Waited {
        let (since_ns, spin_ns, call_ns) = {
            let state = self.state();
            (state.here().1, state.costs.spin_ns, state.costs.call_ns)
        };
        if self.spin(lock, Some(since_ns + spin_ns)) {
            return Waited::HandedOver;
        }
        self.pass(call_ns);
        self.order();
        let sleeps = {
            let mut state = self.state();
            let running = state.running;
            let at = state.locks.at(lock);
            if at.is_held {
                at.sleepers.push_back(running);
            }
            at.is_held
        };
        if sleeps {
            self.block(0, None);
        }
        let mut state = self.state();
        let (_, now_ns) = state.here();
        state.outcome.locks.waiting_ns += now_ns - since_ns;
        Waited::LookAgain
    }

    /// Hands a lock from the running task to the first task that spins for it. If none spins, wakes
    /// one that sleeps, and returns false.
    fn hand_over(&self, lock: usize) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        let (cpu, now_ns) = state.here();
        let (topology, costs) = (&state.topology, &state.costs);
        let at = state.locks.at(lock);
        at.is_held = false;
        state.outcome.locks.holding_ns += now_ns - at.since_ns;
        let Some((next, since_ns)) = at.queue.pop_front() else {
            if let Some(sleeper) = at.sleepers.pop_front() {
                let now_ns = state.calls();
                state.tasks[sleeper].was_woken = true;
                state.make_ready(sleeper, now_ns);
            }
            return false;
        };
        let next_cpu = state.tasks[next].cpu;
        let mut ns = costs.transfer_ns(topology, cpu, next_cpu) + costs.hand_over_ns;
        if costs.waiting == Waiting::Ticket {
            ns += costs.ticket_waiter_ns * at.queue.len() as u64;
        }
        at.is_held = true;
        state.outcome.locks.contended += 1;
        // `since_ns` may be later than this end (by less than `hit_ns`) if `next` had the line.
        state.outcome.locks.waiting_ns += (now_ns + ns).saturating_sub(since_ns);
        // The lock's line goes to the next owner.
        let line = (state.lines.of(lock, 1).0, 1);
        state.lines.fetch((topology, costs), (next_cpu, now_ns), line, Access::Update);
        state.tasks[next].was_woken = true;
        state.go_on(next, now_ns + ns);
        true
    }
}

impl Machine for Simulated {
    fn task(&self) -> usize {
        self.state.borrow().running + 1
    }

    fn now_ns(&self) -> u64 {
        self.state.borrow().here().1
    }

    fn comes_from(&self, place: &'static Location<'static>) {
        self.state().task().place = Some(place);
    }

    fn access(&self, address: usize, bytes: usize, access: Access) {
        let mut guard = self.state();
        let state = &mut *guard;
        if bytes == 0 || state.task().sequences > 0 || state.task().watches > 0 {
            state.task().place = None;
            return;
        }
        // A load whose line the core already has is over at once; every other access takes its
        // turn in the order of simulated time.
        if access == Access::Read && state.has(address, 1, access) {
            state.task().place = None;
            state.pass(state.costs.hit_ns);
            return;
        }
        drop(guard);
        self.shared(address, bytes, access);
    }

    fn touch(&self, address: usize, bytes: usize, access: Access) {
        self.fetch(address, bytes, access);
    }

    fn relax(&self) {
        let relax_ns = self.state().costs.relax_ns;
        self.pass(relax_ns);
        self.order();
    }

    fn sleep(&self, key: usize, at_most_ns: Option<u64>) {
        let mut state = self.state();
        let now_ns = state.calls();
        drop(state);
        self.block(key, at_most_ns.map(|ns| now_ns.saturating_add(ns)));
    }

    fn wake(&self, key: usize, most: usize) {
        self.order();
        let mut state = self.state();
        let now_ns = state.calls();
        state.wake(key, most, now_ns);
    }

    fn lock_wanted(&self, lock: usize) {
        self.shared(lock, LINE - lock % LINE, Access::Update);
    }

    fn lock_waits(&self, lock: usize) -> Waited {
        let waiting = self.state().costs.waiting;
        if waiting == Waiting::Futex {
            return self.wait_as_futex(lock);
        }
        self.spin(lock, None);
        Waited::HandedOver
    }

    fn lock_taken(&self, lock: usize) {
        let mut state = self.state();
        let (_, now_ns) = state.here();
        let is_watching = state.task().watches > 0;
        let at = state.locks.at(lock);
        (at.is_held, at.since_ns) = (true, now_ns);
        at.watched += u64::from(is_watching);
        state.outcome.locks.acquisitions += 1;
        state.task().keeps_cpu += u32::from(state.costs.waiting != Waiting::Futex);
        let section_ns = state.costs.section_ns;
        drop(state);
        self.pass(section_ns);
    }

    fn lock_released(&self, lock: usize) -> bool {
        self.shared(lock, LINE - lock % LINE, Access::Write);
        let is_handed_over = self.hand_over(lock);
        let mut state = self.state();
        state.task().keeps_cpu -= u32::from(state.costs.waiting != Waiting::Futex);
        is_handed_over
    }

    fn frame_array(&self, start: usize, frames: usize, bytes: usize, grows_down: bool) {
        let mut state = self.state();
        if state.costs.frames_have_lines {
            state.lines.add_frame_array(start, frames, bytes, grows_down);
        }
    }

    fn sequence_begins(&self, slot: usize) {
        if self.state().task().sequences == 0 {
            let sequence_ns = self.state().costs.sequence_ns;
            self.pass(sequence_ns);
            self.fetch(slot, 1, Access::Update);
        }
        self.state().task().sequences += 1;
    }

    fn sequence_ends(&self) {
        self.state().task().sequences -= 1;
    }

    fn effort(&self, effort: Effort, count: usize) {
        let ns = {
            let state = self.state();
            state.stretched((state.costs.effort_ns(effort) * count as f64) as u64)
        };
        self.pass(ns);
    }
}
