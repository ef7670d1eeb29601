//! Compares memory with a pattern, while other threads may write to it.

/// Words of a step of the loop: four loads of 16 bytes.
const STEP: usize = 8;

/// Returns whether the `words` words of 8 bytes from `address` on all equal `pattern`. O(words).
///
/// # Safety
/// `address` is a multiple of 8, and the words are readable.
#[inline]
#[must_use]
pub unsafe fn are_same(address: usize, words: usize, pattern: u64) -> bool {
    // SAFETY: a word of the caller's; volatile, because another thread may write to it.
    let word = |number: usize| unsafe {
        core::ptr::with_exposed_provenance::<u64>(address + 8 * number).read_volatile()
    };
    let (mut number, mut others) = (0, 0);
    if !address.is_multiple_of(16) && words > 0 {
        (number, others) = (1, word(0) ^ pattern);
    }
    while words - number >= STEP && others == 0 {
        // SAFETY: the step's words are the caller's, and begin at a multiple of 16.
        others = unsafe { step(address + 8 * number, pattern) };
        number += STEP;
    }
    while number < words {
        others |= word(number) ^ pattern;
        number += 1;
    }
    others == 0
}

/// Returns 0 if all words of a step equal the pattern.
///
/// # Safety
/// `address` is a multiple of 16, and the words are readable.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn step(address: usize, pattern: u64) -> u64 {
    use core::arch::x86_64::*;
    // SAFETY: every x86-64 has these instructions; the loads are aligned (caller's promise), and
    // volatile for the same reason as above.
    unsafe {
        let pair = |number: usize| {
            core::ptr::with_exposed_provenance::<__m128i>(address + 16 * number).read_volatile()
        };
        let pattern = _mm_set1_epi64x(pattern as i64);
        let same = |number| _mm_cmpeq_epi8(pair(number), pattern);
        let both = |first, second| _mm_and_si128(same(first), same(second));
        let all = _mm_and_si128(both(0, 1), both(2, 3));
        u64::from(_mm_movemask_epi8(all) != 0xffff)
    }
}

/// Same as above.
///
/// # Safety
/// Same as above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn step(address: usize, pattern: u64) -> u64 {
    (0..STEP).fold(0, |others, number| {
        let word = core::ptr::with_exposed_provenance::<u64>(address + 8 * number);
        // SAFETY: the words are readable (caller's promise).
        others | unsafe { word.read_volatile() } ^ pattern
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_makes_words_differ() {
        const PATTERN: u64 = 0x0123_4567_89ab_cdef;
        let mut words = [PATTERN; 43];
        for (first, count) in (0..4).flat_map(|first| (0..40).map(move |count| (first, count))) {
            let address = words.as_mut_ptr().expose_provenance() + 8 * first;
            // SAFETY: the words are within the array.
            let are_same = || unsafe { are_same(address, count, PATTERN) };
            assert!(are_same());
            for (changed, bit) in (0..43).map(|changed| (changed, 1 << changed)) {
                words[changed] ^= bit;
                let is_inside = (first..first + count).contains(&changed);
                assert_eq!(are_same(), !is_inside, "{changed} of {count} from {first} on");
                words[changed] ^= bit;
            }
        }
    }
}
