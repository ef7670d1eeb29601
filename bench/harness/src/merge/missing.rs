//! Shards that are missing.

/// The shards that are missing or were not finished, by their numbers. A program that looks at exit
/// statuses can have them taken again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);
