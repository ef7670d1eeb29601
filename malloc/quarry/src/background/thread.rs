//! Starts the background thread, keeps it invisible to the program, and ends it.
//!
//! * Its stack has room for its own work in addition to the static thread-local storage of all
//!   loaded objects, which may be larger: the C library puts this storage on the stack.
//! * It is an ordinary thread on all CPUs of the process, even if a real-time thread starts it.
//! * It blocks every signal, so that no handler of the program runs on it.
//! * If it is the last thread, after the main thread has ended by `pthread_exit`, it ends the
//!   process, as the C library does in the last thread of a program.

use super::privileges;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use core::str::from_utf8;
use quarry_sys::bare_thread;
use quarry_sys::file::find_piece;
use quarry_sys::glibc::{is_single_threaded, private_symbol};
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering, futex};
use quarry_sys::scheduling::become_ordinary;

/// Bytes of stack: four times what `ReclaimState` and a few batches take, and 192 KiB for functions
/// of the program (shrinkers, callbacks for pressure, and backings of mappings).
const STACK_BYTES: usize = 256 << 10;
/// Bytes added for the C library if it does not report how much it needs.
const LIBRARY_BYTES: usize = 256 << 10;

type LeastStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;

/// Address of the function that returns how many bytes of a thread's stack glibc takes; 0 before
/// `look_up`, [`NONE`] if there is none.
static LEAST_STACK: AtomicUsize = AtomicUsize::new(0);
const NONE: usize = 1;

/// The signals that were blocked in the thread's creator.
struct Signals(UnsafeCell<MaybeUninit<libc::sigset_t>>);

// SAFETY: one creator at a time (`STARTING`) writes the set, before it creates the thread. Later
// only the creator and `exit` read the set; `exit` runs on a thread that the created thread starts.
unsafe impl Sync for Signals {}

static BLOCKED: Signals = Signals(UnsafeCell::new(MaybeUninit::zeroed()));

/// Looks up private functions of glibc that threads need: for the stack's size, the one that
/// computes `PTHREAD_STACK_MIN` (from glibc 2.15 on). The look-up takes a lock of the loader, whose
/// holder may wait for a thread that allocates, and it frees the loader's last message. So the
/// caller runs where no other thread can have the lock, and not inside the C library's `free`.
pub(crate) fn look_up() {
    bare_thread::look_up();
    let found = private_symbol(c"__pthread_get_minstack");
    LEAST_STACK.store((found as usize).max(NONE), Ordering::Relaxed);
}

fn stack_bytes(attributes: &libc::pthread_attr_t) -> usize {
    if LEAST_STACK.load(Ordering::Relaxed) == 0 && is_single_threaded() {
        look_up();
    }
    let least = match LEAST_STACK.load(Ordering::Relaxed) {
        0 | NONE => LIBRARY_BYTES,
        address => {
            // SAFETY: glibc defines this function with this type; it reads the attributes.
            unsafe { core::mem::transmute::<usize, LeastStack>(address)(attributes) }
        }
    };
    (least + STACK_BYTES).next_multiple_of(4096)
}

/// Starts the thread with `body`, detached; returns whether it was started.
#[inline(never)]
pub(super) fn create(body: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    // SAFETY: the attributes and both signal sets outlive the calls, only this thread uses
    // `BLOCKED` now (see there), and the entry point lives as long as the process (-z nodelete).
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        let attributes = attributes.assume_init_mut();
        let bytes = stack_bytes(attributes);
        libc::pthread_attr_setstacksize(attributes, bytes);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut every = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(every.as_mut_ptr());
        let before = (*BLOCKED.0.get()).as_mut_ptr();
        libc::pthread_sigmask(libc::SIG_BLOCK, every.as_ptr(), before);
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let result = libc::pthread_create(thread.as_mut_ptr(), attributes, body, null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut());
        libc::pthread_attr_destroy(attributes);
        result == 0
    }
}

/// Names the calling thread, and makes it ordinary.
pub(super) fn name() {
    // SAFETY: the name is NUL-terminated and has at most 16 bytes.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"quarry-reclaim".as_ptr()) };
    become_ordinary();
}

pub(super) fn begin() {
    name();
    privileges::begin();
    watch_process();
}

/// Lines of `/proc/self/status` (`fs/proc/array.c`, Linux 6.x), read without allocating. The file
/// describes the main thread, which stays listed until all other threads have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    /// The main thread has ended by `pthread_exit`.
    main_has_ended: bool,
    /// Number of threads; the main thread is always counted.
    threads: u32,
    /// The main thread has set `PR_SET_NO_NEW_PRIVS`.
    no_new_privileges: bool,
    /// A hash of the main thread's users and groups.
    identity: u64,
}

impl Status {
    fn read() -> Option<Self> {
        let mut status = Self::default();
        let _ = find_piece(c"/proc/self/status", b'\n', |line| {
            let (name, value) = from_utf8(line).ok()?.split_once(':')?;
            let value = value.trim_ascii();
            match name {
                "State" => status.main_has_ended = value.starts_with('Z'),
                "Uid" | "Gid" | "Groups" => {
                    for byte in value.bytes() {
                        // FNV-1a, with its prime for 64 bits.
                        status.identity =
                            (status.identity ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                    }
                }
                "Threads" => status.threads = value.parse().ok()?,
                // The last line that is needed. The file has it from Linux 4.10 on.
                "NoNewPrivs" => {
                    status.no_new_privileges = value == "1";
                    return Some(());
                }
                _ => {}
            }
            None
        });
        (status.threads > 0).then_some(status)
    }
}

/// A number for the users and groups of the main thread, which differs if they differ.
pub(super) fn identity_of_main() -> u64 {
    Status::read().map_or(0, |status| status.identity)
}

/// Gives up the rights that the main thread has given up; returns its [`identity_of_main`].
pub(super) fn follow_main() -> u64 {
    let status = Status::read();
    privileges::follow_main(status.is_some_and(|status| status.no_new_privileges));
    status.map_or(0, |status| status.identity)
}

/// Returns whether the kernel knows no other thread of the process. Reads a file of `/proc`.
pub(super) fn is_only_one() -> bool {
    own_stack::run(Status::read).is_some_and(|status| status.threads == 1)
}

pub(super) fn watch_process() {
    let status = Status::read();
    if status.is_some_and(|status| status.main_has_ended && status.threads == 2) {
        end_process();
    }
    privileges::follow_main(status.is_some_and(|status| status.no_new_privileges));
}

/// Runs the program's exit handlers on a thread with the usual stack size, which they may need, and
/// with the signal mask that the program had.
fn end_process() -> ! {
    // SAFETY: the entry point lives as long as the process. If no thread starts, exit runs here.
    unsafe {
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        if libc::pthread_create(thread.as_mut_ptr(), null(), exit, null_mut()) != 0 {
            libc::exit(0);
        }
    }
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        futex::wait(&NEVER, 0);
    }
}

extern "C" fn exit(_: *mut c_void) -> *mut c_void {
    // SAFETY: the creator of the background thread filled the set; that thread started this one.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, (*BLOCKED.0.get()).as_ptr(), null_mut());
        libc::exit(0)
    }
}
