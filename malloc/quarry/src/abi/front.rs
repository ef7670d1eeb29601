//! Finds out who stands in front of this library: whether the program's `malloc` is another one,
//! and whether others have replaced functions on which C++ builds its operators.

use crate::abi::libc_malloc::Next;
use crate::abi::loader::{dladdr, dlsym};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr;
use quarry::process::{STACK, ensure_ready};
use quarry_sys::bound_address;
use quarry_sys::errno::KeepErrno;
use quarry_sys::primitive::{AtomicBool, AtomicUsize, Ordering};

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
            dladdr(address, info.as_mut_ptr())
        } else {
            let dladdr1 = transmute::<*mut c_void, Dladdr1>(dladdr1);
            dladdr1(address, info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT)
        };
        (found != 0).then(|| (info.assume_init(), entry.cast_const().cast()))
    }
}

/// The object that defines the function at `address`. `None` if this library does, or if the symbol
/// there is only a reference: the PLT entry of a program at a fixed address.
fn definer(address: *const c_void) -> Option<libc::Dl_info> {
    let (own, _) = look_up(definer as *const c_void)?;
    let (found, entry) = look_up(address)?;
    // SAFETY: the entry lies in the symbol table of an object that stays loaded.
    let is_reference = !entry.is_null() && unsafe { (*entry).section } == UNDEFINED;
    (found.dli_fbase != own.dli_fbase && !is_reference).then_some(found)
}

/// The name of the file that contains `address`, as the loader has it.
#[cfg(feature = "override")]
pub(crate) fn file_of(address: *const c_void) -> Option<&'static CStr> {
    let (info, _) = look_up(address)?;
    // SAFETY: the loader keeps an object's name as long as the object is loaded.
    Some(unsafe { CStr::from_ptr(info.dli_fname) })
}

/// The first definition of a symbol in the program's search order.
pub(crate) fn found(name: &CStr) -> *mut c_void {
    // SAFETY: the name is NUL-terminated; dlsym has no other precondition.
    unsafe { dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// The object that defines the program's `malloc`, unless this library does.
pub(crate) fn malloc_of_another() -> Option<Owner> {
    let found = definer(found(c"malloc"))?;
    // SAFETY: the loader keeps an object's name as long as the object is loaded. glibc sets the
    // program's name, which is also the loader's name for it, before any constructor runs.
    let (file, program) =
        unsafe { (CStr::from_ptr(found.dli_fname), CStr::from_ptr(program_invocation_name)) };
    Some(Owner { file, is_program: file == program })
}

/// Returns whether another object defines a function on which the operators of C++ (in their
/// default forms) or this library's less usual relatives of `malloc` are built. Then these must
/// call that function: a program may replace some operators only, and a tool only `malloc`.
///
/// Opens the fast paths of the operators if there is no such object. Looks again once the binding
/// of `malloc` has changed: some profilers change it while the program runs.
#[inline(never)]
pub(crate) fn is_any_replaced() -> bool {
    if SEEN.load(Ordering::Acquire) != bound_address!("malloc") {
        look();
    }
    IS_REPLACED.load(Ordering::Relaxed)
}

/// Returns whether the program that contains Quarry has operators of its own in place of Quarry's.
#[cfg(feature = "override")]
fn has_own_operators() -> bool {
    bound_address!("_Znwm") != bound_address!("quarry_Znwm")
        || bound_address!("_Znam") != bound_address!("quarry_Znam")
        || bound_address!("_ZnwmSt11align_val_t") != bound_address!("quarry_ZnwmSt11align_val_t")
        || bound_address!("_ZnamSt11align_val_t") != bound_address!("quarry_ZnamSt11align_val_t")
        || bound_address!("_ZdlPv") != bound_address!("quarry_ZdlPv")
        || bound_address!("_ZdaPv") != bound_address!("quarry_ZdaPv")
        || bound_address!("_ZdlPvSt11align_val_t") != bound_address!("quarry_ZdlPvSt11align_val_t")
        || bound_address!("_ZdaPvSt11align_val_t") != bound_address!("quarry_ZdaPvSt11align_val_t")
}

/// To what `malloc` was bound at the last look (0 before the first), and the result.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static IS_REPLACED: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn look() {
    let _errno = KeepErrno::new();
    ensure_ready();
    // Most linkers define these symbols as the first byte of an object and the end of it. Where the
    // second one is nearer, `definer` finds out the same, in more time.
    let own = bound_address!("__ehdr_start")..bound_address!("_end");
    let bound = [
        bound_address!("malloc"),
        bound_address!("free"),
        bound_address!("aligned_alloc"),
        bound_address!("_Znwm"),
        bound_address!("_Znam"),
        bound_address!("_ZnwmSt11align_val_t"),
        bound_address!("_ZnamSt11align_val_t"),
        bound_address!("_ZdlPv"),
        bound_address!("_ZdaPv"),
        bound_address!("_ZdlPvSt11align_val_t"),
        bound_address!("_ZdaPvSt11align_val_t"),
    ];
    let is_anothers =
        |address: &usize| !own.contains(address) && definer(*address as *const c_void).is_some();
    let is_replaced = bound.iter().any(is_anothers);
    #[cfg(feature = "override")]
    let is_replaced = is_replaced || has_own_operators();
    IS_REPLACED.store(is_replaced, Ordering::Relaxed);
    STACK.open_operators(!is_replaced);
    SEEN.store(bound[0], Ordering::Release);
}
