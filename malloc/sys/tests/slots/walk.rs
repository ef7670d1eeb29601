//! The assembly of a walk, interrupted at each of its instructions, as `abort` does with the other
//! sequences.
//!
//! The tracer stops a walk at each instruction. Then a signal handler of the thread, or another
//! thread, moves the tree to other nodes and overwrites the old ones; that other thread calls the
//! barrier in between. The walk has to restart and find the new leaf.

use crate::support::{Backend, Slots};
use crate::threads::{allowed_cpus, pin};
use crate::tracer::{Stand, Tracee, marker, shared_memory};
use crate::walks::{Forest, Node, leaf};
use quarry_sys::percpu::{ArrayId, Lists, PerCpu, RseqSlots, WordTree};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The leaf that a walk finds if it has stayed in an old node.
const FREED: u64 = leaf(u64::MAX >> 2);
const OLD: u64 = 4;
const NEW: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Disturbance {
    /// Nothing but the stop itself.
    Preemption = 1,
    /// A signal whose handler moves the tree.
    Signal,
    /// Another thread moves the tree, calls the barrier, and overwrites the old nodes.
    Intruder,
    /// Like `Signal`, but `rseq_cs` is cleared, so that the kernel does not restart the walk.
    Unprotected,
    /// A stop at each instruction.
    Steps,
}

/// Far more steps than a walk takes that restarts some tens of times.
const STEPS: usize = 30_000;

/// A tree and an index to walk to. The cases have heights 0 to 3, empty places at two depths, and
/// an index beyond the tree.
#[derive(Clone, Copy, Debug)]
struct Case {
    leaves: &'static [u64],
    index: u64,
}

const CASES: [Case; 9] = [
    Case { leaves: &[], index: 0 },
    Case { leaves: &[0], index: 0 },
    Case { leaves: &[0], index: 1 },
    Case { leaves: &[0, 9], index: 9 },
    Case { leaves: &[0, 64, 100], index: 100 },
    Case { leaves: &[0, 64, 5000], index: 5000 },
    Case { leaves: &[0, 64, 5000], index: 65 },
    Case { leaves: &[0, 64, 5000], index: 300 },
    Case { leaves: &[0, 64, 5000], index: 1 << 40 },
];

impl Case {
    fn forest(self, number: u64) -> Forest {
        Forest::of(&self.leaves.iter().map(|at| (*at, number)).collect())
    }

    /// The word that a walk returns if all leaves have this number.
    fn answer(self, number: u64) -> u64 {
        if self.leaves.contains(&self.index) { leaf(number) } else { 0 }
    }
}

/// Shared memory of tracer and child.
#[derive(Default)]
struct Shared {
    /// The tracer's order to the intruder: 1 = move the tree. The intruder clears it when done.
    order: AtomicU32,
    /// Nonzero if the tracer stopped the walk inside its sequence.
    inside: AtomicU32,
    /// The disturbance of this round.
    disturbance: AtomicU32,
    /// Walks that found an overwritten node.
    strayed: AtomicU32,
    /// The child makes no more rounds.
    over: AtomicU32,
    home: AtomicU32,
}

/// The state that the child shares with its handler and its intruder.
struct Stage {
    slots: Slots<RseqSlots>,
    tree: WordTree,
    forests: [Forest; 2],
    /// The words with which the old nodes are restored.
    kept: Vec<Vec<u64>>,
    freed: Box<Node>,
    found: AtomicU64,
}

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
static STAGE: AtomicPtr<Stage> = AtomicPtr::new(null_mut());

fn shared() -> &'static Shared {
    // SAFETY: set before the first use; the mapping stays.
    unsafe { &*SHARED.load(Ordering::Acquire) }
}

fn stage() -> &'static Stage {
    // SAFETY: as above; the stage is leaked.
    unsafe { &*STAGE.load(Ordering::Acquire) }
}

impl Stage {
    fn new(case: Case) -> Self {
        let forests = [case.forest(OLD), case.forest(NEW)];
        let words = |node: &Node| node.0.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let kept = forests[0].nodes.iter().map(|node| words(node)).collect();
        Self {
            slots: Slots::new(),
            tree: WordTree::new(),
            forests,
            kept,
            freed: Node::filled(FREED),
            found: AtomicU64::new(0),
        }
    }

    /// Moves the tree to its new nodes.
    fn move_tree(&self) {
        self.tree.set(self.forests[1].tree.word());
    }

    /// Overwrites the old nodes: those of leaves with leaves, the others with addresses.
    fn overwrite(&self) {
        for (node, kept) in self.forests[0].nodes.iter().zip(&self.kept) {
            let has_leaves = kept.iter().any(|word| word & 1 == 1);
            node.fill(if has_leaves { FREED } else { self.freed.word() });
        }
    }

    fn restore(&self) {
        for (node, kept) in self.forests[0].nodes.iter().zip(&self.kept) {
            node.0.iter().zip(kept).for_each(|(word, kept)| word.store(*kept, Ordering::Relaxed));
        }
        self.tree.set(self.forests[0].tree.word());
        // A sequence of a slow path that ends restores the thread's patience.
        while !self.slots.compare_store((self.slots.current(), ArrayId::new(1), 2), 0, 0) {}
    }
}

extern "C" fn handler(_signal: i32) {
    stage().move_tree();
    stage().overwrite();
}

fn intrude() {
    while shared().over.load(Ordering::Acquire) == 0 {
        if shared().order.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
            continue;
        }
        stage().move_tree();
        assert!(stage().slots.wait_for_walks());
        stage().overwrite();
        shared().order.store(0, Ordering::Release);
    }
}

/// The child: walks until the tracer has stopped at all instructions.
fn child(case: Case) {
    let stage: &'static Stage = Box::leak(Box::new(Stage::new(case)));
    STAGE.store(std::ptr::from_ref(stage).cast_mut(), Ordering::Release);
    // SAFETY: the action is filled in, and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, null_mut()), 0);
    }
    pin(shared().home.load(Ordering::Relaxed) as usize);
    let intruder = std::thread::spawn(intrude);
    while shared().over.load(Ordering::Acquire) == 0 {
        stage.restore();
        shared().inside.store(0, Ordering::Relaxed);
        shared().disturbance.store(0, Ordering::Relaxed);
        walk(stage, case.index);
        if shared().over.load(Ordering::Acquire) == 0 {
            check(case, stage.found.load(Ordering::Relaxed));
        }
    }
    intruder.join().expect("no panic");
}

#[inline(never)]
fn walk(stage: &Stage, index: u64) {
    marker();
    // SAFETY: a node stays a node until the end, whatever its words are.
    let found = unsafe { stage.slots.walk(&stage.tree, index) };
    marker();
    stage.found.store(found, Ordering::Relaxed);
}

fn check(case: Case, found: u64) {
    let disturbance = shared().disturbance.load(Ordering::Relaxed);
    if disturbance == Disturbance::Steps as u32 {
        assert_eq!(found, 0, "{case:?}, stepped: the caller has to look under the lock");
        return;
    }
    let moved = disturbance != 0 && disturbance != Disturbance::Preemption as u32;
    let inside = shared().inside.load(Ordering::Relaxed) != 0;
    if disturbance == Disturbance::Unprotected as u32 {
        shared().strayed.fetch_add(u32::from(found == FREED), Ordering::Relaxed);
        return;
    }
    // A walk that is stopped inside its sequence restarts and finds the new leaf. A walk that is
    // stopped after its sequence has found the old leaf.
    let number = if moved && inside { NEW } else { OLD };
    assert_eq!(found, case.answer(number), "{case:?}, disturbance {disturbance}, inside {inside}");
}

fn disturb(tracee: &Tracee, stand: Stand, disturbance: Disturbance) {
    let sequence = match stand {
        Stand::Inside(sequence) => Some(sequence),
        Stand::AtEnd(_) | Stand::Left => None,
    };
    shared().inside.store(u32::from(sequence.is_some()), Ordering::Release);
    shared().disturbance.store(disturbance as u32, Ordering::Release);
    if let Some(sequence) = sequence.filter(|_| disturbance != Disturbance::Unprotected) {
        tracee.arm(sequence);
    }
    let reached = match disturbance {
        Disturbance::Preemption => tracee.run_to_marker(),
        Disturbance::Signal | Disturbance::Unprotected => tracee.run_to_marker_with(libc::SIGUSR1),
        Disturbance::Intruder => {
            shared().order.store(1, Ordering::Release);
            while shared().order.load(Ordering::Acquire) != 0 {
                assert!(!tracee.has_ended(), "the child ended under the intruder");
                std::thread::yield_now();
            }
            tracee.run_to_marker()
        }
        Disturbance::Steps => unreachable!("a disturbance of the whole walk"),
    };
    assert!(reached, "the child ended in the middle");
}

/// Each case has one child: every instruction of its walk meets every disturbance.
fn every_instruction(case: Case) -> usize {
    let tracee = Tracee::start(|| child(case));
    let (mut instructions, mut arming) = (0, None);
    let disturbances = [
        Disturbance::Preemption,
        Disturbance::Signal,
        Disturbance::Intruder,
        Disturbance::Unprotected,
    ];
    for disturbance in disturbances {
        for index in 0.. {
            assert!(tracee.run_to_marker());
            let stand = tracee.step_into(&mut arming, index);
            disturb(&tracee, stand, disturbance);
            if !matches!(stand, Stand::Inside(_)) {
                instructions = instructions.max(index);
                break;
            }
        }
    }
    assert!(tracee.run_to_marker());
    shared().disturbance.store(Disturbance::Steps as u32, Ordering::Release);
    assert!(tracee.step_to_marker(STEPS), "a stepped walk does not end: {case:?}");
    assert!(tracee.run_to_marker());
    shared().over.store(1, Ordering::Release);
    while tracee.run_to_marker() {}
    instructions
}

#[test]
fn walks_survive_an_interruption_at_each_instruction() {
    if Slots::<RseqSlots>::new().is_locked() {
        crate::support::skipped("this process has no restartable sequences to interrupt");
        return;
    }
    SHARED.store(std::ptr::from_ref(shared_memory::<Shared>()).cast_mut(), Ordering::Release);
    shared().home.store(allowed_cpus()[0] as u32, Ordering::Relaxed);
    for case in CASES {
        shared().over.store(0, Ordering::Release);
        shared().strayed.store(0, Ordering::Relaxed);
        let instructions = every_instruction(case);
        assert!(instructions >= 5, "{case:?} has {instructions} instructions");
        println!("{case:?}: {instructions} instructions");
        let strayed = shared().strayed.load(Ordering::Relaxed);
        let (has_nodes, has_leaf) = (case.leaves.len() > 1, case.leaves.contains(&case.index));
        assert!(has_nodes || strayed == 0, "{case:?}: there is no node to stray into");
        assert!(!(has_nodes && has_leaf) || strayed > 0, "{case:?}: no walk strays unprotected");
    }
}
