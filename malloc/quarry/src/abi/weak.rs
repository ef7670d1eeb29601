//! The operators of C++ as weak symbols, for a program that contains Quarry.

use super::cannot_throw;
use core::ffi::c_void;
use core::mem::transmute;
use quarry_sys::weak_address;

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {function}"
    };
}
pub(crate) use jump;

/// Gives a function its name as a weak symbol, which jumps to it, and a second name that the
/// program cannot define.
macro_rules! weak {
    ($name:ident) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", stringify!($name), ", \"ax\", %progbits"),
            ".p2align 4",
            concat!(".weak ", stringify!($name)),
            concat!(".type ", stringify!($name), ", %function"),
            concat!(".globl quarry", stringify!($name)),
            concat!(".hidden quarry", stringify!($name)),
            concat!(stringify!($name), ":"),
            concat!("quarry", stringify!($name), ":"),
            ".cfi_startproc",
            $crate::abi::weak::jump!(),
            ".cfi_endproc",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            function = sym $name,
        );
    };
}
pub(crate) use weak;

/// The new-handler of the program, or null.
pub(crate) extern "C" fn new_handler() -> *mut c_void {
    let get = weak_address!("_ZSt15get_new_handlerv");
    if get.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: `std::get_new_handler` has this type; it only reads a word.
    unsafe { transmute::<*const u8, extern "C" fn() -> *mut c_void>(get)() }
}

/// The function that ends an `operator new` without memory: it throws `std::bad_alloc`.
pub(crate) extern "C" fn thrower() -> *mut c_void {
    let throw = weak_address!("_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        cannot_throw();
    }
    throw.cast_mut().cast()
}

/// Defines a function that runs the new-handler and starts the operator `$entry` anew with the same
/// arguments; without a handler it ends the operator. An exception of the handler passes through
/// its frame only, which is no Rust code.
macro_rules! after_handler {
    ($name:ident => $entry:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::abi::arguments::keep_arguments!(),
                "call {handler}",
                "test rax, rax",
                "jz 2f",
                "call rax",
                $crate::abi::arguments::restore_arguments!(),
                "jmp {entry}",
                "2:",
                ".cfi_adjust_cfa_offset 24",
                "call {thrower}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp rax",
                ".cfi_endproc",
                handler = sym $crate::abi::weak::new_handler,
                thrower = sym $crate::abi::weak::thrower,
                entry = sym $entry,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $crate::abi::arguments::keep_arguments!(),
                "bl {handler}",
                "cbz x0, 2f",
                "blr x0",
                $crate::abi::arguments::restore_arguments!(),
                "b {entry}",
                "2:",
                "bl {thrower}",
                "mov x9, x0",
                "ldp x29, x30, [sp], #48",
                ".cfi_restore 29",
                ".cfi_restore 30",
                ".cfi_def_cfa_offset 0",
                "br x9",
                ".cfi_endproc",
                handler = sym $crate::abi::weak::new_handler,
                thrower = sym $crate::abi::weak::thrower,
                entry = sym $entry,
            )
        }
    };
}
pub(crate) use after_handler;
