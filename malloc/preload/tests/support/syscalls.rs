//! Counts the system calls of one thread by ptrace, which needs no tool and no clock.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of calls of each system call, in the order of their first calls.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<(u64, u64)>);

impl Calls {
    /// The sum of all counts.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, number: u64) {
        match self.0.iter_mut().find(|(present, _)| *present == number) {
            Some((_, count)) => *count += 1,
            None => self.0.push((number, 1)),
        }
    }
}

/// Runs the command to its end. Returns the system calls of its first thread between each pair of
/// calls of `getppid`, which programs make as marks. Demands exit code 0.
pub(crate) fn calls_between_marks(mut command: Command) -> Vec<Calls> {
    // SAFETY: ptrace(TRACEME) is a bare system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    #[expect(clippy::zombie_processes, reason = "waited for below, by its number")]
    let child = command.spawn().expect("the program starts");
    let pid = child.id() as libc::pid_t;
    assert!(libc::WIFSTOPPED(wait(pid)), "the program stops at its exec");
    request(libc::PTRACE_SETOPTIONS, pid, libc::PTRACE_O_TRACESYSGOOD as usize);
    let (mut spans, mut open) = (Vec::new(), None);
    let mut signal = 0;
    loop {
        request(libc::PTRACE_SYSCALL, pid, signal as usize);
        let status = wait(pid);
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0, "the program failed");
            assert!(open.is_none(), "the program set an odd number of marks");
            return spans;
        }
        assert!(libc::WIFSTOPPED(status), "the program ended by signal: {status:#x}");
        signal = libc::WSTOPSIG(status);
        if signal != libc::SIGTRAP | 0x80 {
            continue;
        }
        signal = 0;
        match (entered(pid), &mut open) {
            (None, _) => {}
            (Some(number), None) if number == libc::SYS_getppid as u64 => {
                open = Some(Calls::default());
            }
            (Some(number), Some(_)) if number == libc::SYS_getppid as u64 => {
                spans.extend(open.take())
            }
            (Some(number), Some(calls)) => calls.add(number),
            (Some(_), None) => {}
        }
    }
}

/// The number of the system call that the thread enters; `None` if it returns from one.
fn entered(pid: libc::pid_t) -> Option<u64> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes to `info`; all-zero is a valid value of it.
    let info = unsafe {
        let request = libc::PTRACE_GET_SYSCALL_INFO;
        let got = libc::ptrace(request, pid, size, info.as_mut_ptr().cast::<c_void>());
        assert!(got > 0, "PTRACE_GET_SYSCALL_INFO: {}", std::io::Error::last_os_error());
        info.assume_init()
    };
    // SAFETY: every member of the union is valid for any bytes; at an entry this one is filled.
    let number = unsafe { info.u.entry.nr };
    (info.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then_some(number)
}

fn request(request: libc::c_uint, pid: libc::pid_t, data: usize) {
    // SAFETY: these requests carry a number, no pointer; the tracee is stopped.
    let result = unsafe { libc::ptrace(request, pid, 0usize, data) };
    assert_eq!(result, 0, "ptrace({request}): {}", std::io::Error::last_os_error());
}

fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is writable; the child is ours and has not been waited for to its end.
    let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(got, pid, "waitpid: {}", std::io::Error::last_os_error());
    status
}
