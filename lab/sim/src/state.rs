//! The state of a machine between two steps of its tasks: CPUs, their queues, and the events to
//! come.
//!
//! * A CPU runs at most one task. Other tasks wait in its queue only while it runs a task.
//! * A task is in one place: on a CPU, in a CPU's queue, or blocked (asleep, or spinning for a lock
//!   on its CPU).
//! * Time does not go back: no event in the heap is earlier than the one taken last.

use crate::by_address::ByAddress;
use crate::caches::Caches;
use crate::costs::Costs;
use crate::line_waits::Place;
use crate::lines::Lines;
use crate::locks::Locks;
use crate::outcome::Outcome;
use crate::topology::Topology;
use quarry_sys::primitive::Access;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(crate) type TaskId = usize;

/// Where a task may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On this CPU.
    Cpu(u32),
    /// On this CPU, as the handler of an interrupt: it runs before all other tasks, and the task
    /// that the CPU runs makes room for it.
    Interrupt(u32),
    /// On any CPU: the nearest idle one, if there is one.
    Unbound,
    /// On a CPU of its own outside the sockets, which disturbs no other: for a measuring task.
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// This task, which is on its CPU, goes on.
    Resume(TaskId),
    /// The time of the task's wait with this number is over, if the task is still in that wait.
    Timer(TaskId, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// On a CPU, or in a CPU's queue.
    Ready,
    /// On its CPU, spinning for the lock at this address.
    Spins(usize),
    /// Asleep on this key; 0: it waits for a time or for a lock, not on a key.
    Sleeps(usize),
    Done,
}

pub(crate) struct Task {
    /// The means to give up the system's thread; null before the task has begun.
    pub(crate) yielder: *const corosensei::Yielder<(), ()>,
    pub(crate) status: Status,
    pub(crate) cpu: u32,
    /// Where the task may run.
    pub(crate) placement: Placement,
    /// Number of waits so far. It shows whether a timer belongs to the present wait.
    pub(crate) wait: u64,
    /// Locks held, plus sections with interrupts off; while above 0, the task keeps its CPU.
    pub(crate) keeps_cpu: u32,
    pub(crate) sequences: u32,
    /// The code that makes the next access.
    pub(crate) place: Place,
    /// Number of nested calls of `task::watch` that the task is in. Inside them no time passes.
    pub(crate) watches: u32,
    /// True if an interrupt took the task's CPU. The task resumes there without a switch's cost.
    is_interrupted: bool,
    /// True if a wake-up ended the task's last wait, false if the time of that wait was over.
    pub(crate) was_woken: bool,
}

#[derive(Default)]
pub(crate) struct Cpu {
    pub(crate) now_ns: u64,
    pub(crate) task: Option<TaskId>,
    pub(crate) queue: VecDeque<TaskId>,
    /// When the CPU's present task came, and until when the task may stay while others wait.
    pub(crate) since_ns: u64,
    pub(crate) slice_ends_ns: u64,
    pub(crate) busy_ns: u64,
    /// True if the CPU has a handler of interrupts.
    pub(crate) has_interrupts: bool,
}

pub(crate) struct State {
    pub(crate) topology: Topology,
    pub(crate) costs: Costs,
    /// The CPUs of the sockets, and at the end the CPU outside.
    pub(crate) cpus: Vec<Cpu>,
    /// For each socket, the number of CPUs that have a task.
    busy: Vec<u32>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) running: TaskId,
    pub(crate) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of events queued so far: of two at the same time, the one queued first comes first.
    numbered: u64,
    pub(crate) sleepers: ByAddress<VecDeque<TaskId>>,
    pub(crate) locks: Locks,
    pub(crate) lines: Lines,
    /// For each socket, the time until which its memory is busy.
    pub(crate) memory_busy_until_ns: Vec<f64>,
    /// For each core, the time until which it reads or writes memory; its threads share this path.
    pub(crate) core_busy_until_ns: Vec<f64>,
    pub(crate) outcome: Outcome,
}

impl State {
    pub(crate) fn new(topology: Topology, costs: Costs) -> Self {
        let (cpus, sockets) = (topology.cpus() as usize + 1, topology.sockets as usize);
        let cores = topology.all_cores() as usize;
        let mut lines = Lines::new();
        if let Some(sizes) = costs.caches {
            lines.caches = Caches::new(&topology, sizes);
        }
        Self {
            topology,
            costs,
            cpus: std::iter::repeat_with(Cpu::default).take(cpus).collect(),
            busy: vec![0; sockets],
            tasks: Vec::new(),
            running: 0,
            events: BinaryHeap::new(),
            numbered: 0,
            sleepers: ByAddress::default(),
            locks: Locks::default(),
            lines,
            memory_busy_until_ns: vec![0.0; sockets],
            core_busy_until_ns: vec![0.0; cores],
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.cpus[self.tasks[self.running].cpu as usize]
    }

    pub(crate) fn task(&mut self) -> &mut Task {
        &mut self.tasks[self.running]
    }

    /// The running task's CPU, and that CPU's time.
    pub(crate) fn here(&self) -> (u32, u64) {
        let cpu = self.tasks[self.running].cpu;
        (cpu, self.cpus[cpu as usize].now_ns)
    }

    /// Moves the clock of the running task's CPU forward. Returns its time.
    pub(crate) fn pass(&mut self, ns: u64) -> u64 {
        self.cpu().now_ns += ns;
        self.cpu().now_ns
    }

    /// Lets the time of a system call pass; see [`pass`](Self::pass).
    pub(crate) fn calls(&mut self) -> u64 {
        self.pass(self.costs.call_ns)
    }

    pub(crate) fn queue_event(&mut self, at_ns: u64, event: Event) {
        self.numbered += 1;
        self.outcome.events += 1;
        self.events.push(Reverse((at_ns, self.numbered, event)));
    }

    /// Adds a task; the task that spawns it is on the CPU `from` (0 before the run).
    pub(crate) fn add(&mut self, placement: Placement, from: u32) -> TaskId {
        let cpus = self.topology.cpus();
        let placement = match placement {
            Placement::Cpu(cpu) => Placement::Cpu(cpu % cpus),
            Placement::Interrupt(cpu) => {
                self.cpus[(cpu % cpus) as usize].has_interrupts = true;
                Placement::Interrupt(cpu % cpus)
            }
            Placement::Unbound => Placement::Unbound,
            Placement::Outside => Placement::Cpu(cpus),
        };
        self.tasks.push(Task {
            yielder: std::ptr::null(),
            status: Status::Ready,
            cpu: match placement {
                Placement::Cpu(cpu) | Placement::Interrupt(cpu) => cpu,
                _ => from,
            },
            placement,
            wait: 0,
            keeps_cpu: 0,
            sequences: 0,
            place: None,
            watches: 0,
            is_interrupted: false,
            was_woken: false,
        });
        self.tasks.len() - 1
    }

    /// Returns whether the core of the running task has the lines, so that no access needs a
    /// transfer.
    pub(crate) fn has(&mut self, address: usize, bytes: usize, access: Access) -> bool {
        let ((cpu, _), (first, count)) = (self.here(), self.lines.of(address, bytes));
        (first..first + count).all(|line| self.lines.finds(&self.topology, cpu, line, access))
    }

    fn may_run_on(&self, task: TaskId, cpu: u32) -> bool {
        if self.tasks[task].is_interrupted {
            return cpu == self.tasks[task].cpu;
        }
        match self.tasks[task].placement {
            Placement::Cpu(only) | Placement::Interrupt(only) => cpu == only,
            _ => true,
        }
    }

    /// The CPU for a task that can run: the idle one nearest to the task's last CPU, or else the
    /// one with the shortest queue. O(CPUs); O(1) for a task that stays on one CPU.
    fn choose_cpu(&self, task: TaskId) -> u32 {
        if let Placement::Cpu(cpu) | Placement::Interrupt(cpu) = self.tasks[task].placement {
            return cpu;
        }
        let last = self.tasks[task].cpu;
        let load = |cpu: u32| {
            let cpu = &self.cpus[cpu as usize];
            cpu.queue.len() + usize::from(cpu.task.is_some())
        };
        let core_is_busy = |cpu: u32| self.topology.siblings(cpu).any(|it| load(it) > 0);
        (0..self.topology.cpus())
            .filter(|cpu| self.may_run_on(task, *cpu))
            .min_by_key(|cpu| {
                let far = self.topology.socket_of(*cpu) != self.topology.socket_of(last);
                (load(*cpu), *cpu != last, core_is_busy(*cpu), far, *cpu)
            })
            .unwrap_or(last)
    }

    /// Lets a new task, or one that was blocked, run as soon as its CPU is free.
    pub(crate) fn make_ready(&mut self, task: TaskId, at_ns: u64) {
        let cpu = self.choose_cpu(task);
        self.tasks[task].status = Status::Ready;
        self.tasks[task].cpu = cpu;
        self.tasks[task].wait += 1;
        let is_interrupt = self.is_interrupt(task);
        let place = &mut self.cpus[cpu as usize];
        if place.task.is_some() {
            if is_interrupt {
                place.queue.push_front(task);
                place.slice_ends_ns = 0;
            } else {
                place.queue.push_back(task);
            }
            return;
        }
        let idle_ns = at_ns.saturating_sub(place.now_ns);
        place.now_ns = place.now_ns.max(at_ns);
        // A core is not idle while one of its threads is busy.
        let is_busy = |it: u32| self.cpus[it as usize].task.is_some();
        let exit_ns =
            match self.topology.is_outside(cpu) || self.topology.siblings(cpu).any(is_busy) {
                true => 0,
                false => self.costs.idle_exit_ns(idle_ns),
            };
        self.start(cpu, task, self.costs.wake_ns + exit_ns);
    }

    fn is_interrupt(&self, task: TaskId) -> bool {
        matches!(self.tasks[task].placement, Placement::Interrupt(_))
    }

    /// Gives an idle CPU a task, which begins `after_ns` later than the CPU's time.
    fn start(&mut self, cpu: u32, task: TaskId, after_ns: u64) {
        let slice_ns = self.costs.slice_ns;
        let place = &mut self.cpus[cpu as usize];
        place.task = Some(task);
        place.since_ns = place.now_ns;
        place.now_ns += after_ns;
        place.slice_ends_ns = place.now_ns.saturating_add(slice_ns);
        let now_ns = place.now_ns;
        if !self.topology.is_outside(cpu) {
            self.busy[self.topology.socket_of(cpu) as usize] += 1;
        }
        self.tasks[task].cpu = cpu;
        self.queue_event(now_ns, Event::Resume(task));
    }

    /// Takes the running task off its CPU; the CPU goes on with the next task.
    pub(crate) fn leave_cpu(&mut self) {
        let (cpu, now_ns) = self.here();
        let place = &mut self.cpus[cpu as usize];
        place.busy_ns += now_ns - place.since_ns;
        place.task = None;
        if !self.topology.is_outside(cpu) {
            self.busy[self.topology.socket_of(cpu) as usize] -= 1;
        }
        let next = place.queue.pop_front().or_else(|| self.steal(cpu));
        if let Some(next) = next {
            self.outcome.switches += 1;
            let goes_on = std::mem::take(&mut self.tasks[next].is_interrupted);
            self.start(cpu, next, if goes_on { 0 } else { self.costs.switch_ns });
        }
    }

    /// Takes a task that may run on `cpu` from the longest queue that has one.
    fn steal(&mut self, cpu: u32) -> Option<TaskId> {
        let from = (0..self.cpus.len())
            .filter(|other| self.cpus[*other].queue.iter().any(|task| self.may_run_on(*task, cpu)))
            .min_by_key(|other| (Reverse(self.cpus[*other].queue.len()), *other))?;
        let place = (0..self.cpus[from].queue.len())
            .find(|place| self.may_run_on(self.cpus[from].queue[*place], cpu))?;
        self.cpus[from].queue.remove(place)
    }

    /// How long the running task needs on its CPU now for work that takes `ns` nanoseconds at the
    /// highest clock and alone on a core.
    pub(crate) fn stretched(&self, ns: u64) -> u64 {
        let (cpu, _) = self.here();
        if self.topology.is_outside(cpu) {
            return ns;
        }
        // A spinning thread leaves its core to the other thread, because `pause` takes a while.
        let computes = |task: TaskId| !matches!(self.tasks[task].status, Status::Spins(_));
        let is_rival = |it: u32| it != cpu && self.cpus[it as usize].task.is_some_and(computes);
        let shares_core = self.topology.siblings(cpu).any(is_rival);
        let busy = self.busy[self.topology.socket_of(cpu) as usize];
        (ns as f64 * self.costs.slowdown(busy, shares_core)).round() as u64
    }

    /// For each CPU of the sockets, the time for which it has had a task so far.
    pub(crate) fn busy_ns(&self) -> Vec<u64> {
        let of = |cpu: &Cpu| {
            let running = cpu.task.map_or(0, |_| cpu.now_ns.saturating_sub(cpu.since_ns));
            cpu.busy_ns + running
        };
        self.cpus[..self.topology.cpus() as usize].iter().map(of).collect()
    }

    /// Returns whether the running task has to make room for another task of its CPU now.
    pub(crate) fn slice_is_over(&self) -> bool {
        let task = &self.tasks[self.running];
        let cpu = &self.cpus[task.cpu as usize];
        cpu.now_ns >= cpu.slice_ends_ns && !cpu.queue.is_empty() && task.keeps_cpu == 0
    }

    /// Sends the running task to the end of its CPU's queue; if an interrupt came, to second place.
    pub(crate) fn yield_cpu(&mut self) {
        let running = self.running;
        let next = self.cpu().queue.front().copied();
        if next.is_some_and(|next| self.is_interrupt(next)) {
            self.task().is_interrupted = true;
            self.cpu().queue.insert(1, running);
        } else {
            self.cpu().queue.push_back(running);
        }
        self.leave_cpu();
    }

    /// Makes the running task wait, at most until `until_ns`.
    pub(crate) fn begin_wait(&mut self, status: Status, until_ns: Option<u64>) {
        self.task().status = status;
        let timer = Event::Timer(self.running, self.task().wait);
        if let Some(until_ns) = until_ns {
            self.queue_event(until_ns, timer);
        }
    }

    /// Ends the wait of a task whose time is over, if the task is still in the wait of this number.
    pub(crate) fn time_is_over(&mut self, task: TaskId, wait: u64, at_ns: u64) {
        match self.tasks[task].status {
            _ if self.tasks[task].wait != wait => {}
            Status::Sleeps(key) => {
                if let Some(sleepers) = self.sleepers.get_mut(&key) {
                    sleepers.retain(|other| *other != task);
                }
                self.tasks[task].was_woken = false;
                self.make_ready(task, at_ns);
            }
            Status::Spins(lock) => {
                self.locks.at(lock).queue.retain(|(other, _)| *other != task);
                self.tasks[task].was_woken = false;
                self.go_on(task, at_ns);
            }
            Status::Ready | Status::Done => {}
        }
    }

    /// Ends the spinning of a task on its CPU.
    pub(crate) fn go_on(&mut self, task: TaskId, at_ns: u64) {
        self.tasks[task].status = Status::Ready;
        self.tasks[task].wait += 1;
        let cpu = self.tasks[task].cpu as usize;
        self.cpus[cpu].now_ns = self.cpus[cpu].now_ns.max(at_ns);
        self.queue_event(at_ns, Event::Resume(task));
    }

    /// Wakes up to `most` tasks that sleep on `key`.
    pub(crate) fn wake(&mut self, key: usize, most: usize, at_ns: u64) {
        for _ in 0..most {
            let Some(sleepers) = self.sleepers.get_mut(&key) else { return };
            let Some(task) = sleepers.pop_front() else {
                self.sleepers.remove(&key);
                return;
            };
            self.tasks[task].was_woken = true;
            self.make_ready(task, at_ns);
        }
    }
}
