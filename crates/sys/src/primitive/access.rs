//! Ways to use memory.

/// The way in which an operation uses the memory that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it in one step, without another CPU in between.
    Update,
}
