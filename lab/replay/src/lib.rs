//! The documents' workloads (the documents are messages of kernel developers, see
//! `docs/kernel-developers.md`): the allocations and frees of their kernel paths, replayed on
//! stacks with chosen policies.
//!
//! ```text
//! documents  the data of each document, from its folder
//! kernels   the paths of the documents' benchmarks, read from data, and the tasks that walk them
//! path      a path: what is allocated and freed, from what, by whom, once for how many messages
//! crew      groups of senders and receivers that hand messages to each other
//! card      connections through a network card, whose interrupts one CPU serves
//! solo      tasks that allocate and free by themselves
//! truncation  one task fills a file, another one truncates it
//! bulk      all tasks take blocks of pages at the same time
//! stage     where threads meet the thread that measures them
//! worker    a process that walks a path
//! queue     the receive queue of a socket or pipe
//! flight    messages on their way, with the memory that they hold
//! costs     the times of calls to a memory
//! spin      busy loops that stand for work besides the allocator
//! memory    the interface by which a path allocates
//! file_cache  the interface by which file systems use a page cache
//! policies  the names of variants
//! host      the runner of the tasks: threads, or tasks of a simulated machine
//! anonymous  the LRU lists of the pages of programs
//! timed     a wrapper for a memory that times its calls for pages
//! ranges    ways of taking and freeing ranges of pages
//! stack     Quarry's stacks as a memory for paths; `stack_files`: their page cache
//! ```

mod anonymous;
pub mod bulk;
pub mod card;
pub mod costs;
pub mod crew;
pub mod documents;
pub mod file_cache;
pub mod file_loads;
mod flight;
pub mod host;
pub mod kernels;
pub mod memory;
mod path;
pub mod policies;
mod queue;
mod ranges;
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
