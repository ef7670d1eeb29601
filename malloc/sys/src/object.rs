//! The program or shared object that contains this code.

use crate::glibc::{private_symbol, weak_address};
use crate::primitive::{AtomicBool, Ordering};
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::{MaybeUninit, transmute};

/// An entry of the dynamic section (`Elf64_Dyn`).
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const DT_NULL: i64 = 0;
/// `DT_DEBUG`: the loader's list of loaded objects, for debuggers. Only programs have this entry.
const DT_DEBUG: i64 = 21;
const DT_FLAGS_1: i64 = 0x6fff_fffb;
/// The flag of objects that were linked with `-z nodelete`.
const DF_1_NODELETE: u64 = 8;

/// Keeps the shared object that contains this code loaded until the process ends, even if the
/// program calls `dlclose`. Does nothing if the code is part of the program, or when repeated.
///
/// Takes the loader's recursive lock. A thread that runs an object's constructors holds that lock,
/// and may wait for a lock of Quarry: so the caller must hold none of these.
pub fn pin() {
    static IS_PINNED: AtomicBool = AtomicBool::new(false);
    if can_be_closed() && !IS_PINNED.swap(true, Ordering::Relaxed) {
        open_for_good();
    }
}

fn can_be_closed() -> bool {
    let mut entry: *const Dynamic = weak_address!("_DYNAMIC").cast();
    if entry.is_null() {
        return false;
    }
    // SAFETY: the linker defines this symbol in each dynamic object; DT_NULL ends the section.
    unsafe {
        while (*entry).tag != DT_NULL {
            match (*entry).tag {
                DT_DEBUG => return false,
                DT_FLAGS_1 if (*entry).value & DF_1_NODELETE != 0 => return false,
                _ => entry = entry.add(1),
            }
        }
    }
    true
}

/// The caller's namespace (`__LM_ID_CALLER`, glibc 2.3.4 to 2.42), as glibc's `dlopen` passes it.
const LM_ID_CALLER: c_long = -2;

/// Opens the object once more and never closes it. Calls `dlmopen`, because `libquarry.so` itself
/// defines `dlopen`. A C library without `dlmopen` unloads no objects. The loader's malloc is not
/// in this object: `libquarry.so`, which has one, is linked with `-z nodelete` and never gets here.
fn open_for_good() {
    type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
    type Dlmopen = unsafe extern "C" fn(c_long, *const c_char, c_int) -> *mut c_void;
    let (dladdr, dlmopen) = (weak_address!("dladdr"), private_symbol(c"dlmopen"));
    if dladdr.is_null() || dlmopen.is_null() {
        return;
    }
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the types are the C prototypes of these functions. `dladdr` accepts any address and
    // fills `info` where it finds an object. The name in it is the loader's name of a loaded
    // object, so the loader looks for no file.
    unsafe {
        if transmute::<*const u8, Dladdr>(dladdr)(pin as *const c_void, info.as_mut_ptr()) != 0 {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            let name = info.assume_init().dli_fname;
            transmute::<*mut c_void, Dlmopen>(dlmopen)(LM_ID_CALLER, name, flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_never_closed() {
        assert!(!can_be_closed());
        pin();
        pin();
    }
}
