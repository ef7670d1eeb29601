//! See the head of the module.

use crate::glibc::private_symbol;
use crate::known::Known;
use crate::percpu::begin_bare_thread;
use crate::primitive::{AtomicU32, AtomicUsize, Ordering, task, timer};
use crate::system_call::{map, process_id, protect, unmap};
use core::arch::global_asm;
use core::ffi::c_void;
use core::ptr::null_mut;

/// Bytes of the stack, without the page below it that no access is allowed to.
const STACK_BYTES: usize = 64 << 10;
const GUARD_BYTES: usize = 4096;
/// Offsets in the thread control block (`tcbhead_t`, glibc 2.3.3 to 2.42): its own address, twice;
/// and two random words that all threads share, which check stacks and encode pointers.
const TCB: usize = 0;
const SELF: usize = 0x10;
const SHARED: [usize; 2] = [0x28, 0x30];
type AllocateTls = unsafe extern "C" fn(*mut c_void) -> *mut u8;

/// Stands for the address of a function that the loader does not have.
const NONE: u64 = 1;
/// The thread control block, and the end of the stack; 0 before the first thread.
static BLOCK: AtomicUsize = AtomicUsize::new(0);
static STACK_END: AtomicUsize = AtomicUsize::new(0);
/// The kernel's number of the running thread; the kernel stores 0 when the thread has ended.
static RUNNING: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU32 = AtomicU32::new(0);

// clone(flags, stack, number, number, tls); the thread calls `body`, and then ends. For debuggers
// the thread's call stack ends here.
global_asm!(
    ".pushsection .text.quarry_bare_clone, \"ax\", @progbits",
    ".hidden quarry_bare_clone",
    ".globl quarry_bare_clone",
    ".type quarry_bare_clone, @function",
    "quarry_bare_clone:",
    ".cfi_startproc",
    "mov eax, {clone}",
    "mov r10, rdx",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    "2:",
    ".cfi_undefined rip",
    "xor ebp, ebp",
    "call r9",
    "xor edi, edi",
    "mov eax, {exit}",
    "syscall",
    "ud2",
    ".cfi_endproc",
    ".size quarry_bare_clone, . - quarry_bare_clone",
    ".popsection",
    clone = const libc::SYS_clone,
    exit = const libc::SYS_exit,
);

unsafe extern "C" {
    fn quarry_bare_clone(
        flags: i32,
        stack: usize,
        number: *const u32,
        unused: usize,
        block: usize,
        body: extern "C" fn(),
    ) -> isize;
}

/// The function that the running thread runs.
static BODY: AtomicUsize = AtomicUsize::new(0);

extern "C" fn body() {
    begin_bare_thread();
    // SAFETY: `start` has stored a function of this type.
    let body = unsafe { core::mem::transmute::<usize, fn()>(BODY.load(Ordering::Relaxed)) };
    body();
}

/// Looks up what `start` needs. If Quarry is the C library's `malloc`, this must not be called
/// inside `free`: `dlsym` frees the message of its last error, and forgets it only afterwards.
pub fn look_up() {
    allocate_tls();
}

/// The loader's function that makes thread-local storage, or [`NONE`].
fn allocate_tls() -> u64 {
    static ADDRESS: Known = Known::new();
    ADDRESS.get(|| (private_symbol(c"_dl_allocate_tls") as u64).max(NONE))
}

/// Makes the storage and the stack at the first call. The caller is the only thread of the process
/// and holds no lock, because the loader allocates.
fn prepare() -> bool {
    if BLOCK.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let found = allocate_tls();
    if found == NONE {
        return false;
    }
    // SAFETY: glibc defines the function with this type; it returns a new thread control block
    // after new storage, or null. The kernel chooses the stack's place.
    unsafe {
        let (access, bytes) = (libc::PROT_READ | libc::PROT_WRITE, GUARD_BYTES + STACK_BYTES);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let Ok(stack) = map(null_mut(), bytes, access, flags, -1) else {
            return false;
        };
        let _ = protect(stack.as_ptr(), GUARD_BYTES, libc::PROT_NONE);
        let block = core::mem::transmute::<u64, AllocateTls>(found)(null_mut());
        if block.is_null() {
            unmap(stack.as_ptr(), bytes);
            return false;
        }
        for offset in [TCB, SELF] {
            block.add(offset).cast::<usize>().write(block.addr());
        }
        for offset in SHARED {
            let own = task::current() + offset;
            block.add(offset).cast::<usize>().write((own as *const usize).read());
        }
        STACK_END.store(stack.as_ptr().addr() + bytes, Ordering::Relaxed);
        BLOCK.store(block.addr(), Ordering::Relaxed);
    }
    true
}

/// Starts the thread, unless it runs; returns whether it runs. It blocks every signal, and ends
/// after `body`. The caller is the only other thread of the process and holds no lock.
pub fn start(body: fn()) -> bool {
    if is_running() {
        return true;
    }
    if !prepare() {
        return false;
    }
    BODY.store(body as usize, Ordering::Relaxed);
    let (every, mut before) = (u64::MAX, 0u64);
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let set_mask = |mask: *const u64, before: *mut u64| {
        let (call, how) = (libc::SYS_rt_sigprocmask, libc::SIG_SETMASK);
        // SAFETY: the kernel reads one mask and writes the other, of eight bytes, if not null.
        unsafe { libc::syscall(call, how, mask, before, size_of::<u64>()) };
    };
    let (stack, block) = (STACK_END.load(Ordering::Relaxed), BLOCK.load(Ordering::Relaxed));
    task::set_beside(block);
    set_mask(&raw const every, &raw mut before);
    // SAFETY: no other thread uses the stack and the storage, because `is_running` was false; both
    // live as long as the process, as does the word for the number.
    let number = unsafe { quarry_bare_clone(flags, stack, RUNNING.as_ptr(), 0, block, self::body) };
    set_mask(&raw const before, null_mut());
    if number < 0 {
        task::set_beside(0);
        return false;
    }
    LAST.store(number as u32, Ordering::Relaxed);
    true
}

/// Returns whether the thread may still run code. The program's thread calls this; from the first
/// `false` on it is alone again.
#[must_use]
pub fn is_running() -> bool {
    let runs = RUNNING.load(Ordering::Acquire) != 0;
    if !runs {
        task::set_beside(0);
    }
    runs
}

/// Waits until the kernel does not count the thread any more, which its `body` is about to end;
/// returns false after that many naps of 50 us.
#[must_use]
pub fn await_end(most_naps: u32) -> bool {
    let (process, last) = (process_id(), LAST.load(Ordering::Relaxed));
    for _ in 0..most_naps {
        // The kernel clears the word a moment before it removes the thread from the process.
        // SAFETY: signal 0 is never sent.
        if !is_running() && unsafe { libc::syscall(libc::SYS_tgkill, process, last, 0) } != 0 {
            return true;
        }
        timer::nap();
    }
    false
}

/// In the child of a fork, which does not have the thread.
pub fn forget() {
    if RUNNING.load(Ordering::Relaxed) != 0 {
        RUNNING.store(0, Ordering::Relaxed);
    }
    task::set_beside(0);
}
