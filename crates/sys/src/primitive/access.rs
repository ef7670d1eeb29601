//! The kinds of access to memory.

/// How an operation accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The operation reads.
    Read,
    /// The operation writes.
    Write,
    /// The operation reads and writes in one indivisible step.
    Update,
}
