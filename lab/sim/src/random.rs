//! Random numbers that follow from a seed.

/// The next number of a sequence, below 2^64 (SplitMix64: G. Steele et al., "Fast splittable
/// pseudorandom number generators", OOPSLA 2014). `state` is the seed, then what the call left.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = *state;
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
