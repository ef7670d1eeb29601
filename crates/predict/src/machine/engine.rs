//! The machine: tasks as coroutines on CPUs that each have a time of their own. The CPU that is
//! behind runs next, so shared memory is used in the order of simulated time.

use super::lines::Lines;
use super::settings::Settings;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use quarry_sys::primitive::announce::Waited;
use quarry_sys::primitive::{Access, Effort, Machine};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Stack of a task: none goes deep.
const STACK_BYTES: usize = 256 << 10;

/// Stack of the first task, which builds the memory.
const FIRST_STACK_BYTES: usize = 4 << 20;

type Body = Coroutine<(), (), (), DefaultStack>;

/// Why a task's coroutine has given control back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Others are earlier.
    Order,
    /// Its time slice is over, and others wait for the CPU.
    Slice,
    /// It sleeps.
    Sleep,
    /// It waits for a lock and keeps its CPU.
    Spin,
}

struct Task {
    body: Option<Body>,
    yielder: *const Yielder<(), ()>,
    /// The CPU that it runs on, or has run on.
    cpu: usize,
    bound: bool,
    /// It sleeps on this key (0: on none).
    asleep: Option<usize>,
    /// Counts its sleeps, so that a late timer is known.
    sleeps: u64,
    /// Sequences that it is in.
    sequences: u32,
}

#[derive(Default)]
struct Cpu {
    now: u64,
    current: Option<usize>,
    last: Option<usize>,
    ready: VecDeque<usize>,
    slice_end: u64,
    /// When it has been busy since.
    since: u64,
    busy_ns: u64,
    /// A run event is in the queue.
    queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Run(usize),
    Timer(usize, u64),
}

#[derive(Default)]
struct Inside {
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    sleepers: HashMap<usize, VecDeque<usize>>,
    spinners: HashMap<usize, VecDeque<usize>>,
    lines: Lines,
    /// When the memory of each socket has done what it was asked for.
    memory_free: Vec<u64>,
    /// Busy CPUs of each socket.
    active: Vec<usize>,
    handled: u64,
    next_cpu: usize,
}

/// A machine. It lives on one thread of the system.
pub(crate) struct Engine {
    settings: Settings,
    inside: RefCell<Inside>,
    running: Cell<usize>,
    pause: Cell<Pause>,
}

impl Engine {
    /// A machine at rest. Its last CPU, beyond those of the sockets, is for whoever measures.
    pub(crate) fn new(settings: Settings) -> Self {
        let cpus = settings.cpus() + 1;
        let inside = Inside {
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            memory_free: vec![0; settings.sockets],
            active: vec![0; settings.sockets],
            ..Inside::default()
        };
        let (running, pause) = (Cell::new(0), Cell::new(Pause::Order));
        Self { settings, inside: RefCell::new(inside), running, pause }
    }

    /// Runs `first`, and all tasks that it starts, to their ends.
    ///
    /// # Panics
    /// Where all tasks that are left wait for each other.
    pub(crate) fn run(&self, first: Box<dyn FnOnce()>) {
        self.start(Some(self.settings.cpus()), first, FIRST_STACK_BYTES);
        loop {
            let next = self.inside.borrow_mut().events.pop();
            let Some(Reverse((time, _, event))) = next else { break };
            match event {
                Event::Timer(task, sleeps) => self.ring(task, sleeps, time),
                Event::Run(cpu) => self.run_cpu(cpu, time),
            }
        }
        let left = self.inside.borrow().tasks.iter().filter(|task| task.body.is_some()).count();
        assert_eq!(left, 0, "tasks wait for each other");
    }

    /// Events so far: each look at shared memory, sleep and wake-up.
    pub(crate) fn events(&self) -> u64 {
        self.inside.borrow().handled
    }

    /// CPUs, the one of whoever measures included.
    pub(crate) fn all_cpus(&self) -> usize {
        self.settings.cpus() + 1
    }

    /// Forgets who holds which line.
    pub(crate) fn forget_lines(&self) {
        self.inside.borrow_mut().lines = Lines::default();
    }

    /// The CPU of the running task.
    pub(crate) fn cpu(&self) -> usize {
        self.inside.borrow().tasks[self.running.get()].cpu
    }

    fn start(&self, cpu: Option<usize>, body: Box<dyn FnOnce()>, stack: usize) {
        let mut inside = self.inside.borrow_mut();
        let index = inside.tasks.len();
        let stack = DefaultStack::new(stack).expect("memory for the stack of a task");
        let engine: *const Self = self;
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: the machine outlives its tasks: `run` returns when all have ended.
            let engine = unsafe { &*engine };
            engine.inside.borrow_mut().tasks[index].yielder = yielder;
            body();
        });
        let now = match index {
            0 => 0,
            _ => inside.cpus[inside.tasks[self.running.get()].cpu].now,
        };
        let bound = cpu.is_some();
        let cpu = cpu.unwrap_or_else(|| inside.idlest(self.settings.cpus()));
        let yielder = std::ptr::null();
        let body = Some(body);
        inside.tasks.push(Task {
            body,
            yielder,
            cpu,
            bound,
            asleep: None,
            sleeps: 0,
            sequences: 0,
        });
        inside.make_ready(index, now);
    }

    fn run_cpu(&self, cpu: usize, time: u64) {
        let task = {
            let mut inside = self.inside.borrow_mut();
            inside.cpus[cpu].queued = false;
            let Some(task) = inside.dispatch(cpu, time, &self.settings) else { return };
            task
        };
        self.running.set(task);
        let mut body = self.inside.borrow_mut().tasks[task].body.take().expect("it has not ended");
        let result = body.resume(());
        let inside = &mut *self.inside.borrow_mut();
        match result {
            CoroutineResult::Return(()) => inside.leave(cpu, &self.settings),
            CoroutineResult::Yield(()) => {
                inside.tasks[task].body = Some(body);
                match self.pause.get() {
                    Pause::Order => inside.queue_run(cpu, inside.cpus[cpu].now),
                    Pause::Spin => {}
                    Pause::Sleep => inside.leave(cpu, &self.settings),
                    Pause::Slice => {
                        inside.cpus[cpu].ready.push_back(task);
                        inside.leave(cpu, &self.settings);
                    }
                }
            }
        }
    }

    fn suspend(&self, pause: Pause) {
        self.pause.set(pause);
        let yielder = self.inside.borrow().tasks[self.running.get()].yielder;
        // SAFETY: the yielder lives as long as the coroutine, which is the one that runs here.
        unsafe { (*yielder).suspend(()) };
    }

    /// Lets those go first who are earlier.
    fn order(&self) {
        loop {
            {
                let mut inside = self.inside.borrow_mut();
                inside.handled += 1;
                let now = inside.cpus[inside.tasks[self.running.get()].cpu].now;
                match inside.events.peek() {
                    Some(Reverse((time, ..))) if *time < now => {}
                    _ => return,
                }
            }
            self.suspend(Pause::Order);
        }
    }

    fn spend(&self, ns: u64) {
        let inside = &mut *self.inside.borrow_mut();
        let cpu = inside.tasks[self.running.get()].cpu;
        inside.cpus[cpu].now += ns;
    }

    /// A sleeper's time is over.
    fn ring(&self, task: usize, sleeps: u64, time: u64) {
        let inside = &mut *self.inside.borrow_mut();
        if let (Some(key), true) = (inside.tasks[task].asleep, inside.tasks[task].sleeps == sleeps)
        {
            if let Some(queue) = inside.sleepers.get_mut(&key) {
                queue.retain(|it| *it != task);
            }
            inside.make_ready(task, time);
        }
    }

    /// The time that work of `ns` at the highest clock takes here and now.
    fn stretched(&self, ns: u64) -> u64 {
        let inside = self.inside.borrow();
        let cpu = inside.tasks[self.running.get()].cpu;
        let Some(socket) = self.settings.socket(cpu) else { return ns };
        let sibling = self.settings.sibling(cpu);
        let shares = sibling.is_some_and(|it| inside.cpus[it].current.is_some());
        (ns as f64 * self.settings.slowdown(inside.active[socket], shares)) as u64
    }

    /// The running task computes.
    pub(crate) fn work(&self, ns: u64) {
        self.spend(self.stretched(ns));
        let over = {
            let inside = self.inside.borrow();
            let cpu = &inside.cpus[inside.tasks[self.running.get()].cpu];
            cpu.now > cpu.slice_end && !cpu.ready.is_empty()
        };
        if over {
            self.suspend(Pause::Slice);
        }
    }

    /// The running task writes memory that no cache holds.
    pub(crate) fn memory(&self, bytes: usize) {
        self.order();
        let own = self.stretched((bytes as f64 * self.settings.core_ns_per_byte) as u64);
        let inside = &mut *self.inside.borrow_mut();
        let cpu = inside.tasks[self.running.get()].cpu;
        let now = inside.cpus[cpu].now;
        let Some(socket) = self.settings.socket(cpu) else { return };
        let free = &mut inside.memory_free[socket];
        *free = now.max(*free) + (bytes as f64 * self.settings.socket_ns_per_byte) as u64;
        inside.cpus[cpu].now = (now + own).max(*free);
    }

    /// Starts a task on a CPU, or on the one with the least to do.
    pub(crate) fn spawn(&self, cpu: Option<usize>, body: Box<dyn FnOnce()>) {
        self.start(cpu, body, STACK_BYTES);
    }

    /// Time that all CPUs have been busy.
    pub(crate) fn busy_ns(&self) -> u64 {
        let inside = self.inside.borrow();
        let of =
            |cpu: &Cpu| cpu.busy_ns + cpu.current.map_or(0, |_| cpu.now.saturating_sub(cpu.since));
        inside.cpus[..self.settings.cpus()].iter().map(of).sum()
    }
}

impl Inside {
    fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn queue_run(&mut self, cpu: usize, time: u64) {
        if !std::mem::replace(&mut self.cpus[cpu].queued, true) {
            self.push(time, Event::Run(cpu));
        }
    }

    /// The CPU with the fewest tasks, of the first `count`, the next one round where several have.
    fn idlest(&mut self, count: usize) -> usize {
        let load = |cpu: &Cpu| cpu.ready.len() + usize::from(cpu.current.is_some());
        let start = self.next_cpu;
        self.next_cpu += 1;
        let order = (0..count).map(|n| (start + n) % count);
        order.min_by_key(|cpu| load(&self.cpus[*cpu])).expect("a machine has CPUs")
    }

    fn make_ready(&mut self, task: usize, time: u64) {
        self.tasks[task].asleep = None;
        let cpu = self.tasks[task].cpu;
        self.cpus[cpu].ready.push_back(task);
        if self.cpus[cpu].current.is_none() {
            let at = time.max(self.cpus[cpu].now);
            self.queue_run(cpu, at);
        }
    }

    /// Says which task runs on a CPU whose turn it is.
    fn dispatch(&mut self, index: usize, time: u64, settings: &Settings) -> Option<usize> {
        let cpu = &mut self.cpus[index];
        if cpu.current.is_none() {
            let task = cpu.ready.pop_front()?;
            cpu.now = cpu.now.max(time);
            cpu.since = cpu.now;
            if cpu.last.replace(task) != Some(task) {
                cpu.now += settings.switch_ns;
            }
            cpu.slice_end = cpu.now + settings.slice_ns;
            cpu.current = Some(task);
            if let Some(socket) = settings.socket(index) {
                self.active[socket] += 1;
            }
        }
        self.cpus[index].current
    }

    /// The task of a CPU sleeps or has ended.
    fn leave(&mut self, index: usize, settings: &Settings) {
        let cpu = &mut self.cpus[index];
        cpu.current = None;
        cpu.busy_ns += cpu.now - cpu.since;
        if let Some(socket) = settings.socket(index) {
            self.active[socket] -= 1;
        }
        if !self.cpus[index].ready.is_empty() {
            let now = self.cpus[index].now;
            self.queue_run(index, now);
        }
    }
}

impl Machine for Engine {
    fn task(&self) -> usize {
        self.running.get() + 1
    }

    fn now_ns(&self) -> u64 {
        let inside = self.inside.borrow();
        inside.cpus[inside.tasks[self.running.get()].cpu].now
    }

    fn access(&self, address: usize, bytes: usize, access: Access) {
        if bytes == 0 || self.inside.borrow().tasks[self.running.get()].sequences > 0 {
            return;
        }
        self.order();
        let inside = &mut *self.inside.borrow_mut();
        let cpu = inside.tasks[self.running.get()].cpu;
        let now = inside.cpus[cpu].now;
        inside.cpus[cpu].now =
            inside.lines.access((address, bytes), access, cpu, now, &self.settings);
    }

    fn relax(&self) {
        self.spend(self.settings.switch_ns.max(1));
        self.suspend(Pause::Slice);
    }

    fn sleep(&self, key: usize, at_most_ns: Option<u64>) {
        {
            let inside = &mut *self.inside.borrow_mut();
            let task = self.running.get();
            let cpu = inside.tasks[task].cpu;
            inside.cpus[cpu].now += self.settings.call_ns;
            inside.tasks[task].asleep = Some(key);
            inside.tasks[task].sleeps += 1;
            if key != 0 {
                inside.sleepers.entry(key).or_default().push_back(task);
            }
            if let Some(ns) = at_most_ns {
                let (at, sleeps) = (inside.cpus[cpu].now + ns, inside.tasks[task].sleeps);
                inside.push(at, Event::Timer(task, sleeps));
            }
        }
        self.suspend(Pause::Sleep);
    }

    fn wake(&self, key: usize, most: usize) {
        self.order();
        let inside = &mut *self.inside.borrow_mut();
        let cpu = inside.tasks[self.running.get()].cpu;
        for _ in 0..most {
            let next = inside.sleepers.get_mut(&key).and_then(VecDeque::pop_front);
            let Some(task) = next else { break };
            inside.cpus[cpu].now += self.settings.wake_ns;
            if !inside.tasks[task].bound && inside.cpus[inside.tasks[task].cpu].current.is_some() {
                inside.tasks[task].cpu = inside.idlest(self.settings.cpus());
            }
            let at = inside.cpus[cpu].now + self.settings.wake_latency_ns;
            inside.make_ready(task, at);
        }
    }

    fn lock_wanted(&self, lock: usize) {
        self.access(lock, size_of::<u32>(), Access::Update);
    }

    fn lock_waits(&self, lock: usize) -> Waited {
        {
            let inside = &mut *self.inside.borrow_mut();
            inside.spinners.entry(lock).or_default().push_back(self.running.get());
        }
        self.suspend(Pause::Spin);
        Waited::HandedOver
    }

    fn lock_released(&self, lock: usize) -> bool {
        self.access(lock, size_of::<u32>(), Access::Write);
        let inside = &mut *self.inside.borrow_mut();
        let Some(queue) = inside.spinners.get_mut(&lock) else { return false };
        let Some(next) = queue.pop_front() else { return false };
        let others = queue.len() as u64;
        let (from, to) = (inside.tasks[self.running.get()].cpu, inside.tasks[next].cpu);
        let now = inside.cpus[from].now;
        let at = inside.lines.access((lock, 4), Access::Update, to, now, &self.settings);
        let at = at + others * self.settings.waiter_ns;
        inside.cpus[to].now = inside.cpus[to].now.max(at);
        let at = inside.cpus[to].now;
        inside.queue_run(to, at);
        true
    }

    fn sequence_begins(&self, slot: usize) {
        self.access(slot, size_of::<u64>(), Access::Update);
        self.inside.borrow_mut().tasks[self.running.get()].sequences += 1;
    }

    fn sequence_ends(&self) {
        self.inside.borrow_mut().tasks[self.running.get()].sequences -= 1;
    }

    fn effort(&self, effort: Effort, count: usize) {
        let ns = self.settings.effort(effort) * count as f64;
        self.spend(self.stretched(ns as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineFile;
    use quarry_sys::lock::CountedLock;
    use quarry_sys::primitive::{clock, run_on, timer};
    use std::rc::Rc;

    /// Runs a task on each of the first CPUs; returns what they say at their ends.
    /// What a task does on the machine.
    type Body<T> = Box<dyn FnOnce(&Engine) -> T>;

    fn run<T: 'static>(tasks: Vec<Body<T>>) -> Vec<T> {
        let settings = MachineFile::named("two-cpus").unwrap().settings();
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(settings)));
        let said: Rc<RefCell<Vec<T>>> = Rc::default();
        let first = {
            let said = said.clone();
            move || {
                for (cpu, task) in tasks.into_iter().enumerate() {
                    let said = said.clone();
                    let body = move || {
                        let end = task(engine);
                        said.borrow_mut().push(end);
                    };
                    engine.spawn(Some(cpu % 2), Box::new(body));
                }
            }
        };
        run_on(engine, || engine.run(Box::new(first)));
        said.take()
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time_and_handed_over_in_order() {
        let lock: &'static CountedLock<Vec<(u64, u64)>> =
            Box::leak(Box::new(CountedLock::new(Vec::new())));
        let task = || -> Box<dyn FnOnce(&Engine)> {
            Box::new(|engine| {
                for _ in 0..100 {
                    let mut sections = lock.lock();
                    let start = clock::now_ns();
                    engine.work(500);
                    sections.push((start, clock::now_ns()));
                }
            })
        };
        run(vec![task(), task()]);
        let sections = lock.lock();
        assert_eq!(sections.len(), 200);
        for pair in sections.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
        assert!(lock.stats().contentions > 150, "{:?}", lock.stats());
    }

    #[test]
    fn tasks_of_one_cpu_share_its_time() {
        let ends = run((0..4)
            .map(|_| -> Box<dyn FnOnce(&Engine) -> u64> {
                Box::new(|engine| {
                    (0..10_000).for_each(|_| engine.work(1_000));
                    clock::now_ns()
                })
            })
            .collect());
        // Two tasks of 10 ms on each CPU.
        assert!(ends.iter().all(|end| (10_000_000..21_000_000).contains(end)), "{ends:?}");
        assert!(ends.iter().filter(|end| **end > 20_000_000).count() >= 2, "{ends:?}");
    }

    #[test]
    fn sleepers_leave_the_cpu_to_others() {
        let ends = run(vec![
            Box::new(|_: &Engine| {
                timer::sleep(1_000_000);
                clock::now_ns()
            }) as Box<dyn FnOnce(&Engine) -> u64>,
            Box::new(|engine: &Engine| {
                engine.work(100_000);
                clock::now_ns()
            }),
        ]);
        assert_eq!(ends.len(), 2);
        assert!(ends[0] < 200_000 && ends[1] >= 1_000_000, "{ends:?}");
    }
}
