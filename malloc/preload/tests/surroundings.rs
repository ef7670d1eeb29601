//! Conditions under which a process may run: forks at every moment, killed threads, locked memory,
//! missing files, calls that fail. `docs/surroundings.md` lists all of them.

use std::fs;
use std::path::Path;

use crate::support::{Outcome, Run, program, skipped};

/// Exit code of a program that may not set up its conditions; its output says why.
const NOT_ALLOWED: i32 = 77;

/// Runs a program that may need rights which this test run does not have; if they are missing,
/// prints why the program is skipped.
pub(crate) fn where_allowed(run: Run) -> Option<Outcome> {
    let outcome = run.finish();
    if outcome.status.code() == Some(NOT_ALLOWED) {
        skipped(outcome.stdout.trim_end());
        return None;
    }
    Some(outcome.success())
}

fn start(source: &'static str) -> Run {
    Run::new(program(source))
}

/// Forks under load, during drains by `malloc_trim` and purges by the background thread.
#[test]
fn one_thousand_forks() {
    start("around_fork.c").env("QUARRY_PURGE_DELAY", "1").finish().success();
}

/// A process with one thread may fork in a signal handler, as with glibc, whatever the signal has
/// interrupted. The same holds if the library's own thread is the only other thread.
#[test]
fn forks_in_a_handler_that_interrupts_malloc() {
    let run = || start("around_fork_handler.c");
    run().finish().success();
    for thread in ["reclaim", "brief"] {
        run().arg(thread).env("QUARRY_PURGE_DELAY", "1").finish().success();
    }
}

#[test]
fn handlers_of_fork_that_allocate() {
    start("around_atfork.c").finish().success();
}

/// A child's counts are consistent, whatever the threads of its parent were doing at the fork.
#[test]
fn what_a_child_inherits_adds_up() {
    start("around_fork_sums.c").env("QUARRY_PURGE_DELAY", "1").finish().success();
}

/// Forks while threads allocate under the locks of streams, for which `fork` waits.
#[test]
fn forks_under_the_locks_of_streams() {
    start("around_fork_stdio.c").finish().success();
}

/// `free` starts no thread while the C library holds its lock of stacks around that call.
#[test]
fn storage_of_threads_freed_under_the_lock_of_stacks() {
    start("around_stack.c").env("QUARRY_PURGE_DELAY", "100000").finish().success();
}

#[test]
fn threads_started_while_the_loader_frees_its_message() {
    start("around_loader.c").finish().success();
    start("around_loader.c").env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").finish().success();
}

#[test]
fn daemons() {
    for delay in ["0", "1", "500"] {
        start("around_daemon.c").env("QUARRY_PURGE_DELAY", delay).finish().success();
    }
}

#[test]
fn exit_while_threads_allocate() {
    // A process that ends by `_exit` writes no statistics.
    start("around_exit.c").finish().success();
}

#[test]
fn asynchronous_cancellation() {
    start("around_cancel.c").finish().success();
}

#[test]
fn affinity_changes_and_more_threads_than_slots() {
    for arguments in [["6", "40000"], ["600", "150"]] {
        start("around_affinity.c").args(arguments).finish().success();
        let striped = start("hostile_deny.c").arg(libc::ENOSYS.to_string()).arg("rseq");
        striped.arg(program("around_affinity.c")).args(arguments).finish().success();
    }
}

#[test]
fn locked_memory() {
    where_allowed(start("around_locked.c"));
    where_allowed(start("around_locked.c").env("QUARRY_PURGE_DELAY", "0"));
}

/// In the second run a filter fails MADV_DONTNEED_LOCKED (24), as kernels before Linux 5.18 do,
/// which do not know it.
#[test]
fn locked_buffers_that_were_freed() {
    where_allowed(start("around_locked_buffer.c"));
    let before = start("hostile_deny.c").arg(libc::EINVAL.to_string()).arg("madvise:24");
    where_allowed(before.arg(program("around_locked_buffer.c")));
}

/// A process with one thread has one at each fork, and the C library's single-threaded mode, though
/// its memory goes back while it is idle.
#[test]
fn one_thread_stays_one_thread() {
    for part in ["idle", "sparse", "fork", "unshare", "user", "beside", "signals", "ends"] {
        for delay in ["20", "500"] {
            // Without statistics, because the user that the program becomes may not write them.
            let run = start("around_single.c").arg(part).env("QUARRY_PURGE_DELAY", delay);
            where_allowed(run.without_stats());
        }
    }
}

/// The recipe of real-time programs. (Pools of objects that threads share need room for what CPUs
/// park.)
#[test]
fn no_page_faults_in_a_locked_pool() {
    for (bytes, more) in [("16", &["", "late"][..]), ("64", &["", "threads"]), ("256", &[""])] {
        for how in ["large", "small", "mixed"] {
            for more in more {
                let run = start("around_realtime_pool.c").arg(bytes).arg(how);
                where_allowed(run.arg(*more));
            }
        }
    }
}

/// Attributes that a program has set on the pages of a large block end with the block.
#[test]
fn pages_of_a_freed_block_are_like_all_others() {
    for what in ["dontfork", "wipeonfork", "readonly"] {
        for mib in ["2", "8", "24", "40", "100"] {
            start("around_attributes.c").arg(what).arg(mib).finish().success();
        }
    }
}

#[test]
fn user_namespace_of_its_own() {
    where_allowed(start("around_namespace.c"));
}

/// Programs that must work everywhere; each runs for a second.
const LIFE: [(&str, &str); 3] =
    [("life_fork.c", ""), ("stress.c", "41 4 8000 fork"), ("stress.c", "42 32 800")];

/// Without /proc and /sys: statistics go to a file that the program under test opens.
#[test]
fn neither_proc_nor_sys() {
    for (source, arguments) in LIFE {
        let run = start("around_hidden.c").arg("files").arg(program(source));
        where_allowed(run.args(arguments.split_whitespace()));
    }
}

#[test]
fn huge_pages_turned_off_for_the_process() {
    for (source, arguments) in LIFE {
        let run = start("around_hidden.c").arg("huge").arg(program(source));
        run.args(arguments.split_whitespace()).finish().success();
    }
}

/// Filters that refuse a whole call, or single values of `madvise`, with the error of an old kernel
/// and with that of a strict sandbox.
#[test]
fn calls_refused_by_a_filter() {
    const POPULATE_WRITE: i32 = 23;
    let advices = [
        libc::MADV_DONTNEED,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_COLD,
        POPULATE_WRITE,
    ];
    let mut refused: Vec<String> =
        advices.iter().map(|advice| format!("madvise:{advice}")).collect();
    refused.push("memfd_create,mremap".into());
    refused.push("madvise,memfd_create,membarrier,rseq,mremap".into());
    for calls in &refused {
        for error in [libc::EINVAL, libc::EPERM] {
            let run = start("hostile_deny.c").arg(error.to_string()).arg(calls);
            let run = run.arg(program("stress.c")).args(["43", "4", "6000", "fork"]);
            run.env("QUARRY_PURGE_DELAY", "1").finish().success();
        }
    }
}

/// The background thread gives up each right that the program gives up.
#[test]
fn rights_given_up() {
    for how in ["user", "beside", "capabilities", "first", "effective", "vow"] {
        let run = start("around_privileges.c").arg(how).env("QUARRY_PURGE_DELAY", "20");
        // Without statistics, because the user that the program becomes may not write them.
        where_allowed(run.without_stats());
    }
}

#[test]
fn last_thread_of_a_program_without_main() {
    let outcome = start("around_last.c").limit_s(30).finish().success();
    assert_eq!(outcome.stdout, "handlers ran\n", "{outcome}");
}

#[test]
fn much_thread_local_storage() {
    start("around_storage.c").finish().success();
}

#[test]
fn started_by_a_real_time_thread() {
    where_allowed(start("around_realtime.c"));
}

/// Starts a program that runs some hundred times and checks every invariant after each run. A check
/// takes milliseconds per TiB of address space; no other thread may use the heap during a check.
fn start_validated(source: &'static str) -> Run {
    start(source).env("QUARRY_RESERVE", "1G").env("QUARRY_BACKGROUND", "0").limit_s(600)
}

/// Each system call of the allocator fails once; then all from each one on fail.
#[test]
fn system_that_refuses_the_nth_request() {
    for delay in ["500", "0"] {
        let outcome = start_validated("around_fail.c").env("QUARRY_PURGE_DELAY", delay).finish();
        println!("{}", outcome.success().stdout);
    }
}

/// Each allocation that takes memory from the budget fails under some limit.
#[test]
fn limit_that_refuses_the_nth_allocation() {
    let outcome = start_validated("around_limit.c").without_stats().finish().success();
    println!("{}", outcome.stdout);
}

/// The system refuses forks and threads, as at a limit of processes.
#[test]
fn forks_and_threads_refused() {
    start("around_refused.c").env("QUARRY_PURGE_DELAY", "1").finish().success();
}

/// A setting of the machine, restored when dropped.
struct Setting {
    file: &'static Path,
    before: String,
}

impl Setting {
    fn set(file: &'static str, value: &str) -> std::io::Result<Self> {
        let file = Path::new(file);
        let before = fs::read_to_string(file)?;
        fs::write(file, value)?;
        Ok(Self { file, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        fs::write(self.file, self.before.trim()).expect("what was set can be set back");
    }
}

/// The number of kilobytes in a line of /proc/meminfo.
fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel prints this line")
}

/// Reserved address space must not be charged if the system does not overcommit. The test raises
/// the overcommit ratio first, so that other programs on this machine go on; but while the kernel
/// tests the request that is too large, it refuses theirs. So `scripts/test.sh` runs this alone.
#[test]
fn strict_overcommit() {
    const FILES: [&str; 2] = ["/proc/sys/vm/overcommit_ratio", "/proc/sys/vm/overcommit_memory"];
    let percent = 400 + meminfo("Committed_AS") * 100 / meminfo("MemTotal");
    let settings = Setting::set(FILES[0], &percent.to_string()).and_then(|ratio| {
        // The drop restores the mode before the ratio.
        Setting::set(FILES[1], "2").map(|mode| (mode, ratio))
    });
    let Ok(_settings) = settings else {
        skipped("this user may not set vm.overcommit_memory");
        return;
    };
    let reserved = 1 << 30;
    assert!(meminfo("CommitLimit") < reserved, "1 TiB would not be refused here");
    start("stress.c").args(["44", "4", "6000", "fork"]).finish().success();
    start("around_commit.c").arg((meminfo("CommitLimit") / 1024).to_string()).finish().success();
}
