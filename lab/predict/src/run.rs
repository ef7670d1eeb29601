//! One replay on a machine.

use crate::machine::MachineFile;
use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use quarry_replay::file_cache::FileCache;
use quarry_replay::host::{self, Host};
use quarry_replay::kernels::Scenario;
use quarry_replay::policies::Policies;
use quarry_replay::stack::{Machine as Declared, Replay};
use quarry_replay::stage::{Replayed, Scale};
use quarry_sim::{Placement, Simulation, task};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Work takes up to one part in this many more or less if the machine has a seed.
const JITTER: u64 = 100;

/// Random numbers are drawn from this range, so that work is jittered in fine steps.
const STEPS: u64 = 1_000;

/// A quick run simulates one part in this many of the time.
const QUICK_PART: u64 = 5;

pub(crate) struct Run<'a> {
    pub(crate) machine: &'a MachineFile,
    /// The variant, named as in the lab.
    pub(crate) policies: &'a str,
    pub(crate) scenario: Scenario,
    pub(crate) tasks: usize,
    /// The CPUs to which tasks are bound in turn; if empty, the scheduler chooses.
    pub(crate) cpus: Vec<usize>,
    pub(crate) warm_up_us: u64,
    pub(crate) measured_us: u64,
}

/// The current thread's simulated machine, as the host of a replay.
struct OnMachine {
    jitters: bool,
}

/// Makes all work take its time, or up to 1 % more or less.
static HOSTS: [OnMachine; 2] = [OnMachine { jitters: false }, OnMachine { jitters: true }];

impl Host for OnMachine {
    fn spawn(&self, cpu: Option<usize>, body: Box<dyn FnOnce()>) {
        let placement = cpu.map_or(Placement::Unbound, |cpu| Placement::Cpu(cpu as u32));
        task::spawn(placement, body);
    }

    fn spawn_handler(&self, cpu: usize, body: Box<dyn FnOnce()>) {
        task::spawn(Placement::Interrupt(cpu as u32), body);
    }

    fn work(&self, ns: u64) {
        let least = ns - ns / JITTER;
        task::compute(match self.jitters {
            true => least + task::random() % (STEPS + 1) * (2 * (ns - least)) / STEPS,
            false => ns,
        });
    }

    fn memory(&self, bytes: usize) {
        task::memory(bytes as u64);
    }

    fn sleep(&self, ns: u64) {
        task::sleep(ns);
    }

    fn yield_now(&self) {
        task::yield_cpu();
    }

    fn cpus(&self) -> u32 {
        task::cpus()
    }

    fn cpu(&self) -> u32 {
        task::cpu()
    }

    fn busy_ns(&self) -> u64 {
        task::busy_ns()
    }
}

/// Work that tasks do on a memory of any type.
pub(crate) trait Act {
    type Figure;

    fn act<M: FileCache>(self, memory: &M) -> Self::Figure;
}

impl Act for &Run<'_> {
    type Figure = Replayed;

    fn act<M: FileCache>(self, memory: &M) -> Replayed {
        let Run { tasks, ref cpus, warm_up_us, measured_us, ref scenario, .. } = *self;
        let part = if self.machine.quick { QUICK_PART } else { 1 };
        let halves = u64::from(self.machine.halves);
        let scale = Scale {
            tasks,
            cpus,
            warm_up: Duration::from_micros(warm_up_us / part),
            measured: Duration::from_micros(measured_us * halves / 2 / part),
        };
        scenario.run(memory, scale)
    }
}

/// Performs an act on a stack, and then checks the stack.
struct OnStack<A>(A);

impl<A: Act> Replay for OnStack<A> {
    type Output = Result<A::Figure, String>;

    fn on<M: FileCache>(self, memory: &M) -> Self::Output {
        let figure = self.0.act(memory);
        memory.check_at_end()?;
        Ok(figure)
    }
}

/// Number of events of the simulated machines in all runs of this process.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Shows on a terminal how many replays have run. Their total depends on the document.
static PROGRESS: LazyLock<ProgressBar> = LazyLock::new(|| {
    let style = ProgressStyle::with_template("{spinner} {pos} replays, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is one"))
});

/// Removes the progress bar from the terminal.
pub(crate) fn end_of_progress() {
    PROGRESS.finish_and_clear();
}

/// Number of events of all simulated machines: accesses to shared memory, sleeps, wake-ups.
pub(crate) fn events() -> u64 {
    EVENTS.load(Relaxed)
}

impl Run<'_> {
    /// Runs the replay to its end, in simulated time. The memory is never torn down.
    pub(crate) fn replay(&self) -> Result<Replayed> {
        on_machine(self.machine, self.policies, self)
    }
}

/// Performs `act` to its end on a stack of these policies, on a simulated machine.
pub(crate) fn on_machine<A: Act>(
    machine: &MachineFile,
    policies: &str,
    act: A,
) -> Result<A::Figure> {
    let policies: Policies = policies.parse()?;
    let topology = machine.topology();
    let declared = Declared {
        cpus: topology.cpus(),
        memory: machine.gib << 30,
        nodes: machine.nodes,
        budget: 0,
    };
    let mut result = None;
    let mut simulation = Simulation::new(topology, machine.costs()?, machine.seed.unwrap_or(1));
    let seen = &mut result;
    simulation.spawn(Placement::Outside, move || {
        let replayed = policies.replay(declared, OnStack(act));
        *seen = Some(replayed.and_then(|it| it.map_err(|fault| anyhow!(fault))));
    });
    let outcome = host::run_on(&HOSTS[usize::from(machine.seed.is_some())], || simulation.run())?;
    EVENTS.fetch_add(outcome.events, Relaxed);
    PROGRESS.inc(1);
    result.ok_or_else(|| anyhow!("the replay has not ended"))?
}
