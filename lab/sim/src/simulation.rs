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
use quarry_sys::primitive::run_on;
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of a task's stack. The system provides memory only for the part in use, and the deepest
/// path of Quarry uses a few KiB.
const STACK_BYTES: usize = 256 << 10;
/// Bytes of the stack of a task outside the sockets, which may build a whole heap of Quarry.
const OUTSIDE_STACK_BYTES: usize = 4 << 20;

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

    /// Adds a task that begins at time 0.
    pub fn spawn(&mut self, placement: Placement, work: impl FnOnce() + 'env) {
        let task = self.state.add(placement, 0);
        self.works.push((task, Box::new(work)));
    }

    /// Runs all tasks to their end.
    ///
    /// # Errors
    /// If tasks wait for each other for ever. Their stacks, and all that these own, are leaked.
    ///
    /// # Panics
    /// If a task panics.
    pub fn run(mut self) -> Result<Outcome, Stuck> {
        for (task, _) in &self.works {
            // No wake-up is charged here, because tasks are on their CPUs when the run begins.
            let wake_ns = std::mem::take(&mut self.state.costs.wake_ns);
            self.state.make_ready(*task, 0);
            self.state.costs.wake_ns = wake_ns;
        }
        let machine = Simulated::new(self.state, self.seed);
        run_on(&machine, || {
            let _here = Here::set(&machine);
            Run { machine: &machine, coroutines: Vec::new() }.run(self.works)
        })?;
        let state = machine.state.into_inner();
        let line_waits = state.lines.waits.by_name();
        Ok(Outcome { busy_ns: state.busy_ns(), line_waits, ..state.outcome })
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
        loop {
            let next = self.machine.state().events.pop();
            match next {
                Some(Reverse((at_ns, _, Event::Timer(task, wait)))) => {
                    self.machine.state().time_is_over(task, wait, at_ns);
                }
                Some(Reverse((.., Event::Resume(task)))) => self.resume(task),
                None => return self.end(),
            }
        }
    }

    /// Ends the run, in which no event is left.
    fn end(mut self) -> Result<(), Stuck> {
        let state = self.machine.state();
        let is_stuck = |task: &TaskId| state.tasks[*task].status != Status::Done;
        let tasks: Vec<TaskId> = (0..state.tasks.len()).filter(is_stuck).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        // Dropping an unfinished coroutine unwinds it, which a build that aborts cannot do.
        self.coroutines.drain(..).for_each(std::mem::forget);
        Err(Stuck { time_ns: state.cpus.iter().map(|cpu| cpu.now_ns).max().unwrap_or(0), tasks })
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
            state.outcome.time_ns = state.outcome.time_ns.max(now_ns);
            state.leave_cpu();
        }
        let spawned = self.machine.spawned.take();
        spawned.into_iter().for_each(|(task, work)| self.begin(task, work));
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
        // is not done by then is forgotten (`end`), or dropped in `run` if a task panics.
        let routine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
                (*machine).state().tasks[task].yielder = yielder;
                work();
            })
        };
        if self.coroutines.len() <= task {
            self.coroutines.resize_with(task + 1, || None);
        }
        self.coroutines[task] = Some(routine);
    }
}
