//! C++ operators new and delete in every form of C++17, by their mangled names (Itanium ABI).
//!
//! An operator that has no memory jumps, as a tail call, to the definition of the C++ library,
//! which calls malloc again, runs the new-handler and throws `std::bad_alloc`. The jump leaves no
//! frame of this library on the stack, so no exception ever passes through Rust.
//!
//! A program may replace some operators only: the others must call these in the order of the
//! standard (C++17, 21.6.2). In the same way a tool that defines `malloc` must see the requests of
//! C++. So if another object stands in front of this library with any of these functions
//! ([`is_any_replaced`]), all operators here do nothing but jump to those of the C++ library.
//!
//! In a program that contains Quarry (`override`) the operators are weak symbols: one that the
//! program defines itself takes their place. Where the C++ library's definitions are nowhere, as in
//! a static program, the operators run the new-handler and throw by functions of that library.
//!
//! For a size above `PTRDIFF_MAX` the jump passes `PTRDIFF_MAX`, which malloc refuses as well: the
//! aligned forms of libstdc++ 12 would round the largest sizes up to 0, and succeed.

use crate::abi::arguments::{keep_arguments, restore_arguments};
use crate::abi::cannot_throw;
#[cfg(not(feature = "override"))]
use crate::abi::fast_path::new_or_null;
use crate::abi::fast_path::{
    fast_delete, fast_delete_unsized, fast_malloc, free_within, new_refused,
};
#[cfg(not(feature = "override"))]
use crate::abi::front::found;
use crate::abi::front::is_any_replaced;
use crate::abi::libc_malloc::next_or_in;
use crate::abi::malloc::free_of_size;
use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use quarry::process::{self, STACK};
use quarry_mm::stack::{Entry, MIN_ALIGN, Request};
#[cfg(feature = "override")]
use quarry_sys::bound_address;
use quarry_sys::primitive::{AtomicPtr, Ordering};

/// Lists functions: each with the one on which its default definition is built, or with itself.
macro_rules! forms {
    ($($form:ident / $base:ident;)*) => {
        #[expect(non_camel_case_types, reason = "these are the names of symbols")]
        #[derive(Clone, Copy)]
        enum Form {
            $($form),*
        }

        const COUNT: usize = [$(Form::$form),*].len();
        static BASES: [Form; COUNT] = [$(Form::$base),*];
        /// All names, each with a NUL after it: pointers to them would take relocations.
        static NAMES: &[u8] = concat!($(stringify!($form), "\0"),*).as_bytes();
        /// The C++ library's definitions, or what stands in for them; null where not known.
        static OF_LIBRARY: [AtomicPtr<c_void>; COUNT] =
            [const { AtomicPtr::new(null_mut()) }; COUNT];
    };
}

forms! {
    malloc / malloc;
    _Znwm / malloc;
    _Znam / _Znwm;
    _ZnwmRKSt9nothrow_t / _Znwm;
    _ZnamRKSt9nothrow_t / _Znam;
    _ZnwmSt11align_val_t / _ZnwmSt11align_val_t;
    _ZnamSt11align_val_t / _ZnwmSt11align_val_t;
    _ZnwmSt11align_val_tRKSt9nothrow_t / _ZnwmSt11align_val_t;
    _ZnamSt11align_val_tRKSt9nothrow_t / _ZnamSt11align_val_t;
    free / free;
    _ZdlPv / free;
    _ZdaPv / _ZdlPv;
    _ZdlPvm / _ZdlPv;
    _ZdaPvm / _ZdaPv;
    _ZdlPvRKSt9nothrow_t / _ZdlPv;
    _ZdaPvRKSt9nothrow_t / _ZdaPv;
    _ZdlPvSt11align_val_t / free;
    _ZdaPvSt11align_val_t / _ZdlPvSt11align_val_t;
    _ZdlPvmSt11align_val_t / _ZdlPvSt11align_val_t;
    _ZdaPvmSt11align_val_t / _ZdaPvSt11align_val_t;
    _ZdlPvSt11align_val_tRKSt9nothrow_t / _ZdlPvSt11align_val_t;
    _ZdaPvSt11align_val_tRKSt9nothrow_t / _ZdaPvSt11align_val_t;
}

impl Form {
    #[inline(never)]
    fn name(self) -> &'static CStr {
        let mut name = NAMES.as_ptr();
        // SAFETY: each of the names ends with a NUL.
        unsafe {
            for _ in 0..self as usize {
                while *name != 0 {
                    name = name.add(1);
                }
                name = name.add(1);
            }
            CStr::from_ptr(name.cast())
        }
    }

    /// The C++ library's definition of this form, or null. If a program in C opens a plugin in C++,
    /// the C++ library is only in the plugin's own search order; so libraries are searched last.
    #[inline(never)]
    fn of_library(self) -> *mut c_void {
        const LIBRARIES: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];
        let known = &OF_LIBRARY[self as usize];
        match known.load(Ordering::Relaxed) {
            address if !address.is_null() => address,
            _ => next_or_in(known, self.name(), &LIBRARIES),
        }
    }

    /// The first definition in the program's search order.
    #[cfg(not(feature = "override"))]
    fn first(self) -> *mut c_void {
        found(self.name())
    }

    /// The same in a program that contains Quarry, which may have no loader: of those on which
    /// others are built.
    #[cfg(feature = "override")]
    fn first(self) -> *mut c_void {
        let address = match self {
            Self::malloc => bound_address!("malloc"),
            Self::free => bound_address!("free"),
            Self::_Znwm => bound_address!("_Znwm"),
            Self::_Znam => bound_address!("_Znam"),
            Self::_ZnamSt11align_val_t => bound_address!("_ZnamSt11align_val_t"),
            Self::_ZdlPv => bound_address!("_ZdlPv"),
            Self::_ZdaPv => bound_address!("_ZdaPv"),
            Self::_ZdlPvSt11align_val_t => bound_address!("_ZdlPvSt11align_val_t"),
            Self::_ZdaPvSt11align_val_t => bound_address!("_ZdaPvSt11align_val_t"),
            _ => 0,
        };
        address as *mut c_void
    }

    /// The function that serves instead of the one here, if another object has replaced a
    /// part: the C++ library's definition, else the function on which that would be built.
    fn stand_in(self) -> *mut c_void {
        let mut address = self.of_library();
        if address.is_null() {
            address = match self {
                // `aligned_alloc` takes its arguments in another order.
                Self::_ZnwmSt11align_val_t => new_aligned as *mut c_void,
                _ => BASES[self as usize].first(),
            };
            // The loader allocates in a search, which a tool in front would see each time.
            OF_LIBRARY[self as usize].store(address, Ordering::Relaxed);
        }
        address
    }
}

/// `operator new` after the fast path has refused; null if there is no memory, or if another object
/// has to serve.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn new_slow(size: usize) -> *mut c_void {
    if is_any_replaced() {
        return null_mut();
    }
    if let Some(object) = process::alloc_at_hand(size) {
        return object.as_ptr().cast();
    }
    process::alloc_on_process(Request::of(size)).map_or(null_mut(), |object| object.as_ptr().cast())
}

extern "C" fn new_aligned_or_null(size: usize, align: usize) -> *mut c_void {
    if is_any_replaced() { null_mut() } else { new_aligned(size, align) }
}

extern "C" fn new_aligned(size: usize, align: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return null_mut();
    }
    process::alloc(Request::of(size).aligned(align))
        .map_or(null_mut(), |object| object.as_ptr().cast())
}

/// The function that serves after the one here; with `override`, null if there is none.
#[inline(never)]
fn next_definition(form: Form) -> *mut c_void {
    if is_any_replaced() {
        return form.stand_in();
    }
    let address = form.of_library();
    if address.is_null() && !cfg!(feature = "override") {
        cannot_throw();
    }
    address
}

/// Defines a function that returns `serve(size, align)`. If that is null, the function jumps to the
/// operator's next definition, with the same arguments but a size of at most `PTRDIFF_MAX`.
macro_rules! or_next {
    ($(#[$attribute:meta])* $name:ident / $form:ident => $serve:ident) => {
        extern "C" fn next() -> *mut c_void {
            let address = next_definition(Form::$form);
            #[cfg(feature = "override")]
            let address = if address.is_null() { again as *mut c_void } else { address };
            address
        }
        #[cfg(feature = "override")]
        crate::abi::weak::after_handler! { again => $name }

        #[cfg(target_arch = "x86_64")]
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name(size: usize, align: usize) -> *mut c_void {
            core::arch::naked_asm!(
                ".cfi_startproc",
                keep_arguments!(),
                "call {serve}",
                "test rax, rax",
                "jz 2f",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                "2:",
                ".cfi_adjust_cfa_offset 24",
                "call {next}",
                restore_arguments!(),
                "mov rcx, 0x7fffffffffffffff",
                "cmp rdi, rcx",
                "cmova rdi, rcx",
                "jmp rax",
                ".cfi_endproc",
                serve = sym $serve,
                next = sym next,
            )
        }

        #[cfg(target_arch = "aarch64")]
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name(size: usize, align: usize) -> *mut c_void {
            core::arch::naked_asm!(
                ".cfi_startproc",
                keep_arguments!(),
                "bl {serve}",
                "cbz x0, 2f",
                "ldp x29, x30, [sp], #48",
                "ret",
                "2:",
                "bl {next}",
                "mov x9, x0",
                restore_arguments!(),
                "mov x10, #0x7fffffffffffffff",
                "cmp x0, x10",
                "csel x0, x10, x0, hi",
                "br x9",
                ".cfi_endproc",
                serve = sym $serve,
                next = sym next,
            )
        }
    };
}

/// Defines the operators that C++ programs call most: the fast path, without a stack frame.
macro_rules! operator_new_fast {
    ($($name:ident)*) => {
        $(
            #[expect(non_snake_case, reason = "the name of a symbol")]
            mod $name {
                use super::*;
                or_next! { refused / $name => new_refused }
                fast_malloc! {
                    /// A C++ operator new; see the head of this file.
                    #[cfg_attr(not(feature = "override"), unsafe(no_mangle))]
                    $name, refused, new_end
                }
                #[cfg(feature = "override")]
                crate::abi::weak::weak! { $name }
            }
        )*
    };
}

operator_new_fast! { _Znwm _Znam }

/// Defines the other operators.
macro_rules! operator_new {
    ($($name:ident => $serve:ident;)*) => {
        $(
            #[expect(non_snake_case, reason = "the name of a symbol")]
            mod $name {
                use super::*;
                or_next! {
                    /// A C++ operator new; see the head of this file.
                    #[cfg_attr(not(feature = "override"), unsafe(no_mangle))]
                    $name / $name => $serve
                }
                #[cfg(feature = "override")]
                crate::abi::weak::weak! { $name }
            }
        )*
    };
}

operator_new! {
    _ZnwmSt11align_val_t => new_aligned_or_null;
    _ZnamSt11align_val_t => new_aligned_or_null;
}

// In a program that contains Quarry those of the C++ library serve: they call the others, and catch
// what a new-handler throws.
#[cfg(not(feature = "override"))]
operator_new! {
    _ZnwmRKSt9nothrow_t => new_or_null;
    _ZnamRKSt9nothrow_t => new_or_null;
    _ZnwmSt11align_val_tRKSt9nothrow_t => new_aligned_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t => new_aligned_or_null;
}

/// An operator delete after the fast path has refused: calls the function that serves in its place,
/// if there is one, with all arguments that such an operator may have.
///
/// # Safety
/// Same as `free`; `size` and `align` are the arguments of this form, where it has any.
#[cold]
#[inline(never)]
unsafe fn delete_slow(pointer: *mut c_void, size: usize, align: usize, form: Form) {
    type Delete = unsafe extern "C" fn(*mut c_void, usize, usize);
    // SAFETY: `free` or an operator delete, which ignores further arguments; the rest is the
    // caller's promise.
    unsafe {
        if is_any_replaced() {
            return transmute::<*mut c_void, Delete>(form.stand_in())(pointer, size, align);
        }
        match form {
            Form::_ZdlPvm | Form::_ZdaPvm => {
                free_of_size(Entry::Delete, pointer, size, MIN_ALIGN);
            }
            Form::_ZdlPvmSt11align_val_t | Form::_ZdaPvmSt11align_val_t => {
                free_of_size(Entry::Delete, pointer, size, align);
            }
            _ => free_within(pointer),
        }
    }
}

/// Defines operators delete that begin with the fast path of `free`.
macro_rules! operator_delete_fast {
    ($($define:ident $name:ident;)*) => {
        $(
            #[expect(non_snake_case, reason = "the name of a symbol")]
            mod $name {
                use super::*;
                unsafe extern "C" fn slow(pointer: *mut c_void, size: usize) {
                    // SAFETY: the caller's promise is passed on.
                    unsafe { delete_slow(pointer, size, 0, Form::$name) };
                }
                $define! {
                    /// A C++ operator delete.
                    #[cfg_attr(not(feature = "override"), unsafe(no_mangle))]
                    $name, slow
                }
                #[cfg(feature = "override")]
                crate::abi::weak::weak! { $name }
            }
        )*
    };
}

operator_delete_fast! {
    fast_delete_unsized _ZdlPv;
    fast_delete_unsized _ZdaPv;
    fast_delete _ZdlPvm;
    fast_delete _ZdaPvm;
}

/// Defines the other operators delete, which need not be as fast.
macro_rules! operator_delete {
    ($($name:ident)*) => {
        $(
            /// A C++ operator delete.
            ///
            /// # Safety
            /// Same as `free`.
            #[cfg_attr(not(feature = "override"), unsafe(no_mangle))]
            #[cfg_attr(
                feature = "override",
                expect(non_snake_case, reason = "the name of a symbol")
            )]
            pub unsafe extern "C" fn $name(pointer: *mut c_void, size: usize, align: usize) {
                let has_size = matches!(
                    Form::$name,
                    Form::_ZdlPvmSt11align_val_t | Form::_ZdaPvmSt11align_val_t
                );
                // SAFETY: the caller's promise is passed on.
                unsafe {
                    if !has_size && STACK.fast.serves_delete() {
                        free_within(pointer);
                    } else {
                        delete_slow(pointer, size, align, Form::$name);
                    }
                }
            }
            #[cfg(feature = "override")]
            crate::abi::weak::weak! { $name }
        )*
    };
}

operator_delete! {
    _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
    _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
}
