//! Callers.

/// Stores return addresses.
pub fn callers(_frames: &mut [usize]) {}
