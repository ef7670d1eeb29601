//! Finds the callers of the running thread without a lock, an allocation or a fault.
//!
//! On x86-64 a trace finds callers by the tables that compilers write for exceptions (`.eh_frame`),
//! or, in code without tables, by frame pointers. `_dl_find_object` finds the tables of the object
//! that contains the code. It takes no lock, and signal handlers may call it (glibc manual,
//! "Dynamic Linker Introspection"). glibc has it from 2.35 on; without it, and on other
//! architectures, a trace follows frame pointers only.
//!
//! Reading a table takes long, so the small table of `rule` caches results by the address of the
//! code: a stack frame then costs some ns. After `dlclose`, new code at the same address may get
//! the old code's rule for a while; then a trace ends early, or names a wrong caller.
//!
//! The kernel reads each page of the stack before a trace does (`stack`), so that a register that
//! holds no frame pointer ends the trace and not the process.
//!
//! Order of the files, each using only those before: `reader`, `rule`, `stack`, `program`,
//! `tables`, `walk`.

mod program;
mod reader;
mod rule;
mod stack;
mod tables;
mod walk;

pub use walk::{Unwinder, trace, unwinder};
