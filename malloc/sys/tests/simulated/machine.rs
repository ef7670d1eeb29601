//! A machine of two CPUs with one task each, on one thread of the system: the smallest simulator
//! that can be the backend of the seam.
//!
//! Each CPU has a time of its own, and the task whose CPU has the least time runs next. So tasks
//! meet in the order of simulated time, the same in every run. An access to a cache line that
//! another CPU has changed takes the time of a transfer.

use quarry_sys::primitive::{Access, Machine, run_on};
use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Number of CPUs, and of tasks.
pub(crate) const CPUS: usize = 2;
/// Time of a load or store whose line is in the CPU's cache.
pub(crate) const HIT_NS: u64 = 1;
/// Time of a load or store whose line is in the other CPU's cache, or in memory.
pub(crate) const TRANSFER_NS: u64 = 60;
/// Time of one round of busy waiting.
pub(crate) const RELAX_NS: u64 = 10;
/// Time of a system call.
pub(crate) const CALL_NS: u64 = 500;
/// Time from a call that wakes until the woken task runs.
pub(crate) const WAKE_NS: u64 = 2_000;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
const STACK_BYTES: usize = 256 << 10;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Sleeps on a key (0: on none), perhaps until a time.
    Asleep(usize, Option<u64>),
    Done,
}

struct Cpu {
    now_ns: Cell<u64>,
    state: Cell<State>,
    context: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    work: Cell<Option<Box<dyn FnOnce()>>>,
}

/// A note of a task: the time, the CPU, and the text.
pub(crate) type Event = (u64, usize, &'static str);

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    /// Cache lines fetched.
    pub(crate) transfers: u64,
    /// Times that a task has slept on a key.
    pub(crate) sleeps: u64,
    /// The time at which each task has ended.
    pub(crate) ends: [u64; CPUS],
}

pub(crate) struct TwoCpus {
    cpus: [Cpu; CPUS],
    running: Cell<usize>,
    main: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    /// For each line, the CPUs whose caches have it: a bit for each CPU.
    lines: RefCell<BTreeMap<usize, u8>>,
    outcome: RefCell<Outcome>,
    /// The payload of a task that has panicked.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

std::thread_local! {
    static HERE: Cell<Option<&'static TwoCpus>> = const { Cell::new(None) };
}

/// The machine that runs the calling task.
pub(crate) fn here() -> &'static TwoCpus {
    HERE.get().expect("a task runs on a machine")
}

/// Runs both tasks to their end.
pub(crate) fn run(tasks: [Box<dyn FnOnce()>; CPUS]) -> Outcome {
    let cpu = |work| Cpu {
        now_ns: Cell::new(0),
        state: Cell::new(State::Ready),
        context: UnsafeCell::new(MaybeUninit::uninit()),
        work: Cell::new(Some(work)),
    };
    // A leaked machine takes a few hundred bytes, and tests run a dozen of them.
    let machine: &'static TwoCpus = Box::leak(Box::new(TwoCpus {
        cpus: tasks.map(cpu),
        running: Cell::new(0),
        main: UnsafeCell::new(MaybeUninit::uninit()),
        lines: RefCell::default(),
        outcome: RefCell::default(),
        panic: Cell::default(),
    }));
    let mut stacks = [const { Vec::<u8>::new() }; CPUS];
    HERE.set(Some(machine));
    run_on(machine, || machine.run(&mut stacks));
    HERE.set(None);
    if let Some(panic) = machine.panic.take() {
        resume_unwind(panic);
    }
    machine.outcome.take()
}

impl TwoCpus {
    fn run(&self, stacks: &mut [Vec<u8>; CPUS]) {
        for (cpu, stack) in self.cpus.iter().zip(stacks) {
            stack.resize(STACK_BYTES, 0);
            let context = cpu.context.get().cast::<libc::ucontext_t>();
            // SAFETY: `getcontext` fills the context in. Before its first use the lines below give
            // it a stack that outlives the task, and its function.
            unsafe {
                assert_eq!(libc::getcontext(context), 0);
                (*context).uc_stack.ss_sp = stack.as_mut_ptr().cast();
                (*context).uc_stack.ss_size = stack.len();
                (*context).uc_link = self.main.get().cast();
                libc::makecontext(context, task, 0);
            }
        }
        // SAFETY: the first task's context is ready; this one continues when all tasks are done.
        let switched =
            unsafe { libc::swapcontext(self.main.get().cast(), self.cpus[0].context.get().cast()) };
        assert_eq!(switched, 0);
    }

    fn cpu(&self) -> &Cpu {
        &self.cpus[self.running.get()]
    }

    /// The CPU of the running task.
    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    /// Records the time at which the running task has come here.
    pub(crate) fn note(&self, what: &'static str) {
        self.outcome.borrow_mut().events.push((self.cpu().now_ns.get(), self.running.get(), what));
    }

    /// Cache lines fetched so far.
    pub(crate) fn transfers(&self) -> u64 {
        self.outcome.borrow().transfers
    }

    /// Lets `ns` nanoseconds pass on the running task's CPU.
    pub(crate) fn spend(&self, ns: u64) {
        self.cpu().now_ns.set(self.cpu().now_ns.get() + ns);
        self.let_others_run();
    }

    /// The time at which a task can continue; `None` if another task has to wake it.
    fn due(&self, cpu: usize) -> Option<u64> {
        let now = self.cpus[cpu].now_ns.get();
        match self.cpus[cpu].state.get() {
            State::Ready => Some(now),
            State::Asleep(_, until) => until.map(|until| until.max(now)),
            State::Done => None,
        }
    }

    /// Continues with the task whose CPU has the least time, which may be the caller.
    fn let_others_run(&self) {
        let due = (0..CPUS).filter_map(|cpu| self.due(cpu).map(|due| (due, cpu)));
        let Some((due, next)) = due.min() else {
            assert!(self.cpus.iter().all(|cpu| cpu.state.get() == State::Done), "a deadlock");
            return;
        };
        self.cpus[next].state.set(State::Ready);
        self.cpus[next].now_ns.set(due);
        let before = self.running.replace(next);
        if before != next {
            // SAFETY: both are contexts of unfinished tasks of this machine; the other task was
            // suspended here or has not begun. No borrow is held.
            let switched = unsafe {
                let (from, to) = (&self.cpus[before].context, &self.cpus[next].context);
                libc::swapcontext(from.get().cast(), to.get().cast())
            };
            assert_eq!(switched, 0);
        }
    }
}

/// The function with which a task's context begins. When both tasks are done, it switches back to
/// the context that started the machine.
extern "C" fn task() {
    let machine = here();
    let (index, cpu) = (machine.running(), machine.cpu());
    let work = cpu.work.take().expect("a task starts once");
    // A panic must not unwind past the end of a task's stack.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        machine.panic.set(Some(panic));
    }
    machine.outcome.borrow_mut().ends[index] = cpu.now_ns.get();
    cpu.state.set(State::Done);
    machine.let_others_run();
}

impl Machine for TwoCpus {
    fn task(&self) -> usize {
        self.running.get() + 1
    }

    fn now_ns(&self) -> u64 {
        self.cpu().now_ns.get()
    }

    fn access(&self, address: usize, bytes: usize, access: Access) {
        let me = 1 << self.running.get();
        let mut ns = 0;
        for line in address / LINE..(address + bytes).div_ceil(LINE) {
            let mut lines = self.lines.borrow_mut();
            let holders = lines.entry(line).or_default();
            let (finds, keeps) = match access {
                Access::Read => (*holders & me != 0, *holders | me),
                Access::Write | Access::Update => (*holders == me, me),
            };
            *holders = keeps;
            ns += if finds { HIT_NS } else { TRANSFER_NS };
            self.outcome.borrow_mut().transfers += u64::from(!finds);
        }
        self.spend(ns);
    }

    fn relax(&self) {
        self.spend(RELAX_NS);
    }

    fn sleep(&self, key: usize, at_most_ns: Option<u64>) {
        let cpu = self.cpu();
        cpu.now_ns.set(cpu.now_ns.get() + CALL_NS);
        let until = at_most_ns.map(|ns| cpu.now_ns.get() + ns);
        self.outcome.borrow_mut().sleeps += u64::from(key != 0);
        cpu.state.set(State::Asleep(key, until));
        self.let_others_run();
    }

    fn wake(&self, key: usize, most: usize) {
        let now = self.now_ns();
        let sleeps_on = |cpu: &&Cpu| matches!(cpu.state.get(), State::Asleep(on, _) if on == key);
        for cpu in self.cpus.iter().filter(sleeps_on).take(most) {
            cpu.state.set(State::Ready);
            cpu.now_ns.set(cpu.now_ns.get().max(now + WAKE_NS));
        }
        self.spend(CALL_NS);
    }
}
