//! The work that a task has done.

/// Counts of a task, or of all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations, as the load counts them.
    pub operations: u64,
    /// Operations that found every byte as it should be.
    pub verified: u64,
    /// Time of each operation in whole microseconds, if the load times operations one by one.
    pub each_us: Vec<u64>,
}

impl Tally {
    /// Counts an operation, and whether the bytes that it found were right.
    pub(crate) fn count(&mut self, is_right: bool) {
        self.operations += 1;
        self.verified += u64::from(is_right);
    }

    /// Adds what another task has done.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.verified += other.verified;
        self.each_us.extend_from_slice(&other.each_us);
    }
}
