//! Functions that only glibc has: whether the process has other threads, and the lock of the list
//! of open streams. All symbols are weak, so that the library loads without them.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;

/// The address to which the loader has bound this object's own use of a symbol, which must be
/// defined: the first definition in the program's search order. Costs a load, and takes no lock of
/// the loader. Lines of assembler may come first.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(any(miri, quarry_model))))]
#[doc(hidden)]
#[macro_export]
macro_rules! bound_address {
    ($symbol:literal $(, $first:expr)?) => {{
        let address: usize;
        // SAFETY: reads the entry of the global offset table that the assembler makes for the
        // symbol; the loader has filled it.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                $($first,)?
                concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address, options(nostack, preserves_flags, readonly, pure)
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                $($first,)?
                concat!("adrp {0}, :got:", $symbol),
                concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
                out(reg) address, options(nostack, preserves_flags, readonly, pure)
            );
        }
        address
    }};
}

/// The address of a symbol of the C library, or null where no object defines it.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(any(miri, quarry_model))))]
#[doc(hidden)]
#[macro_export]
macro_rules! weak_address {
    ($symbol:literal) => {
        $crate::bound_address!($symbol, concat!(".weak ", $symbol)) as *const u8
    };
}

/// Always null: without glibc no symbol is looked up.
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, quarry_model))
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! weak_address {
    ($symbol:literal) => {
        core::ptr::null::<u8>()
    };
}

pub(crate) use weak_address;

/// The first definition of a symbol that programs are not linked with; null without one. (A static
/// program that refers to `dlopen` or `dlmopen`, even weakly, gets a warning of the linker.)
#[must_use]
pub fn private_symbol(name: &CStr) -> *mut c_void {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let dlsym = weak_address!("dlsym");
    if dlsym.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the type is the C prototype, and the name is NUL-terminated.
    unsafe { transmute::<*const u8, Dlsym>(dlsym)(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Returns whether the calling thread is certainly the only one, so that no other thread holds a
/// lock of the C library. False where glibc is older than 2.32.
#[must_use]
pub fn is_single_threaded() -> bool {
    let flag = weak_address!("__libc_single_threaded");
    // SAFETY: glibc defines it as a `char` that lives as long as the process; it changes only while
    // the process has one thread, which is then the caller.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Returns the NUMA node of the running CPU: by the vDSO where that has `getcpu` (x86-64), else by
/// a system call. `None` where glibc is older than 2.29.
#[must_use]
pub fn running_node() -> Option<u32> {
    type GetCpu = extern "C" fn(*mut u32, *mut u32) -> i32;
    let function = weak_address!("getcpu");
    if function.is_null() {
        return None;
    }
    let (mut cpu, mut node) = (0, 0);
    // SAFETY: glibc declares the function with this type; both words are writable.
    let failed = unsafe { transmute::<*const u8, GetCpu>(function)(&raw mut cpu, &raw mut node) };
    (failed == 0).then_some(node)
}

fn call(function: *const u8) {
    if !function.is_null() {
        // SAFETY: glibc declares the three functions below as `void f(void)`, from 2.2 on.
        unsafe { transmute::<*const u8, extern "C" fn()>(function)() };
    }
}

/// Takes the recursive lock of the list of all streams. The caller must hold no lock of Quarry: a
/// thread that holds this lock may wait for a thread that allocates.
pub fn lock_streams() {
    call(weak_address!("_IO_list_lock"));
}

/// Releases the lock of [`lock_streams`], on the thread that took it.
pub fn unlock_streams() {
    call(weak_address!("_IO_list_unlock"));
}

/// Initialises the lock of [`lock_streams`] anew in the child of a fork. glibc does so, too, before
/// it calls the program's handlers.
pub fn reset_streams() {
    call(weak_address!("_IO_list_resetlock"));
}

/// A function that is called before or after a fork.
pub type ForkHandler = unsafe extern "C" fn();

/// Registers handlers of `fork` for the rest of the process's life, as `pthread_atfork` does. With
/// glibc this calls `__register_atfork` (Linux Standard Base), which `pthread_atfork` itself calls.
/// A shared object calls `pthread_atfork` through the procedure linkage table, which lies after all
/// text, and that one call would read 64 KiB of the file into memory.
///
/// # Safety
/// The handlers stay valid as long as the process, and may be called at any of its forks.
pub unsafe fn at_fork(before: ForkHandler, in_parent: ForkHandler, in_child: ForkHandler) {
    type Register =
        extern "C" fn(ForkHandler, ForkHandler, ForkHandler, *const core::ffi::c_void) -> i32;
    let register = weak_address!("__register_atfork");
    if register.is_null() {
        // SAFETY: the caller's promise is passed on.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    } else {
        // SAFETY: glibc declares the function with this type from 2.3.2 on; null as the object
        // means that no `dlclose` removes the handlers.
        unsafe {
            core::mem::transmute::<*const u8, Register>(register)(
                before,
                in_parent,
                in_child,
                core::ptr::null(),
            );
        }
    }
}

#[cfg(all(test, target_env = "gnu", not(any(miri, quarry_model))))]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_seen() {
        // The test harness may run this on a second thread.
        std::thread::spawn(|| assert!(!is_single_threaded(), "two threads at least"))
            .join()
            .expect("the thread does not panic");
    }

    #[test]
    fn streams_can_be_locked_twice() {
        lock_streams();
        lock_streams();
        unlock_streams();
        unlock_streams();
        // Another thread gets the lock, so it is free.
        std::thread::spawn(|| {
            lock_streams();
            unlock_streams();
        })
        .join()
        .expect("the thread does not panic");
    }
}
