//! Numbers in as few bytes as they need: seven bits per byte, the lowest first; the eighth bit
//! shows that another byte follows (LEB128, as in DWARF and protocol buffers).

pub(crate) const LONGEST: usize = 10;

/// Writes a number to the start of `out`; returns how many bytes it takes.
pub(crate) fn write(out: &mut [u8], mut number: u64) -> usize {
    let mut bytes = 0;
    while number >= 0x80 {
        out[bytes] = number as u8 | 0x80;
        number >>= 7;
        bytes += 1;
    }
    out[bytes] = number as u8;
    bytes + 1
}

/// Reads a number from the start of `from`, and moves `from` past it. `None` if it is cut off or
/// has more than 64 bits.
pub(crate) fn read(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Turns small differences of either sign into small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
pub(crate) fn fold(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63) as u64
}

/// The difference from which [`fold`] made this number.
pub(crate) fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive(number: u64, shift in 0u32..64, difference: i64) {
            let number = number >> shift;
            let mut buffer = [0xff; LONGEST];
            let bytes = write(&mut buffer, number);
            let mut from = &buffer[..bytes];
            prop_assert_eq!(read(&mut from), Some(number));
            prop_assert!(from.is_empty());
            prop_assert_eq!(read(&mut &buffer[..bytes - 1]), None);
            prop_assert_eq!(unfold(fold(difference)), difference);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let mut from = &bytes[..];
            while read(&mut from).is_some() {}
        }
    }

    #[test]
    fn small_differences_are_small() {
        assert_eq!([0, -1, 1, -2, i64::MIN].map(fold), [0, 1, 2, 3, u64::MAX]);
    }
}
