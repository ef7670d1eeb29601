//! Processes and threads without restartable sequences, without membarrier, and after `fork`.
//!
//! The suites run again in child processes without rseq or membarrier. The variable `EXPECT` tells
//! a child whether it has to find sequences, so that no suite passes by using another backend.

use crate::support::{A, Backend, LIST, Objects, Slots, number, tag};
use crate::threads::all_once;
#[cfg(all(target_env = "gnu", not(quarry_no_rseq)))]
use crate::walks::Forest;
use quarry_sys::percpu::{Arrays, Lists, NativeSlots, PerCpu, Push};
use std::os::unix::process::CommandExt;
use std::process::Command;

const EXPECT: &str = "QUARRY_TEST_EXPECT_SEQUENCES";

/// The answer that a child expects whose threads register themselves.
const WHERE_KNOWN: &str = if cfg!(quarry_no_rseq) { "no" } else { "yes" };

/// The suites that a child runs, and the check of `EXPECT` in this file.
const SUITES: [&str; 5] = [
    "suite::native",
    "threads::native",
    "signals::",
    "walks::",
    "surroundings::child_finds_what_was_said",
];

/// Runs `body` in a forked child and expects it to return.
fn in_fork(body: impl FnOnce()) {
    // SAFETY: the child runs `body`, which takes no lock of the parent's other threads (glibc makes
    // malloc usable after fork), and leaves by _exit.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork fails");
        if child == 0 {
            libc::alarm(60);
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
            libc::_exit(i32::from(!passed));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0, "the child failed or was killed");
    }
}

/// Makes the kernel refuse `call` with `errno` to this thread and its children from now on.
fn refuse(call: i64, errno: i32) -> std::io::Result<()> {
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump_if_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(load_number, 0, 0, 0),
        step(jump_if_equal, 0, 1, call as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs the suites on 64 cases, or fewer if this process was told so: an emulated machine takes
/// minutes for a case.
fn run_suites(command: &mut Command, expect: &str) {
    let told = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases: u32 = told.unwrap_or(64).min(64);
    command.args(SUITES).env(EXPECT, expect).env("PROPTEST_CASES", cases.to_string());
    let output = command.output().expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("child_finds_what_was_said ... ok"), "the child ran nothing: {text}");
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("a test knows its own path"))
}

#[test]
fn child_finds_what_was_said() {
    let slots = Slots::<NativeSlots>::new();
    match std::env::var(EXPECT).as_deref() {
        Ok(expected) => assert_eq!(slots.is_locked(), expected == "no"),
        // The test was started directly, on a machine that may have sequences or not.
        Err(_) => println!("sequences in use: {}", !slots.is_locked()),
    }
}

#[test]
fn suites_pass_where_glibc_registers_nothing() {
    let mut command = this_program();
    if WHERE_KNOWN == "yes" {
        command.args(["abort::", "walk::"]);
    }
    run_suites(command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), WHERE_KNOWN);
}

fn suites_pass_where_refused(call: i64, errnos: &[i32]) {
    for errno in errnos.iter().copied() {
        let mut command = this_program();
        // SAFETY: between fork and exec the closure only makes two system calls.
        unsafe { command.pre_exec(move || refuse(call, errno)) };
        run_suites(&mut command, "no");
    }
}

#[test]
fn suites_pass_where_membarrier_is_refused() {
    suites_pass_where_refused(libc::SYS_membarrier, &[libc::ENOSYS, libc::EPERM]);
}

#[test]
fn suites_pass_where_rseq_is_refused() {
    suites_pass_where_refused(libc::SYS_rseq, &[libc::ENOSYS, libc::EBUSY]);
}

/// A seccomp filter is installed after `init`: drains give up, and nothing is lost or blocked.
#[test]
fn a_late_refusal_leaves_the_slots_as_they_are() {
    in_fork(|| {
        let slots = Slots::<NativeSlots>::new();
        let objects = Objects::new(1);
        stay_on_one_cpu();
        while slots.put(A, tag(7)) != Push::Stored {
            slots.prepare(A).expect("memory");
        }
        while !slots.compare_store((slots.current(), LIST, 1), 0, 5) {}
        // SAFETY: the object is ours and on no list.
        assert_eq!(unsafe { slots.list_push(LIST, 5, objects.get(0)) }, Push::Stored);
        if slots.is_locked() {
            return;
        }
        refuse(libc::SYS_membarrier, libc::EPERM).expect("seccomp is available");
        for _ in 0..2 {
            let mut drained = 0;
            assert!(!slots.drain(A, &mut |objects| drained += objects.len()));
            assert!(!slots.drain_lists(LIST, &mut |_, _, count| drained += count));
            assert_eq!(drained, 0);
        }
        assert_eq!(slots.take(A), Some(tag(7)));
        assert_eq!(slots.put(A, tag(8)), Push::Stored);
        // SAFETY: LIST holds what was pushed above.
        assert_eq!(unsafe { slots.list_pop(LIST) }, Some(objects.get(0)));
        // SAFETY: as above.
        assert_eq!(unsafe { slots.list_push(LIST, 5, objects.get(0)) }, Push::Stored);
    });
}

/// Only the thread to which the barrier was left reaches the slots of other CPUs.
#[test]
fn the_barrier_is_left_to_one_thread() {
    use quarry_sys::primitive::task;
    let slots = Slots::<NativeSlots>::new();
    if slots.is_locked() {
        return;
    }
    // A single thread needs no barrier, and glibc may count only one in this process. So the test
    // starts a second thread.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(slots.reaches_every_slot(), "until a thread is named, every thread may");
            slots.leave_barrier_to(None);
            assert!(!slots.reaches_every_slot());
            assert!(!slots.drain(A, &mut |_| {}) && !slots.drain_lists(LIST, &mut |_, _, _| {}));
            assert!(!slots.wait_for_walks(), "walks of other CPUs go on");
            slots.leave_barrier_to(Some(task::current()));
            assert!(slots.reaches_every_slot() && slots.drain(A, &mut |_| {}));
            assert!(slots.wait_for_walks());
        });
    });
    assert!(!slots.reaches_every_slot(), "the other thread had it");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A new thread may get the task number of one that has ended.
            slots.leave_barrier_to(None);
            slots.lending_barrier(|| {
                assert!(slots.reaches_every_slot() && slots.drain(A, &mut |_| {}));
                assert!(slots.wait_for_walks());
                std::thread::scope(|scope| {
                    scope.spawn(|| assert!(!slots.reaches_every_slot(), "it was lent to one"));
                });
            });
            assert!(!slots.reaches_every_slot(), "it was given back");
        });
    });
}

/// Keeps the (only) thread of a process on its CPU, so that its slot stays the same.
fn stay_on_one_cpu() {
    // SAFETY: sched_getcpu has no preconditions.
    crate::threads::hop(unsafe { libc::sched_getcpu() } as u32);
}

/// Unregisters the running thread's `struct rseq`; returns whether there was one.
#[cfg(all(target_env = "gnu", not(quarry_no_rseq)))]
fn unregister() -> bool {
    const UNREGISTER: i32 = 1;
    const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };
    unsafe extern "C" {
        static __rseq_offset: isize;
    }
    // SAFETY: unregistering only makes the kernel forget the area, which stays glibc's. The test
    // itself runs on a glibc that has the symbol.
    unsafe {
        let area = quarry_sys::primitive::task::current().wrapping_add_signed(__rseq_offset);
        [32u32, 36, 40, 48, 64]
            .into_iter()
            .any(|length| libc::syscall(libc::SYS_rseq, area, length, UNREGISTER, SIGNATURE) == 0)
    }
}

#[cfg(all(target_env = "gnu", not(quarry_no_rseq)))]
#[test]
fn a_thread_without_registration_uses_the_stripes() {
    let slots = Slots::<NativeSlots>::new();
    let objects = Objects::new(2);
    let stripes = quarry_sys::topology::cpu_number_limit();
    std::thread::scope(|scope| {
        let body = || {
            let registered = unregister();
            assert_eq!(registered, !slots.is_locked(), "a thread of this process is registered");
            assert!(slots.current().0 >= stripes, "{:?} belongs to a CPU", slots.current());
            assert_eq!((slots.pop(A), slots.push(A, tag(1))), (None, Push::Refused));
            let forest = Forest::of(&[(3, 3)].into());
            // SAFETY: the nodes live as long as the forest.
            assert_eq!(unsafe { slots.walk(&forest.tree, 3) }, 0, "it looks under the lock");
            slots.prepare(A).expect("memory");
            assert_eq!(slots.push(A, tag(1)), Push::Refused, "the fast path stays closed");
            assert_eq!(slots.push_unregistered(A, tag(1)), Push::Stored);
            assert_eq!(slots.push_unregistered(A, tag(1)), Push::Duplicate);
            assert!(slots.push_batch(A, &[tag(2), tag(3)]));
            assert_eq!(slots.take_batch(A, 2), Some(vec![tag(2), tag(3)]));
            assert!(slots.compare_store((slots.current(), LIST, 1), 0, 9));
            // SAFETY: the objects are ours; LIST holds nothing else.
            unsafe {
                assert_eq!(slots.list_push(LIST, 9, objects.get(0)), Push::Stored);
                assert_eq!(slots.list_push(LIST, 9, objects.get(1)), Push::Stored);
                assert_eq!(slots.list_pop(LIST), Some(objects.get(1)));
            }
        };
        scope.spawn(body).join().expect("no panic");
    });
    // Another thread drains what the unregistered one left.
    assert_eq!(slots.drained(A), [tag(1)]);
    let mut lists = Vec::new();
    assert!(slots.drain_lists(LIST, &mut |guard, head, count| {
        assert_eq!((guard, count), (9, 1));
        lists.extend(objects.walk(head));
    }));
    assert_eq!(lists, [0]);
}

/// Threads use the slots while their process forks. Each child finds every slot in a state between
/// two operations, and continues to use it.
fn forks_see_whole_slots<S: Backend>() {
    const OBJECTS: usize = 12;
    let slots = Slots::<S>::new();
    let gate = quarry_sys::gate::Gate::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let churn = |index: usize| {
        let mut hand: Vec<usize> = (index * OBJECTS..(index + 1) * OBJECTS).collect();
        S::enter(index as u32);
        while !over.load(relaxed) {
            let pair: Vec<_> = hand.iter().rev().take(2).map(|object| tag(*object)).collect();
            if pair.len() == 2 && slots.push_batch(A, &pair) {
                hand.truncate(hand.len() - 2);
            } else if let Some(object) = slots.take(A) {
                hand.push(number(object));
            } else {
                let _inside = gate.enter(|| index);
                slots.prepare(A).expect("memory");
            }
        }
        hand
    };
    std::thread::scope(|scope| {
        let churn = &churn;
        let threads: Vec<_> = (0..2).map(|index| scope.spawn(move || churn(index))).collect();
        for _ in 0..40 {
            gate.close();
            in_fork(|| {
                slots.visit_locks(&mut |_, lock| lock.adopt_in_child());
                gate.open_in_child();
                let mut found: Vec<usize> = slots.drained(A).into_iter().map(number).collect();
                let count = found.len();
                found.sort_unstable();
                found.dedup();
                assert!(found.len() == count && found.iter().all(|object| *object < 2 * OBJECTS));
                slots.prepare(A).expect("memory");
                while slots.put(A, tag(99)) != Push::Stored {
                    slots.prepare(A).expect("memory");
                }
                assert_eq!(slots.drained(A), [tag(99)]);
            });
            gate.open();
        }
        over.store(true, relaxed);
        let mut found: Vec<usize> =
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        found.extend(slots.drained(A).into_iter().map(number));
        all_once(found, 2 * OBJECTS);
    });
}

#[test]
fn native_slots_survive_fork() {
    forks_see_whole_slots::<NativeSlots>();
}

#[test]
fn locked_slots_survive_fork() {
    forks_see_whole_slots::<crate::support::Virtual<2>>();
}

/// Mounts a file over the kernel's list of possible CPUs, for this process only. False where the
/// machine does not allow it.
fn forge_possible_cpus(list: &str) -> bool {
    use std::ffi::CString;
    let file = std::env::temp_dir().join(format!("quarry-possible-{}", std::process::id()));
    std::fs::write(&file, list).expect("a folder for temporary files");
    let path = CString::new(file.to_str().expect("plain names")).expect("no NUL");
    let target = c"/sys/devices/system/cpu/possible";
    // SAFETY: strings live through the calls; the mount is seen by this process alone.
    unsafe {
        let alone = libc::unshare(libc::CLONE_NEWNS) == 0
            || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0;
        let (none, nothing) = (std::ptr::null(), std::ptr::null());
        let private = libc::MS_REC | libc::MS_PRIVATE;
        alone
            && libc::mount(none, c"/".as_ptr(), none, private, nothing) == 0
            && libc::mount(path.as_ptr(), target.as_ptr(), none, libc::MS_BIND, nothing) == 0
    }
}

/// `/sys` lists one CPU. The process may run on one CPU at first, and then on all. Stripes serve
/// threads whose CPU number has no slot, and nothing is overwritten.
#[test]
fn a_forged_list_of_cpus_does_no_harm() {
    const FORGED: &str = "QUARRY_TEST_FORGED_CPUS";
    if std::env::var_os(FORGED).is_none() {
        // A new process, because this one may have counted its CPUs already.
        let mut command = this_program();
        command.args(["--exact", "surroundings::a_forged_list_of_cpus_does_no_harm"]);
        let status = command.env(FORGED, "1").status().expect("the child starts");
        assert!(status.success());
        return;
    }
    in_fork(|| {
        let all = crate::threads::allowed_cpus();
        let forged = format!("0-{}\n", all[0]);
        if all.len() < 2 || !forge_possible_cpus(&forged) {
            crate::support::skipped("one CPU, or no right to mount");
            return;
        }
        crate::threads::pin(all[0]);
        let slots = Slots::<NativeSlots>::new();
        if !slots.is_locked() {
            let cpus = quarry_sys::topology::cpu_number_limit();
            assert_eq!(cpus as usize, all[0] + 1, "the forged list is read");
            use_all_cpus(&slots, cpus, [all[0], all[1]]);
        }
    });
}

/// Two threads on two CPUs share objects until one of them has had a number without a slot.
fn use_all_cpus(slots: &Slots<NativeSlots>, cpus: u32, on: [usize; 2]) {
    const EACH: usize = 6;
    let met = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let work = &|index: usize| {
        crate::threads::pin(on[index]);
        let mut hand: Vec<usize> = (index * EACH..(index + 1) * EACH).collect();
        let mut rounds = 0;
        // Threads that run at once have different numbers, so one of them has no slot.
        while !met.load(relaxed) || rounds < 20_000 {
            rounds += 1;
            slots.prepare(A).expect("memory");
            let has_no_slot = || slots.current().0 >= cpus;
            if rounds % 2 == 0 || hand.is_empty() {
                hand.extend(slots.take(A).map(number));
                continue;
            }
            let Some(object) = hand.pop() else { continue };
            let (before, push, after) = (has_no_slot(), slots.push(A, tag(object)), has_no_slot());
            if before && after {
                assert_eq!(push, Push::Refused, "a sequence used a number without a slot");
                met.store(true, relaxed);
            }
            if push == Push::Refused && slots.push_unregistered(A, tag(object)) != Push::Stored {
                hand.push(object);
            }
        }
        hand
    };
    let mut found = std::thread::scope(|scope| {
        let threads = [0, 1].map(|index| scope.spawn(move || work(index)));
        threads.map(|thread| thread.join().expect("no panic")).concat()
    });
    found.extend(slots.drained(A).into_iter().map(number));
    all_once(found, 2 * EACH);
}
