//! A run: tasks on a machine, from the first event to the last.

use crate::costs::Costs;
use crate::machine::{Simulated, Work};
use crate::outcome::Outcome;
pub use crate::state::Placement;
use crate::state::{Event, State, Status, TaskId};
use crate::task::Here;
use crate::topology::Topology;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::run_on;
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of a task's stack. The system provides memory only for the part in use, and the deepest
/// path of Quarry uses a few KiB.
const STACK_BYTES: usize = 256 << 10;
/// Bytes of the stack of a task outside the sockets, which may build a whole heap of Quarry.
const OUTSIDE_STACK_BYTES: usize = 4 << 20;
/// The maximum number of events between the end of the last task and that of the daemons.
const EVENTS_TO_END: u64 = 1_000_000;

/// The error of a run in which no task can go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "at {time_ns} ns of simulated time, tasks {tasks:?} wait for each other: nothing else will \
     happen"
)]
pub struct Stuck {
    /// The simulated time at which no event was left.
    pub time_ns: u64,
    /// Tasks that have not ended, in the order in which they were spawned.
    pub tasks: Vec<usize>,
}

/// A machine and the tasks that it will run. The tasks may borrow values that live for `'env`.
pub struct Simulation<'env> {
    state: State,
    seed: u64,
    works: Vec<(TaskId, Work<'env>)>,
}

/// The program's own memory, from its first byte to its last variable.
fn image() -> Range<usize> {
    // SAFETY: the linker defines both symbols; only their addresses are taken, nothing is read.
    unsafe extern "C" {
        static __executable_start: u8;
        static _end: u8;
    }
    (&raw const __executable_start).addr()..(&raw const _end).addr()
}

impl<'env> Simulation<'env> {
    /// Makes a machine without tasks.
    ///
    /// # Panics
    /// If the topology or the costs are impossible: see their `validate`.
    #[must_use]
    pub fn new(topology: Topology, costs: Costs, seed: u64) -> Self {
        topology.validate().expect("a possible topology");
        costs.validate().expect("possible costs");
        let mut state = State::new(topology, costs);
        state.lines.know_image(image());
        Self { state, seed, works: Vec::new() }
    }

    /// Adds a task that begins at time 0. For `Same` and `Next`, the spawning CPU is CPU 0.
    pub fn spawn(&mut self, placement: Placement, work: impl FnOnce() + 'env) {
        let task = self.state.add(placement, 0, false);
        self.works.push((task, Box::new(work)));
    }

    /// Adds a task that the run does not wait for. Once all other tasks have ended, its sleeps
    /// return at once and [`crate::task::is_over`] returns true; then the daemon must return.
    pub fn spawn_daemon(&mut self, placement: Placement, work: impl FnOnce() + 'env) {
        let task = self.state.add(placement, 0, true);
        self.works.push((task, Box::new(work)));
    }

    /// Gives locks the names that the outcome uses; see [`crate::task::name_locks`].
    pub fn name_locks(&mut self, visit_locks: impl FnOnce(&mut Visit<'_>)) {
        visit_locks(&mut |name, lock| {
            self.state.locks.name(std::ptr::from_ref(lock).cast::<()>() as usize, name);
        });
    }

    /// Runs all tasks to their end.
    ///
    /// # Errors
    /// If tasks wait for each other for ever. Their stacks, and all that these own, are leaked.
    ///
    /// # Panics
    /// If a task panics, or a daemon does not return at the end.
    pub fn run(mut self) -> Result<Outcome, Stuck> {
        for (task, _) in &self.works {
            // No wake-up is charged here, because tasks are on their CPUs when the run begins.
            let wake_ns = std::mem::take(&mut self.state.costs.wake_ns);
            self.state.make_ready(*task, 0);
            self.state.costs.wake_ns = wake_ns;
        }
        let machine = Simulated::new(self.state, self.seed);
        let works = self.works;
        let result = run_on(&machine, || {
            let _here = Here::set(&machine);
            Run { machine: &machine, coroutines: Vec::new() }.run(works)
        });
        let state = machine.into_state();
        let busy_ns = state.busy_ns();
        let mut outcome = state.outcome;
        result?;
        outcome.locks = state.locks.classes();
        outcome.busy_ns = busy_ns;
        Ok(outcome)
    }
}

type Routine = Coroutine<(), (), ()>;

struct Run<'a> {
    machine: &'a Simulated,
    /// The coroutine of each task; `None` once the task has ended.
    coroutines: Vec<Option<Routine>>,
}

impl Run<'_> {
    fn run(mut self, works: Vec<(TaskId, Work<'_>)>) -> Result<(), Stuck> {
        works.into_iter().for_each(|(task, work)| self.begin(task, work));
        let mut events_left = EVENTS_TO_END;
        loop {
            let (next, is_over) = {
                let mut state = self.machine.state();
                (state.events.pop(), state.is_over)
            };
            events_left -= u64::from(is_over);
            assert!(events_left > 0, "a daemon does not return at the end of the run");
            match next {
                Some(Reverse((at_ns, _, event))) => self.happens(at_ns, event),
                None if self.is_done() => return Ok(()),
                None => return Err(self.stuck()),
            }
            if !is_over && self.machine.state().alive == 0 {
                self.end();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.machine.state().tasks.iter().all(|task| task.status == Status::Done)
    }

    fn stuck(&mut self) -> Stuck {
        // Dropping an unfinished coroutine unwinds it, which a build that aborts cannot do.
        self.coroutines.drain(..).for_each(std::mem::forget);
        let state = self.machine.state();
        let is_stuck = |task: &TaskId| state.tasks[*task].status != Status::Done;
        Stuck {
            time_ns: state.cpus.iter().map(|cpu| cpu.now_ns).max().unwrap_or(0),
            tasks: (0..state.tasks.len()).filter(is_stuck).collect(),
        }
    }

    /// Called when only daemons are left: wakes the sleeping daemons.
    fn end(&self) {
        let mut state = self.machine.state();
        state.is_over = true;
        state.sleepers.clear();
        for task in 0..state.tasks.len() {
            if let Status::Sleeps(_) = state.tasks[task].status {
                let now_ns = state.outcome.time_ns;
                state.tasks[task].was_woken = false;
                state.make_ready(task, now_ns);
            }
        }
    }

    fn happens(&mut self, at_ns: u64, event: Event) {
        match event {
            Event::Timer(task, wait) => {
                let mut state = self.machine.state();
                if state.tasks[task].wait == wait {
                    state.time_is_over(task, at_ns);
                }
            }
            Event::Resume(task) => self.resume(task),
        }
    }

    fn resume(&mut self, task: TaskId) {
        self.machine.state().running = task;
        let routine = self.coroutines[task].as_mut().expect("only a task that lives has events");
        if let CoroutineResult::Return(()) = routine.resume(()) {
            self.coroutines[task] = None;
            let mut state = self.machine.state();
            let (_, now_ns) = state.here();
            state.tasks[task].status = Status::Done;
            state.outcome.tasks += 1;
            if !state.tasks[task].is_daemon {
                state.alive -= 1;
                state.outcome.time_ns = state.outcome.time_ns.max(now_ns);
            }
            state.leave_cpu();
        }
        for (task, work) in self.machine.take_spawned() {
            self.begin(task, work);
        }
    }

    /// Makes the coroutine of a task. It starts to run with the task's first event.
    fn begin(&mut self, task: TaskId, work: Work<'_>) {
        // The machine lives longer than all coroutines: `Simulation::run` owns it.
        let machine: *const Simulated = self.machine;
        let bytes = {
            let state = self.machine.state();
            let is_outside = state.topology.is_outside(state.tasks[task].cpu);
            if is_outside { OUTSIDE_STACK_BYTES } else { STACK_BYTES }
        };
        let stack = DefaultStack::new(bytes).expect("memory for the stack of a task");
        // SAFETY: the closure borrows the machine and what lives for `'env`. It runs only inside
        // `Simulation::run`, which owns the machine and ends before `'env` does. A coroutine that
        // is not done by then is forgotten (`stuck`), or dropped in `run` if a task panics.
        let routine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
                (*machine).begins(task, yielder);
                work();
            })
        };
        if self.coroutines.len() <= task {
            self.coroutines.resize_with(task + 1, || None);
        }
        self.coroutines[task] = Some(routine);
    }
}
