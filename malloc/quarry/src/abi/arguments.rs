//! The arguments of an operator of C++ around a call, after which the operator jumps elsewhere.

/// The text that keeps an operator's arguments on the stack, aligned for a call.
#[cfg(target_arch = "x86_64")]
macro_rules! keep_arguments {
    () => {
        "push rdi
        .cfi_adjust_cfa_offset 8
        push rsi
        .cfi_adjust_cfa_offset 8
        push rdx
        .cfi_adjust_cfa_offset 8"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! keep_arguments {
    () => {
        "stp x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset 29, -48
        .cfi_offset 30, -40
        stp x0, x1, [sp, #16]
        str x2, [sp, #32]"
    };
}
pub(crate) use keep_arguments;

/// The text that takes them from there.
#[cfg(target_arch = "x86_64")]
macro_rules! restore_arguments {
    () => {
        "pop rdx
        .cfi_adjust_cfa_offset -8
        pop rsi
        .cfi_adjust_cfa_offset -8
        pop rdi
        .cfi_adjust_cfa_offset -8"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! restore_arguments {
    () => {
        "ldr x2, [sp, #32]
        ldp x0, x1, [sp, #16]
        ldp x29, x30, [sp], #48"
    };
}
pub(crate) use restore_arguments;
