//! The differences between versions of the kernel's SLUB.

/// One version's own ways. A version is a type without values.
pub trait Era: Send + Sync + 'static {
    /// The policy's name.
    const NAME: &'static str;

    /// True if a free beyond the CPU's own slab, and a look into a slab for what others have freed,
    /// does without the node's list lock wherever it can.
    const LOCKLESS: bool;
}

/// Linux 3.1 to 6.17: the packed word of a slab changes by compare-and-swap (document 002).
pub enum Lockless {}

impl Era for Lockless {
    const NAME: &'static str = "slub";
    const LOCKLESS: bool = true;
}

/// Before Linux 3.1: every slow free takes a lock.
pub enum Locked {}

impl Era for Locked {
    const NAME: &'static str = "slub-locked";
    const LOCKLESS: bool = false;
}
