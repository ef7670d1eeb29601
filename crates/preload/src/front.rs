//! Whether the program's `malloc` is ours at all.

use crate::libc_malloc::Next;
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr;

/// Start of a symbol in an object's table (`Elf64_Sym`).
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
}

/// `SHN_UNDEF`: the object only refers to the symbol.
const UNDEFINED: u16 = 0;
/// Of `dladdr1` (glibc 2.3.3).
const RTLD_DL_SYMENT: c_int = 1;

type Dladdr1 =
    unsafe extern "C" fn(*const c_void, *mut libc::Dl_info, *mut *mut c_void, c_int) -> c_int;

/// Where an object lies that has `address`, and its entry for the symbol there if that is known.
fn object_of(address: *const c_void) -> Option<(*mut c_void, Option<*const Symbol>)> {
    static DLADDR1: Next = Next::new(c"dladdr1");
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry = ptr::null_mut();
    let dladdr1 = DLADDR1.address();
    // SAFETY: both functions accept any address and fill `info` where they find an object, which
    // is otherwise not read; zeros are a valid Dl_info. glibc declares `dladdr1` so, and gives with
    // this flag a pointer to the symbol or leaves null.
    unsafe {
        let found = if dladdr1.is_null() {
            libc::dladdr(address, info.as_mut_ptr())
        } else {
            let dladdr1 = transmute::<*mut c_void, Dladdr1>(dladdr1);
            dladdr1(address, info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT)
        };
        let entry = (!entry.is_null()).then(|| entry.cast_const().cast());
        (found != 0).then(|| (info.assume_init().dli_fbase, entry))
    }
}

/// The object that defines the `malloc` which the program calls; `None` where that is this one.
/// A program at a fixed address may stand for a `malloc` that it only refers to.
pub(crate) fn malloc_of_another() -> Option<*const c_void> {
    // SAFETY: the name is NUL-terminated; dlsym has no other precondition.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let (own, _) = object_of(malloc_of_another as *const c_void)?;
    let (object, entry) = object_of(malloc)?;
    // SAFETY: the entry lies in the symbol table of an object that stays loaded: the program, or
    // what the loader loaded with it.
    let is_reference = entry.is_some_and(|entry| unsafe { (*entry).section } == UNDEFINED);
    (object != own && !is_reference).then_some(object.cast_const())
}
