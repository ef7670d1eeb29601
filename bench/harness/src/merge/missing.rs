//! The error for missing shards.

/// Shards are missing or unfinished; the text has their numbers. A distinct exit status lets a
/// program take them again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);
