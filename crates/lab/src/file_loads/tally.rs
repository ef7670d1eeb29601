//! What a task has done.

/// Counts of a task, or of all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Operations, as the load counts them.
    pub(crate) operations: u64,
    /// Operations that found every byte that they should.
    pub(crate) verified: u64,
    /// Time of each operation in whole microseconds, where each is timed.
    pub(crate) each_us: Vec<u64>,
}

impl Tally {
    /// Counts an operation, and whether it found what it should.
    pub(super) fn count(&mut self, is_right: bool) {
        self.operations += 1;
        self.verified += u64::from(is_right);
    }

    /// Adds what another task has done.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.verified += other.verified;
        self.each_us.extend_from_slice(&other.each_us);
    }
}
