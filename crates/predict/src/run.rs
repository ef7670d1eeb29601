//! One replay on a machine.

use crate::machine::{Engine, MachineFile};
use anyhow::{Result, anyhow};
use quarry_replay::file_cache::FileCache;
use quarry_replay::host::{self, Host};
use quarry_replay::kernels::Scenario;
use quarry_replay::policies::Policies;
use quarry_replay::stack::{Machine as Declared, Replay};
use quarry_replay::stage::{Replayed, Scale};
use quarry_sys::primitive::{Machine, run_on, timer};
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

/// A replay.
pub(crate) struct Run<'a> {
    pub(crate) machine: &'a MachineFile,
    /// The variant, by the names of the lab.
    pub(crate) policies: &'a str,
    pub(crate) scenario: Scenario,
    pub(crate) tasks: usize,
    /// CPUs of the tasks, in turn.
    pub(crate) cpus: Vec<usize>,
    pub(crate) warm_up_us: u64,
    pub(crate) measured_us: u64,
}

struct OnMachine(Engine);

impl Deref for OnMachine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Host for OnMachine {
    fn spawn(&self, cpu: Option<usize>, body: Box<dyn FnOnce()>) {
        self.0.spawn(cpu, body);
    }

    fn work(&self, ns: u64) {
        self.0.work(ns);
    }

    fn memory(&self, bytes: usize) {
        self.0.memory(bytes);
    }

    fn sleep(&self, ns: u64) {
        timer::sleep(ns);
    }

    fn cpus(&self) -> u32 {
        self.0.all_cpus() as u32
    }

    fn cpu(&self) -> u32 {
        self.0.cpu() as u32
    }

    fn busy_ns(&self) -> u64 {
        self.0.busy_ns()
    }
}

/// A scenario on its way to a stack.
struct OnStack<'a> {
    run: &'a Run<'a>,
}

impl Replay for OnStack<'_> {
    type Output = Result<Replayed, String>;

    fn on<M: FileCache>(self, memory: &M) -> Self::Output {
        let Run { tasks, ref cpus, warm_up_us, measured_us, ref scenario, .. } = *self.run;
        let scale = Scale {
            tasks,
            cpus,
            warm_up: Duration::from_micros(warm_up_us),
            measured: Duration::from_micros(measured_us),
        };
        let replayed = scenario.run(memory, scale);
        memory.check_at_end()?;
        Ok(replayed)
    }
}

/// Events of the machines of all runs of this process.
static EVENTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Events of the machines of all runs of this process: looks at shared memory, sleeps, wake-ups.
pub(crate) fn events() -> u64 {
    EVENTS.load(std::sync::atomic::Ordering::Relaxed)
}

impl Run<'_> {
    /// Runs it to its end, in simulated time. The memory is never taken down.
    ///
    /// # Errors
    /// A variant that does not exist, or something that did not hold at the end.
    pub(crate) fn replay(&self) -> Result<Replayed> {
        let policies: Policies = self.policies.parse()?;
        let settings = self.machine.settings();
        let declared = Declared {
            cpus: settings.cpus() as u32,
            memory: self.machine.gib << 30,
            nodes: self.machine.nodes,
            budget: 0,
        };
        // A machine lies on its thread for as long as it runs; its lines are dropped at the end.
        let machine: &'static OnMachine = Box::leak(Box::new(OnMachine(Engine::new(settings))));
        let result: Rc<RefCell<Option<Result<Replayed>>>> = Rc::default();
        let seen = result.clone();
        // SAFETY: the task has ended when `Engine::run` returns, and `self` lives longer.
        let run: &'static Run<'static> = unsafe { std::mem::transmute::<&Run<'_>, _>(self) };
        let first = Box::new(move || {
            let replayed = policies.replay(declared, OnStack { run });
            let replayed = replayed.and_then(|replayed| replayed.map_err(|fault| anyhow!(fault)));
            *seen.borrow_mut() = Some(replayed);
        });
        host::run_on(machine, || run_on(as_machine(machine), || machine.run(first)));
        EVENTS.fetch_add(machine.events(), std::sync::atomic::Ordering::Relaxed);
        machine.forget_lines();
        let replayed = result.borrow_mut().take();
        replayed.ok_or_else(|| anyhow!("the replay has not ended"))?
    }
}

fn as_machine(machine: &'static OnMachine) -> &'static dyn Machine {
    &machine.0
}
