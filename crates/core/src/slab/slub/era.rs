//! The differences between versions of the kernel's SLUB.

/// One version's own ways. A version is a type without values.
pub trait Era: Send + Sync + 'static {
    /// The policy's name.
    const NAME: &'static str;

    /// True if a free beyond the CPU's own slab, and a look into a slab for what others have freed,
    /// does without the node's list lock wherever it can.
    const LOCKLESS: bool;
}

/// Linux 2.6.29.
pub enum V2_6_29 {}

impl Era for V2_6_29 {
    const NAME: &'static str = "slub-2.6.29";
    const LOCKLESS: bool = false;
}

/// Linux 3.0.
pub enum V3_0 {}

impl Era for V3_0 {
    const NAME: &'static str = "slub-3.0";
    const LOCKLESS: bool = false;
}

/// Linux 3.1.
pub enum V3_1 {}

impl Era for V3_1 {
    const NAME: &'static str = "slub-3.1";
    const LOCKLESS: bool = true;
}

/// Linux 4.9.
pub enum V4_9 {}

impl Era for V4_9 {
    const NAME: &'static str = "slub-4.9";
    const LOCKLESS: bool = true;
}
