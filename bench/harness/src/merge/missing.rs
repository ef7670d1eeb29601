//! The error for missing shards.

/// Missing or unfinished shards, by number. A distinct exit status lets a program retake them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);
