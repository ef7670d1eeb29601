//! Random choices of threads. Proptest cannot shrink these, so tests print a seed and accept one.

/// A seed for this run: `QUARRY_TEST_SEED` if set, else from the clock. Prints it; the test harness
/// shows this output if the test fails.
pub(crate) fn seed() -> u64 {
    let now = || {
        let since = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
        since.as_nanos() as u64 & 0xffff_ffff
    };
    let seed = match std::env::var("QUARRY_TEST_SEED") {
        Ok(text) => text.parse().expect("QUARRY_TEST_SEED is a number"),
        Err(_) => now(),
    };
    println!("QUARRY_TEST_SEED={seed}");
    seed
}

/// The generator SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
