//! Requests for a heap profile: a reader makes one by a futex wait on words of a record.
//!
//! A request writes nothing. After each publication the process wakes, and thereby counts, the
//! readers that sleep on these words. Offsets are in bytes from the start of the record.

/// A reader that requests a profile sleeps here, again each time that the process has woken it.
pub const BELL: usize = 8;

/// A reader that requests the end of the profile sleeps here.
pub const STOP: usize = 12;

/// Offset of the first of 64 words. The number of the word on which a reader sleeps is its *wish*.
pub const WISHES: usize = 64;

/// The least mean that a wish may select, in bytes between two samples. Without this bound, a child
/// that has given up rights, but shares the page, could make its parent sample each allocation.
pub const LEAST_MEAN: usize = 4 << 10;

/// The greatest mean that a wish may select, in bytes between two samples.
pub const MOST_MEAN: usize = 1 << 31;

/// A process ends its profile after this many publications in a row without a reader on `BELL`.
pub const PATIENCE: u32 = 50;

/// The mean bytes between two samples that a wish selects, and whether it traces frees.
#[must_use]
pub const fn mean_of(wish: usize) -> (usize, bool) {
    let mean = if wants_pins(wish) { LEAST_MEAN << wish } else { 1 << (wish % 32) };
    (if mean < LEAST_MEAN { LEAST_MEAN } else { mean }, wish >= 32)
}

/// Returns whether a wish asks for a profile of pins: their exponents are those of means below
/// [`LEAST_MEAN`], from which they are counted.
#[must_use]
pub const fn wants_pins(wish: usize) -> bool {
    wish < LEAST_MEAN.ilog2() as usize
}

/// The wish for a profile of pins; rounds `mean` down to a power of two from 4 KiB to 8 MiB.
#[must_use]
pub const fn wish_for_pins(mean: usize) -> usize {
    let least = LEAST_MEAN.ilog2() as usize;
    let exponent = if mean < LEAST_MEAN { least } else { mean.ilog2() as usize };
    if exponent - least < least { exponent - least } else { least - 1 }
}

/// The wish for a profile with one sample per `mean` bytes; rounds `mean` down to a power of two.
#[must_use]
pub const fn wish_for(mean: usize, frees: bool) -> usize {
    let mean = if mean < LEAST_MEAN { LEAST_MEAN } else { mean };
    let exponent = mean.ilog2() as usize;
    (if exponent > 31 { 31 } else { exponent }) + if frees { 32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_says_what_is_wanted() {
        for (mean, least) in [(1, LEAST_MEAN), (64 << 10, 64 << 10), (usize::MAX, 8 << 20)] {
            let wish = wish_for_pins(mean);
            assert_eq!((mean_of(wish), wants_pins(wish)), ((least, false), true));
        }
        for frees in [false, true] {
            assert!((0..32).all(|exponent| !wants_pins(wish_for(1 << exponent, frees))));
            for exponent in 12..32 {
                assert_eq!(mean_of(wish_for(1 << exponent, frees)), (1 << exponent, frees));
            }
            assert_eq!(mean_of(wish_for(600_000, frees)), (512 << 10, frees));
            assert_eq!(mean_of(wish_for(usize::MAX, frees)), (1 << 31, frees));
            for too_small in [0, 1, LEAST_MEAN - 1] {
                assert_eq!(mean_of(wish_for(too_small, frees)), (LEAST_MEAN, frees));
            }
        }
    }
}
