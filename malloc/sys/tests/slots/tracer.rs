//! A minimal debugger: it steps a child through its code one instruction at a time.
//!
//! A stop of a traced thread is a preemption, so the kernel restarts a sequence in which the thread
//! stops: by single steps a sequence restarts until it refuses (`step_to_marker`). Otherwise the
//! tracer clears `rseq_cs` while it steps through a sequence, and restores it at the one
//! instruction at which the sequence is to be interrupted.

use quarry_sys::report::warn;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The type of a request of ptrace(2) in the C library.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// `PTRACE_GET_RSEQ_CONFIGURATION`, `include/uapi/linux/ptrace.h`, Linux 5.13.
const GET_RSEQ_CONFIGURATION: Request = 0x420f;

/// `struct ptrace_rseq_configuration` (same place).
#[repr(C)]
#[derive(Default)]
struct Configuration {
    /// The address of the thread's `struct rseq`; 0 without one.
    area: u64,
    bytes: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

/// Stops the running thread for its tracer.
#[inline(always)]
pub(crate) fn marker() {
    // SAFETY: a trap that the tracer swallows; it changes nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("int3", options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("brk #0", options(nostack, preserves_flags));
    }
}

/// The trap instruction of a marker, and a mask of the bits to compare.
#[cfg(target_arch = "x86_64")]
const TRAP: (u64, u64) = (0xcc, 0xff);
#[cfg(target_arch = "aarch64")]
const TRAP: (u64, u64) = (0xd420_0000, 0xffff_ffff);

/// Bytes from a trap to the program counter of the thread that has stopped there.
const AFTER_TRAP: u64 = if cfg!(target_arch = "x86_64") { 1 } else { 0 };

/// The register that holds the address of the next instruction.
fn program_counter(registers: &mut libc::user_regs_struct) -> &mut u64 {
    #[cfg(target_arch = "x86_64")]
    return &mut registers.rip;
    #[cfg(target_arch = "aarch64")]
    return &mut registers.pc;
}

/// The start and end of a sequence: `struct rseq_cs`, `include/uapi/linux/rseq.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    descriptor: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) abort: u64,
}

impl Sequence {
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Where a child that was stepped into a sequence has stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stand {
    /// Before an instruction of the sequence.
    Inside(Sequence),
    /// After its last instruction.
    AtEnd(Sequence),
    /// Outside, after a branch out of the sequence.
    Left,
}

/// A new `T` in memory that this process and its children share.
pub(crate) fn shared_memory<T: Default + Sync>() -> &'static T {
    // SAFETY: a fresh mapping of enough bytes, aligned to a page; never unmapped.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        memory.cast::<T>().write(T::default());
        &*memory.cast::<T>()
    }
}

/// A traced child, stopped except while a method waits for it.
pub(crate) struct Tracee {
    thread: libc::pid_t,
}

impl Tracee {
    /// Forks a child that runs `body` from its first marker on.
    pub(crate) fn start(body: impl FnOnce()) -> Self {
        prepare_panics();
        // SAFETY: the child only runs `body` and leaves by _exit; it is killed with its tracer.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0, "fork fails");
            if child == 0 {
                run_traced(body);
            }
            let tracee = Self { thread: child };
            assert_eq!(tracee.wait(), Some(libc::SIGSTOP), "the child stops itself first");
            tracee.request(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL as u64);
            tracee
        }
    }

    fn request(&self, request: Request, address: u64, data: u64) -> libc::c_long {
        // SAFETY: requests that write memory of this process give its address and size: those of
        // `register_set` and `rseq_cs`.
        let result = unsafe { libc::ptrace(request, self.thread, address, data) };
        let error = std::io::Error::last_os_error();
        let peeks = request == libc::PTRACE_PEEKDATA;
        assert!(result != -1 || peeks, "ptrace request {request}: {error}");
        result
    }

    /// Waits for the next stop; returns its signal, or `None` if the child has exited with success.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` is writable.
        let stopped = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL) };
        assert_eq!(stopped, self.thread);
        if libc::WIFSTOPPED(status) {
            return Some(libc::WSTOPSIG(status));
        }
        assert!(libc::WIFEXITED(status), "the child was killed by {}", libc::WTERMSIG(status));
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child failed, see its message");
        None
    }

    /// Runs to the next marker. False if the child has exited instead.
    pub(crate) fn run_to_marker(&self) -> bool {
        self.run_to_marker_with(0)
    }

    /// Delivers a signal to the child, and runs to the next marker.
    pub(crate) fn run_to_marker_with(&self, signal: i32) -> bool {
        let reached = self.resume(libc::PTRACE_CONT, signal);
        if reached && AFTER_TRAP == 0 {
            let marker = self.address();
            assert_eq!(self.word(marker) & TRAP.1, TRAP.0, "another stop than a marker");
            self.go_on_at(marker + size_of::<u32>() as u64);
        }
        reached
    }

    /// Runs to `address`, which the thread is certain to reach next, by a breakpoint.
    pub(crate) fn run_to(&self, address: u64) {
        let code = self.word(address);
        self.request(libc::PTRACE_POKEDATA, address, code & !TRAP.1 | TRAP.0);
        assert!(self.resume(libc::PTRACE_CONT, 0), "the child ended in the middle");
        self.request(libc::PTRACE_POKEDATA, address, code);
        assert_eq!(self.address(), address + AFTER_TRAP, "another stop than the breakpoint");
        self.go_on_at(address);
    }

    /// Steps through each instruction to the next marker; false if there are more than `most`.
    pub(crate) fn step_to_marker(&self, most: usize) -> bool {
        (0..most).any(|_| {
            let address = self.address();
            let is_marker = self.word(address) & TRAP.1 == TRAP.0;
            if is_marker {
                let bytes = TRAP.1.count_ones() / 8;
                self.go_on_at(address + u64::from(bytes));
            } else {
                self.step();
            }
            is_marker
        })
    }

    /// Executes one instruction.
    pub(crate) fn step(&self) {
        assert!(self.resume(libc::PTRACE_SINGLESTEP, 0), "the child ended in the middle");
    }

    fn resume(&self, how: Request, mut signal: i32) -> bool {
        loop {
            self.request(how, 0, signal as u64);
            match self.wait() {
                Some(libc::SIGTRAP) => return true,
                Some(other) => signal = other,
                None => return false,
            }
        }
    }

    /// Reads a set of registers of the thread, or writes it.
    fn register_set<T>(&self, request: Request, set: libc::c_int, registers: &mut T) {
        let mut part =
            libc::iovec { iov_base: std::ptr::from_mut(registers).cast(), iov_len: size_of::<T>() };
        self.request(request, set as u64, (&raw mut part) as u64);
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: all its fields are numbers, so zero bytes are valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.register_set(libc::PTRACE_GETREGSET, libc::NT_PRSTATUS, &mut registers);
        registers
    }

    /// Returns the address of the thread's field `rseq_cs`, by which it arms its sequences.
    fn rseq_cs(&self) -> u64 {
        let mut found = Configuration::default();
        let bytes = size_of::<Configuration>() as u64;
        self.request(GET_RSEQ_CONFIGURATION, bytes, (&raw mut found) as u64);
        assert_ne!(found.area, 0, "the thread has registered none");
        found.area + 8
    }

    /// Returns the address of the next instruction.
    pub(crate) fn address(&self) -> u64 {
        *program_counter(&mut self.registers())
    }

    /// Sets the address at which the thread continues.
    fn go_on_at(&self, address: u64) {
        let mut registers = self.registers();
        *program_counter(&mut registers) = address;
        self.register_set(libc::PTRACE_SETREGSET, libc::NT_PRSTATUS, &mut registers);
    }

    fn word(&self, address: u64) -> u64 {
        self.request(libc::PTRACE_PEEKDATA, address, 0) as u64
    }

    /// The address to which the abort handler of a sequence jumps first.
    pub(crate) fn after_abort(&self, sequence: Sequence) -> u64 {
        let code = self.word(sequence.abort);
        let (base, offset) = match (cfg!(target_arch = "aarch64"), code & 0xff) {
            (true, _) => (0, i64::from((code as i32) << 6 >> 6) * 4),
            (false, 0xeb) => (2, i64::from((code >> 8) as i8)),
            (false, _) => (5, i64::from((code >> 8) as i32)),
        };
        (sequence.abort + base).wrapping_add_signed(offset)
    }

    /// Clears `rseq_cs`, so that the thread has no sequence armed.
    pub(crate) fn disarm(&self) {
        self.request(libc::PTRACE_POKEDATA, self.rseq_cs(), 0);
    }

    /// Sets `rseq_cs` to the sequence that `disarm` has cleared.
    pub(crate) fn arm(&self, sequence: Sequence) {
        self.request(libc::PTRACE_POKEDATA, self.rseq_cs(), sequence.descriptor);
    }

    /// Returns the sequence that the thread has armed, if it is at its first instruction.
    pub(crate) fn armed_here(&self) -> Option<Sequence> {
        let descriptor = self.word(self.rseq_cs());
        if descriptor == 0 {
            return None;
        }
        assert_eq!(self.word(descriptor), 0, "version and flags");
        let start = self.word(descriptor + 8);
        let sequence = Sequence {
            descriptor,
            start,
            end: start + self.word(descriptor + 16),
            abort: self.word(descriptor + 24),
        };
        (self.address() == start).then_some(sequence)
    }

    /// Steps to the next sequence and `index` instructions into it, and leaves it disarmed.
    /// `arming` is the address of the instruction that arms the sequence, once it is known.
    pub(crate) fn step_into(&self, arming: &mut Option<u64>, index: usize) -> Stand {
        self.disarm();
        if let Some(address) = *arming {
            self.run_to(address);
        }
        let sequence = loop {
            let address = self.address();
            self.step();
            if let Some(sequence) = self.armed_here() {
                *arming = Some(address);
                break sequence;
            }
        };
        self.disarm();
        for _ in 0..index {
            self.step();
            let address = self.address();
            if address == sequence.end {
                return Stand::AtEnd(sequence);
            }
            if !sequence.contains(address) {
                return Stand::Left;
            }
        }
        Stand::Inside(sequence)
    }

    /// Returns whether the child has ended, without waiting for it.
    pub(crate) fn has_ended(&self) -> bool {
        let mut status = 0;
        let flags = libc::__WALL | libc::WNOHANG;
        // SAFETY: `status` is writable.
        unsafe { libc::waitpid(self.thread, &raw mut status, flags) != 0 }
    }

    /// Id of the traced thread.
    pub(crate) fn thread(&self) -> libc::pid_t {
        self.thread
    }
}

/// True if this process is a traced child.
static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// Makes a traced child report a panic by one system call. Called before the fork: in the child,
/// the hook's lock may stay locked by another test that was panicking at the fork.
fn prepare_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_TRACED.load(Ordering::Relaxed) {
                warn(format_args!("traced child: {info}"));
            } else {
                usual(info);
            }
        }));
    });
}

/// Runs `body` in the child.
fn run_traced(body: impl FnOnce()) -> ! {
    IS_TRACED.store(true, Ordering::Relaxed);
    // SAFETY: plain system calls; _exit runs no handlers of the parent's.
    unsafe {
        // An emulated machine steps through a sequence for minutes.
        libc::alarm(1200);
        let refused = libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0;
        assert!(!refused, "this machine lets no process be traced by its parent");
        libc::raise(libc::SIGSTOP);
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
        libc::_exit(i32::from(!passed));
    }
}
