//! How memory is used.

/// What an operation does to the memory that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it in one step that no other CPU comes between.
    Update,
}
