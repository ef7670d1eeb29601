//! Quarry's memory management: frames, zones, per-CPU page lists, slab caches and the heap.
//!
//! The layers; each uses only those below it, as `scripts/tidy/tests/layers.rs` checks:
//!
//! ```text
//! stack   one instance of everything below, with its policies as type parameters
//! own_heap   heaps that a program makes, each with slabs and an account of its own
//! heap    request -> slab cache, extent of frames or mapping
//! slab    kmem caches; one file per policy behind one trait
//! pcp     per-CPU page lists; one file per policy
//! zone    buddy free areas, migratetypes, pageblocks, watermarks, one lock
//! frame   Pfn, frame table, the window
//! sys     (crate quarry-sys) the only door to OS and CPU
//! ```
//!
//! This crate never allocates through the global allocator.
#![cfg_attr(not(any(test, quarry_model)), no_std)]

pub mod frame;
pub mod heap;
#[cfg(feature = "heaps")]
pub mod own_heap;
pub mod pcp;
pub mod slab;
pub mod stack;
pub mod zone;
