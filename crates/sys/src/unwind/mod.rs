//! The callers of the running thread, found without a lock, an allocation or a fault.
//!
//! On x86-64 the tables that compilers write for exceptions (`.eh_frame`) lead to a caller, or, in
//! code without tables, its frame pointer. `_dl_find_object` finds the tables of the object that
//! contains the code: it takes no lock, and signal handlers may call it (glibc manual, "Dynamic
//! Linker Introspection"). The C library has it from 2.35 on; before that, and on other
//! architectures, a trace follows only frame pointers.
//!
//! Reading a table takes long, so the small table of `rule` keeps answers by the address of the
//! code: then a frame costs some nanoseconds. Code that replaced unloaded code may meet the old
//! code's rule for a while: then a trace ends early, or names a wrong caller.
//!
//! The kernel reads each page of the stack before a trace does (`stack`), so that a register which
//! is not a frame pointer ends the trace instead of the process.
//!
//! Order of the files, each using only those before: `reader`, `rule`, `stack`, `program`,
//! `tables`, `walk`.
#![cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "tables are read on x86-64"))]

mod program;
mod reader;
mod rule;
mod stack;
mod tables;
mod walk;

pub use walk::{Unwinder, trace, unwinder};
