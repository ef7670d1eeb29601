//! Checks whether the program's `malloc` is the one of this library.

use crate::libc_malloc::Next;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr;

/// The first fields of a symbol in a shared object's symbol table (`Elf64_Sym`).
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
}

/// `SHN_UNDEF`: the shared object refers to the symbol, and does not define it.
const UNDEFINED: u16 = 0;
/// A flag of `dladdr1`: also find the symbol (glibc 2.3.3).
const RTLD_DL_SYMENT: c_int = 1;

type Dladdr1 =
    unsafe extern "C" fn(*const c_void, *mut libc::Dl_info, *mut *mut c_void, c_int) -> c_int;

unsafe extern "C" {
    /// The name by which the program was started; glibc sets it.
    static program_invocation_name: *const c_char;
}

/// The program or shared object that defines a function.
pub(crate) struct Owner {
    /// The name of its file, as the loader has it.
    pub(crate) file: &'static CStr,
    /// True if it is the program.
    pub(crate) is_program: bool,
}

/// Asks the loader which object contains `address`, and for the symbol there (null without one).
fn look_up(address: *const c_void) -> Option<(libc::Dl_info, *const Symbol)> {
    static DLADDR1: Next = Next::new(c"dladdr1");
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry = ptr::null_mut();
    let dladdr1 = DLADDR1.address();
    // SAFETY: both functions accept any address and fill `info` if they find an object, and `info`
    // is read only then; zeros are a valid Dl_info. glibc declares `dladdr1` with this type, and
    // with this flag sets the pointer to the symbol or leaves it null.
    unsafe {
        let found = if dladdr1.is_null() {
            libc::dladdr(address, info.as_mut_ptr())
        } else {
            let dladdr1 = transmute::<*mut c_void, Dladdr1>(dladdr1);
            dladdr1(address, info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT)
        };
        (found != 0).then(|| (info.assume_init(), entry.cast_const().cast()))
    }
}

/// The object that defines the program's `malloc`. `None` if this library does, or if the symbol is
/// only a reference to `malloc`: the PLT entry of a program at a fixed address.
pub(crate) fn malloc_of_another() -> Option<Owner> {
    // SAFETY: the name is NUL-terminated; dlsym has no other precondition.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let (own, _) = look_up(malloc_of_another as *const c_void)?;
    let (found, entry) = look_up(malloc)?;
    // SAFETY: the entry lies in the symbol table of an object that stays loaded.
    let is_reference = !entry.is_null() && unsafe { (*entry).section } == UNDEFINED;
    if found.dli_fbase == own.dli_fbase || is_reference {
        return None;
    }
    // SAFETY: the loader keeps an object's name as long as the object is loaded. glibc sets the
    // program's name, which is also the loader's name for it, before any constructor runs.
    let (file, program) =
        unsafe { (CStr::from_ptr(found.dli_fname), CStr::from_ptr(program_invocation_name)) };
    Some(Owner { file, is_program: file == program })
}
