//! Copies of a program on a heap.

use super::{Answer, Cell as Question, Load, Op, PATTERNS, Program, Step};
use crate::outcome::Outcome;
use crate::simulation::{Placement, Simulation};
use crate::task::{self, Barrier};
use anyhow::{Context, Result, bail};
use quarry_eras::pages::{Chosen, Machine as Declared, PAGE_POLICY_NAMES};
use quarry_eras::slab::{SlabVisitor, with_slab_policy};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_mm::stack::{Request, Stack, StackConfig, StackHost};
use quarry_sys::lock::LockStats;
use quarry_sys::os::Linux;
use quarry_sys::percpu::{Object, VirtualSlots};
use quarry_sys::primitive::Access;
use quarry_sys::primitive::announce::unseen;
use quarry_trace::Trace;
use quarry_watch::AllInstruments;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Frames of memory that the machine has, for policies that ask for it: 4 GiB per CPU.
const FRAMES_PER_CPU: u32 = 1 << 20;
/// Number of times that the heap's memory is read while all copies of the trace play once.
const LOOKS: usize = 64;
/// Bytes that the program writes to a new block, if the block has that many: the line of its first
/// fields.
const WRITTEN_BYTES: usize = 64;
/// Copies begin within this time, so that they do not run in step.
const SPREAD_NS: u64 = 50_000;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The heap's object; `None` before its allocation, during an operation on it, and once freed.
    object: Option<Object>,
    /// Number of operations on the block so far.
    turns: u32,
    /// True if a thread waits for its turn to use the block.
    is_awaited: bool,
}

struct Config<S>(PhantomData<S>);

impl<S: SlabPolicy<VirtualSlots> + 'static> StackConfig for Config<S> {
    type PerCpu = VirtualSlots;
    type Slab = S;
    type Pages = Chosen;
    type Cache = ();
    type Watch = AllInstruments;
}

/// The state that all copies share.
struct Scene<S: SlabPolicy<VirtualSlots> + 'static> {
    stack: &'static Stack<Config<S>>,
    calls: Cell<u64>,
    refused: Cell<u64>,
    /// Time that threads spent in calls of the heap, including waits.
    in_calls_ns: Cell<u64>,
    peak: Cell<(usize, usize)>,
    /// The time at which the measured part began, and the counts of the locks then.
    start: Cell<(u64, BTreeMap<String, LockStats>)>,
    /// The counts of the locks when the last thread ended.
    end: Cell<BTreeMap<String, LockStats>>,
    /// Calls between two readings of the memory.
    look_every: u64,
}

/// A value that starts at a page boundary: its fields have the same cache lines in every process.
#[repr(align(4096))]
struct OnPages<T>(T);

struct OnHeap<'a> {
    question: &'a Question,
    options: StackOptions<Chosen>,
    program: &'a Program,
    copies: usize,
}

/// Plays a trace on a machine. Threads of the recorded program fill the CPUs in turn; copies of the
/// program are added until every CPU has a thread. O(calls).
///
/// # Errors
/// If the trace cannot be read or has no calls, a policy is unknown, or the system has no address
/// space for the heap.
pub fn answer(question: &Question) -> Result<Answer> {
    question.topology.validate()?;
    question.costs.validate()?;
    let (program, threads) = match &question.load {
        Load::Pattern(name) => {
            let pattern = PATTERNS.iter().find(|(it, _)| it == name);
            let (_, pattern) = pattern.with_context(|| format!("there is no pattern {name}"))?;
            let program = pattern();
            let threads = program.threads.len();
            (program, threads)
        }
        Load::Trace(path) => {
            let trace = Trace::read(path)?;
            // As many copies as for the whole trace, even if the played part leaves out a thread.
            let threads = trace.threads.iter().filter(|events| !events.is_empty()).count();
            (Program::of(&trace, question.calls), threads)
        }
    };
    if program.calls() == 0 {
        bail!("{:?} has no calls that can be played", question.load);
    }
    let copies = (question.topology.cpus() as usize).div_ceil(threads);
    let mut options = StackOptions::default();
    let machine = Declared {
        cpus: question.topology.cpus(),
        frames: FRAMES_PER_CPU.saturating_mul(question.topology.cpus()),
        nodes: 1,
    };
    machine.declare(&mut options.pages);
    options.pages.policy = Chosen::named(&question.pages).with_context(|| {
        format!("--pages {}: no such policy; accepted: {PAGE_POLICY_NAMES}", question.pages)
    })?;
    let on_heap = OnHeap { question, options, program: &program, copies };
    with_slab_policy(&question.slab, on_heap)
        .with_context(|| format!("there is no slab policy {}", question.slab))?
}

impl SlabVisitor<VirtualSlots> for OnHeap<'_> {
    type Output = Result<Answer>;

    fn visit<S: SlabPolicy<VirtualSlots> + 'static>(self) -> Self::Output {
        let OnPages(stack): &'static OnPages<Stack<Config<S>>> =
            Box::leak(Box::new(OnPages(Stack::new())));
        stack.percpu().choice().declare(self.question.topology.cpus(), task::cpu);
        if let Err(error) = stack.init(&Linux, &self.options, &Default::default()) {
            bail!("the heap cannot be built: {error:?}");
        }
        let scene = Scene {
            stack,
            calls: Cell::new(0),
            refused: Cell::new(0),
            in_calls_ns: Cell::new(0),
            peak: Cell::new((0, 0)),
            start: Cell::default(),
            end: Cell::default(),
            look_every: (self.program.calls() / LOOKS).max(1) as u64 * self.copies as u64,
        };
        let blocks = || (0..self.program.blocks).map(|_| Cell::default()).collect::<Vec<_>>();
        let blocks: Vec<_> = (0..self.copies).map(|_| blocks()).collect();
        self.run(&scene, &blocks)
    }
}

impl OnHeap<'_> {
    fn run<S: SlabPolicy<VirtualSlots> + 'static>(
        &self,
        scene: &Scene<S>,
        blocks: &[Vec<Cell<Block>>],
    ) -> Result<Answer> {
        let question = self.question;
        let threads = self.copies * self.program.threads.len();
        let (topology, costs) = (question.topology.clone(), question.costs.clone());
        let mut simulation = Simulation::new(topology, costs, question.seed);
        let places = (0..question.topology.cpus()).cycle().map(Placement::Cpu);
        let all = blocks
            .iter()
            .flat_map(|blocks| self.program.threads.iter().map(move |steps| (steps, blocks)));
        let barrier = &Barrier::new(threads);
        for ((number, (steps, blocks)), place) in all.enumerate().zip(places) {
            let thread = Thread { steps, blocks, is_first: number == 0 };
            simulation.spawn(place, move || scene.play_twice(thread, barrier));
        }
        let outcome = simulation.run()?;
        if scene.refused.get() > 0 {
            bail!("the heap refused {} of {} calls", scene.refused.get(), scene.calls.get());
        }
        let cpus = question.topology.cpus().min(threads as u32);
        Ok(self.answer(scene, &outcome, cpus))
    }

    fn answer<S: SlabPolicy<VirtualSlots> + 'static>(
        &self,
        scene: &Scene<S>,
        outcome: &Outcome,
        cpus: u32,
    ) -> Answer {
        let (before_ns, before) = scene.start.take();
        let time_ns = (outcome.time_ns - before_ns).max(1);
        let cpu_ns = (time_ns * u64::from(cpus)) as f64;
        let calls = scene.calls.get() / 2;
        let grown = |(name, now): (&String, &LockStats)| {
            let then = before.get(name).copied().unwrap_or_default();
            (name.clone(), now.wait_ns - then.wait_ns, now.acquisitions - then.acquisitions)
        };
        let locks: Vec<_> = scene.end.take().iter().map(grown).collect();
        let waiting = locks.iter().map(|(_, wait_ns, _)| *wait_ns).sum::<u64>() as f64 / cpu_ns;
        let taken = locks.iter().map(|(.., taken)| *taken).sum::<u64>();
        let waited = locks.into_iter().filter(|(_, wait_ns, _)| *wait_ns > 0);
        let waited = waited.map(|(name, wait_ns, _)| (name, wait_ns as f64 / cpu_ns));
        let mut lock_waits: Vec<(String, f64)> = waited.collect();
        // Stable: of equal waits, the first name comes first.
        lock_waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let lines = outcome.lines_in_socket + outcome.lines_remote;
        let (peak, parked) = scene.peak.get();
        let per_call = |(name, ns): &(String, u64)| (name.clone(), *ns as f64 / calls as f64);
        Answer {
            cpus,
            copies: self.copies,
            calls,
            time_ns,
            calls_per_s: calls as f64 * 1e9 / time_ns as f64,
            call_ns: scene.in_calls_ns.get() as f64 / calls.max(1) as f64,
            waiting,
            locks_per_1000: 1000.0 * taken as f64 / calls.max(1) as f64,
            lock_waits,
            line_waits: outcome.line_waits.iter().map(per_call).collect(),
            lines_per_call: lines as f64 / scene.calls.get().max(1) as f64,
            peak_bytes: peak as u64,
            parked_bytes: parked as u64,
            live_bytes: self.program.live_bytes * self.copies as u64,
        }
    }
}

#[derive(Clone, Copy)]
struct Thread<'a> {
    steps: &'a [Step],
    blocks: &'a [Cell<Block>],
    is_first: bool,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Scene<S> {
    /// Plays the thread once, so that caches fill as far as they can, and a second time to measure.
    fn play_twice(&self, thread: Thread<'_>, barrier: &Barrier) {
        self.play(thread);
        barrier.wait();
        self.free_left(thread);
        barrier.wait();
        if thread.is_first {
            self.start.set((task::now_ns(), task::watch(|| self.locks())));
            self.name_locks();
        }
        let took_ns = self.play(thread);
        self.in_calls_ns.set(self.in_calls_ns.get() + took_ns);
        self.end.set(task::watch(|| self.locks()));
    }

    /// Plays the thread. Returns how many ns it spent in calls of the heap, including waits.
    fn play(&self, thread: Thread<'_>) -> u64 {
        task::sleep(task::random() % SPREAD_NS);
        let begin_ns = task::now_ns();
        thread.steps.iter().for_each(|step| self.make(step, thread.blocks));
        let work_ns: u64 = thread.steps.iter().map(|step| step.think_ns).sum();
        (task::now_ns() - begin_ns).saturating_sub(work_ns)
    }

    /// Frees the blocks of the thread that its steps have not freed, and forgets them.
    fn free_left(&self, thread: Thread<'_>) {
        for step in thread.steps {
            let Op::Alloc { block, .. } = step.op else { continue };
            if let Some(object) = thread.blocks[block as usize].take().object {
                // SAFETY: the heap served the object, and `take` leaves nothing for others.
                unsafe { self.stack.free(object) };
            }
        }
    }

    /// The counts of the locks of the heap, by their names, without acquisitions by readings of the
    /// memory.
    fn locks(&self) -> BTreeMap<String, LockStats> {
        let mut locks = BTreeMap::<String, LockStats>::new();
        unseen(|| {
            self.stack.visit_locks(&mut |name, lock| {
                let Some(mut stats) = lock.stats() else { return };
                stats.acquisitions -= task::watched(lock);
                *locks.entry(name.to_owned()).or_default() += stats;
            });
        });
        locks
    }

    /// Gives the cache lines of locks their names.
    fn name_locks(&self) {
        let mut names = Vec::new();
        self.stack.visit_locks(&mut |name, lock| {
            names.push((std::ptr::from_ref(lock).cast::<()>() as usize, name.to_owned()));
        });
        task::name_lines(names);
    }

    fn make(&self, step: &Step, blocks: &[Cell<Block>]) {
        task::compute(step.think_ns);
        if let Some((other, turns)) = step.awaits {
            Self::await_turns(&blocks[other as usize], turns);
        }
        let block = &blocks[step.op.block() as usize];
        Self::await_turns(block, step.turn);
        let before = block.get().object;
        block.set(Block { object: None, ..block.get() });
        let after = match (step.op, before) {
            (Op::Alloc { size, align_shift, zeroed, .. }, _) => {
                let request = Request::of(size).aligned(1 << align_shift.max(4));
                let request = if zeroed { request.zeroed() } else { request };
                self.served(self.stack.alloc(request), size)
            }
            (Op::Resize { size, .. }, Some(object)) => {
                // SAFETY: the heap served the object, and only the thread whose turn it is takes it
                // out of its cell. If `realloc` fails, the object is not used again.
                self.served(unsafe { self.stack.realloc(object, size) }, size)
            }
            (Op::Free { .. }, Some(object)) => {
                // A thread that frees another one's block has read it.
                task::program_lines(object.as_ptr() as usize, 1, Access::Read);
                // SAFETY: as for `realloc`.
                unsafe { self.stack.free(object) };
                None
            }
            // The heap had refused the block; the run will be reported as failed.
            (_, None) => None,
        };
        let done = Block { object: after, turns: step.turn + 1, is_awaited: false };
        if block.replace(done).is_awaited {
            task::wake(key(block), usize::MAX);
        }
        self.calls.set(self.calls.get() + 1);
        if self.calls.get().is_multiple_of(self.look_every) {
            self.look();
        }
    }

    /// Counts a refusal, or writes to the first fields of a new object, as a program does.
    fn served(&self, object: Option<Object>, size: usize) -> Option<Object> {
        match object {
            None => self.refused.set(self.refused.get() + 1),
            Some(object) if size > 0 => {
                let address = object.as_ptr() as usize;
                task::program_lines(address, size.min(WRITTEN_BYTES), Access::Write);
            }
            Some(_) => {}
        }
        object
    }

    /// Waits until the block has had so many operations.
    fn await_turns(block: &Cell<Block>, turns: u32) {
        while block.get().turns < turns {
            // `order` lets all tasks run that are earlier in simulated time. The second check sees
            // what they did, and no other task runs between this check and the sleep.
            task::order();
            if block.get().turns < turns {
                block.set(Block { is_awaited: true, ..block.get() });
                task::sleep_on(key(block), None);
            }
        }
    }

    /// Records how much memory the heap has, at no cost to the tasks.
    fn look(&self) {
        let held = task::watch(|| self.stack.stats().memory);
        let parked = held.parked + held.page_lists;
        let slabs = held.objects + held.free_in_slabs + held.empty_slabs + held.around_objects;
        let pages = held.blocks + held.free_dirty + held.mappings + held.mappings_cached;
        let all = slabs + parked + pages;
        if all > self.peak.get().0 {
            self.peak.set((all, parked));
        }
    }
}

/// The key on which tasks that wait for the block sleep.
fn key(block: &Cell<Block>) -> usize {
    std::ptr::from_ref(block) as usize
}
