//! The handler of the signal that `QUARRY_SIGNAL` names. It publishes the statistics at once, and
//! writes them where `QUARRY_STATS` says. Without `QUARRY_SIGNAL` no handler is installed.
//!
//! The signal may interrupt Quarry's own work, and the handler takes locks. So it first checks that
//! the interrupted thread holds no lock: it enters the gate only if the gate is open, and continues
//! only if every lock is free. (Another thread that takes a lock after that soon releases it.)
//! Otherwise the handler leaves a request, which the next thread that ends a slow path, or the
//! background thread, fulfils. It does the same on an alternate stack that is too small for its
//! work: Rust's library gives each thread an alternate stack of 8 KiB.
//!
//! A handler that the program sets later for the signal replaces Quarry's. If the program set one
//! before it loaded a library with Quarry inside, Quarry's handler calls that one as its last step.

use crate::{background, record};
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::null_mut;
use quarry_sys::errno::KeepErrno;
use quarry_sys::primitive::{AtomicUsize, Ordering};
use quarry_sys::system_call::filled;

/// The handler works only on an alternate stack of at least this many bytes. The work takes 20 KiB,
/// and the kernel up to 11 KiB more for registers (AVX-512 and AMX).
const LEAST_STACK: usize = 48 << 10;

type Handler = extern "C" fn(c_int);
type HandlerWithInfo = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The previous handler, or 0, and its flags, which say whether it takes three arguments.
static BEFORE: AtomicUsize = AtomicUsize::new(0);
static BEFORE_FLAGS: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler for a signal. Called once, when the object is loaded.
pub(crate) fn install(number: c_int) {
    // SAFETY: both structures outlive the calls; all zero bytes are a valid action with an empty
    // mask. The handler is async-signal-safe, and its object is never unloaded.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        action.sa_sigaction = handle as HandlerWithInfo as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        if libc::sigaction(number, null_mut(), before.as_mut_ptr()) == 0 {
            let before = before.assume_init();
            if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) {
                BEFORE_FLAGS.store(before.sa_flags as usize, Ordering::Relaxed);
                BEFORE.store(before.sa_sigaction, Ordering::Release);
            }
            libc::sigaction(number, &raw const action, null_mut());
        }
    }
}

extern "C" fn handle(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = KeepErrno::new();
    record::wish();
    if has_room() && background::is_at_rest() {
        record::publish();
    }
    drop(errno);
    let before = BEFORE.load(Ordering::Acquire);
    let takes_info = BEFORE_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO as usize != 0;
    // SAFETY: calls the handler that the program had installed as the kernel would call it.
    unsafe {
        match before {
            0 => {}
            _ if takes_info => transmute::<usize, HandlerWithInfo>(before)(number, info, context),
            _ => transmute::<usize, Handler>(before)(number),
        }
    }
}

/// Returns whether the handler's stack is large enough, as far as the kernel reports it.
fn has_room() -> bool {
    let unchanged = core::ptr::null::<libc::stack_t>();
    // SAFETY: where the kernel succeeds, it has filled the structure.
    let stack = unsafe { filled(|stack| libc::syscall(libc::SYS_sigaltstack, unchanged, stack)) };
    stack.is_ok_and(|stack: libc::stack_t| {
        stack.ss_flags & libc::SS_ONSTACK == 0 || stack.ss_size >= LEAST_STACK
    })
}
