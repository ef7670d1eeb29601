//! The callers of the running thread, found without a lock, an allocation or a fault.
//!
//! On x86-64 a caller is found by the tables that compilers write for exceptions (`.eh_frame`), or
//! where code has none, by its frame pointer. The tables of the object that code lies in are found
//! by `_dl_find_object`, which takes no lock and may be called from handlers of signals (glibc
//! manual, "Dynamic Linker Introspection"). The C library has it from 2.35 on; before that, and on
//! other architectures, only frame pointers are followed.
//!
//! A caller's frame is described by a few words of table, which take long to read. So the answers
//! are kept in a small table by the address of the code (`rule`): a frame costs some nanoseconds
//! then, whether its code has frame pointers or not. Code that took the place of unloaded code may
//! be described by the other's rule for a while: then a trace ends early, or names a wrong caller.
//!
//! The kernel looks at each page of the stack before a trace reads it (`stack`), so that a register
//! which is not a frame pointer ends the trace instead of the process.
//!
//! Order of the files, each using only those before it: `reader`, `rule`, `stack`, `program`,
//! `tables`, `walk`.
#![cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "tables are read on x86-64"))]

mod program;
mod reader;
mod rule;
mod stack;
mod tables;
mod walk;

pub use walk::{Unwinder, trace, unwinder};
