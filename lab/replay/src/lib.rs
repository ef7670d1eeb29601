//! The documents' workloads (the documents are five messages of kernel developers, see
//! `docs/kernel-developers.md`): the allocations and frees of their kernel paths, replayed on
//! stacks with chosen policies.
//!
//! ```text
//! kernels   the paths of the documents' benchmarks, read from data, and who walks them
//! path      a path: what is allocated and freed, from what, by whom, once for how many messages
//! crew      groups of senders and receivers that hand messages to each other
//! card      connections through a network card, whose interrupts one CPU serves
//! solo      tasks that allocate and free by themselves
//! truncation  one task fills a file, another one truncates it
//! bulk      all tasks take blocks of pages at once
//! stage     where threads meet the one that measures them
//! worker    a process that walks a path
//! queue     what a receiver reads from
//! flight    messages on their way, with the memory that they hold
//! costs     what calls to a memory take
//! spin      work beside the allocator, in nanoseconds
//! memory    what a path allocates from
//! file_cache  what file systems ask of a page cache
//! policies  the names of variants
//! host      who runs the tasks: threads, or tasks of a simulated machine
//! anonymous  the LRU lists of the pages of programs
//! timed     another memory, with its calls for pages timed
//! stack     Quarry's stacks as such a memory; stack_files their page cache
//! ```

mod anonymous;
pub mod bulk;
pub mod card;
pub mod costs;
pub mod crew;
pub mod file_cache;
pub mod file_loads;
mod flight;
pub mod host;
pub mod kernels;
pub mod memory;
mod path;
pub mod policies;
mod queue;
pub mod solo;
#[cfg(not(quarry_sim))]
mod spin;
pub mod stack;
mod stack_files;
pub mod stage;
pub mod timed;
pub mod truncation;
mod worker;

pub use path::Source;
