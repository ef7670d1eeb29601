//! *Own heaps*: heaps that a program makes, beside the heap of `malloc`. Any thread uses them, and
//! all that lives in one goes at once.
//!
//! An own heap has slabs, blocks and mappings of its own, so it shares no page with another, and
//! an account: the frames that it is *charged* for. Their frames have the kind `OWN`, which every
//! fast path refuses, and name a descriptor that names the heap. So `free` finds an object's heap
//! from its address, and programs without own heaps pay nothing.
//!
//! A heap that is destroyed leaves its slabs *gone*: their frames still name it, so that a late
//! `free` is reported with the heap's name. The oldest gone slabs go to the page allocator once
//! there are many, and all do when memory is short.
//!
//! Nothing of an own heap lies in memory that the program writes. Descriptors never become other
//! data, so a reader of a stale number finds a descriptor of another heap, or of none.
//!
//! Files use only files to their left: `lock, slab -> heap -> heaps`. The stack has the rest:
//! `own_heaps` there takes frames and gives them back.

mod heap;
mod heaps;
mod lock;
mod slab;

pub use heap::{Missed, OwnHeap, OwnHeapId, OwnHeapStats, Use};
pub use heaps::OwnHeaps;
pub use slab::{Contents, LARGEST, OwnSlab};
