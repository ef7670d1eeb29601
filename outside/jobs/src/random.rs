//! The same numbers in every run.

/// A generator by Marsaglia's xorshift (2003).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a task.
    #[must_use]
    pub fn new(task: u64) -> Self {
        Self(task.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
