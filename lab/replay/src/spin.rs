//! Work of a given length: it stands for the time that a message costs besides the allocator. It
//! uses the CPU and no memory, so that it takes the same time on every machine.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

/// Rounds of one measurement: they take some 30 us, less than a scheduler's time slice.
const ROUNDS: u64 = 20_000;

/// Number of measurements. The fastest counts, because nothing disturbed it.
const ATTEMPTS: usize = 40;

/// Rounds for each 1,024 ns, measured once for the process.
static ROUNDS_PER_1024_NS: LazyLock<u64> = LazyLock::new(|| {
    let attempt = |_| {
        let start = Instant::now();
        run(ROUNDS);
        start.elapsed().as_nanos().max(1) as u64
    };
    let shortest = (0..ATTEMPTS).map(attempt).min().unwrap_or(1);
    (ROUNDS * 1024 / shortest).max(1)
});

/// Keeps the CPU busy for `ns` nanoseconds. The process's first call measures the loop's speed.
#[inline]
pub(crate) fn work(ns: u64) {
    run(rounds(ns, *ROUNDS_PER_1024_NS));
}

const fn rounds(ns: u64, per_1024_ns: u64) -> u64 {
    ns * per_1024_ns / 1024
}

/// A chain of multiplications, each of which waits for the one before.
#[inline]
fn run(rounds: u64) {
    let mut value = 1_u64;
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_in_nanoseconds() {
        assert_eq!([0, 2, 1000, 2048].map(|ns| rounds(ns, 512)), [0, 1, 500, 1024]);
        assert!(rounds(100_000, *ROUNDS_PER_1024_NS) > 0);
    }
}
