//! The sum over a publication.

/// Returns the summand of the word at index `at` in the sum of a body. The summand depends on the
/// index, so that a reader detects words that have changed places. A zero word adds 0.
#[must_use]
pub const fn part(at: usize, word: u64) -> u64 {
    // The multipliers of SplitMix64 (Steele, Lea, Flood 2014).
    let place = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mixed = word.wrapping_mul(place);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The sum over all valid words of a body (its sections and filled rows), in any order. Wraps.
#[must_use]
pub fn sum(words: impl IntoIterator<Item = (usize, u64)>) -> u64 {
    words.into_iter().fold(0, |sum, (at, word)| sum.wrapping_add(part(at, word)))
}
