//! Processes in sandboxes: seccomp filters that kill them at the first system call which is not on
//! a list.

mod filters;

use crate::support::{Run, program, skipped};
use filters::{Answer, Filter, profiles, systemd_sets};

/// Runs a program without statistics at exit, because writing them would need a file.
fn start(source: &'static str) -> Run {
    Run::new(program(source)).without_stats()
}

/// Under OpenSSH's filter: no thread is started while there is little memory to give back.
#[test]
fn filter_of_openssh() {
    start("sandbox_openssh.c").arg("keep").finish().success();
    start("sandbox_openssh.c").arg("late").finish().success();
    start("sandbox_openssh.c").arg("free").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_BACKGROUND", "0").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_SANDBOX", "1").finish().success();
}

/// Under filters of the program's threads: only the allocator's own thread calls membarrier.
#[test]
fn filters_of_the_programs_threads() {
    start("sandbox_threads.c").arg("each").finish().success();
    // Threads that register themselves do so only where no filter may kill them.
    let run = start("sandbox_threads.c").arg("each");
    run.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").finish().success();
}

#[test]
fn filter_of_all_threads() {
    start("sandbox_threads.c").arg("all").env("QUARRY_SANDBOX", "1").finish().success();
}

/// A filter from before the start of the program; the launcher, before it, has none.
#[test]
fn filter_from_before_the_start() {
    start("sandbox_start.c").env("QUARRY_SANDBOX", "1").finish().success();
}

/// The calls that a program needs to start and to print.
const OF_PROGRAMS: [&str; 4] = ["execve", "mmap", "openat", "write"];
/// The calls that a process needs to have children and threads.
const OF_CHILDREN: [&str; 4] = ["clone", "wait4", "rt_sigprocmask", "rt_sigaction"];

/// The option under which Quarry makes none of the calls that the filter kills for.
fn option_for(filter: &Filter) -> Option<(&'static str, &'static str)> {
    let kills_for = |call| filter.answer(call) == Answer::Kill;
    if ["prctl", "clone", "rt_sigprocmask", "membarrier"].into_iter().any(kills_for) {
        return Some(("QUARRY_SANDBOX", "1"));
    }
    kills_for("memfd_create").then_some(("QUARRY_RECORD", "0"))
}

/// Runs every slow path under a filter: one from before the start of the program, or one that the
/// program installs itself.
fn run_inside(filter: &Filter, is_late: bool) {
    let many = if filter.allows(&OF_CHILDREN) { "many" } else { "alone" };
    let option = option_for(filter);
    println!("{}, late: {is_late}, {option:?}, {many}", filter.name);
    let mut run = Run::new(program("sandbox_paths.c")).env("QUARRY_PURGE_DELAY", "20");
    run = run.arg(if is_late { "late" } else { "start" }).arg(filter.file()).arg(many);
    if !filter.allows(&["memfd_create"]) {
        run = run.env("TEST_NO_PROFILE", "1");
    }
    if is_late || option == Some(("QUARRY_SANDBOX", "1")) || !filter.allows(&["clone"]) {
        run = run.env("TEST_NO_THREAD", "1");
    }
    if !filter.allows(&["openat"]) {
        run = run.without_stats();
    }
    option.into_iter().fold(run, |run, (name, value)| run.env(name, value)).finish().success();
}

/// [`run_inside`] for each filter, several at a time, because the programs sleep.
fn run_all(filters: &[Filter], is_late: bool) {
    const AT_A_TIME: usize = 4;
    std::thread::scope(|scope| {
        for start in 0..AT_A_TIME {
            let mine = filters.iter().skip(start).step_by(AT_A_TIME);
            scope.spawn(move || mine.for_each(|filter| run_inside(filter, is_late)));
        }
    });
}

/// Services whose unit has `SystemCallFilter=`, which kills unless `SystemCallErrorNumber=` is set:
/// the set for services, without each other set; and everything but one set.
#[test]
fn filters_of_systemd() {
    let Some(sets) = systemd_sets() else {
        skipped("there is no systemd-analyze");
        return;
    };
    let service = &sets["@system-service"];
    let hardened = &(service - &sets["@privileged"]) - &sets["@resources"];
    let mut filters = vec![Filter::allowing("@system-service", service, Answer::Kill)];
    let hardened_unit = [Filter::allowing("hardened", &hardened, Answer::Kill)];
    for (name, calls) in &sets {
        let without = &hardened - calls;
        if without != hardened {
            filters.push(Filter::allowing(&format!("hardened ~{name}"), &without, Answer::Kill));
        }
        filters.push(Filter::refusing(&format!("~{name}"), calls, Answer::Kill));
        let fails = Answer::Fail(libc::EPERM);
        filters.push(Filter::refusing(&format!("~{name}, failing"), calls, fails));
    }
    filters.retain(|filter| filter.allows(&OF_PROGRAMS));
    run_all(&filters, false);
    run_all(&hardened_unit, false);
    run_all(&hardened_unit, true);
}

/// The filters that containers and sandboxes put around programs, and the same lists as killers.
#[test]
fn filters_of_containers() {
    let mut filters = profiles();
    filters.extend(profiles().iter().map(Filter::as_a_killer));
    let (from_start, late): (Vec<_>, Vec<_>) =
        filters.into_iter().partition(|filter| filter.allows(&OF_PROGRAMS));
    assert!(late.iter().all(|filter| filter.name.starts_with("chromium")), "of {}", late.len());
    run_all(&from_start, false);
    run_all(&late, true);
}
