//! Reads numbers in the tables for exceptions (DWARF 5, 7.6; Linux Standard Base 5, 10.5).

/// A position in a table with a known end.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    at: usize,
    end: usize,
}

/// Encodings of pointers: absolute, or relative to their own address.
const ABSOLUTE: u8 = 0x00;
const PC_RELATIVE: u8 = 0x10;

impl Reader {
    /// # Safety
    /// Everything from `at` to `end` stays readable while the reader is used.
    pub(super) unsafe fn new(at: usize, end: usize) -> Self {
        Self { at, end }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// A reader of the next `bytes` bytes, or of as many as remain.
    pub(super) fn part(&self, bytes: usize) -> Self {
        Self { at: self.at, end: self.at.saturating_add(bytes).min(self.end) }
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.end)?;
        Some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let from = self.at;
        self.skip(N)?;
        // SAFETY: within readable memory (the promise of `new`); bytes have no alignment.
        Some(unsafe { (from as *const [u8; N]).read_unaligned() })
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        Some(self.take::<1>()?[0])
    }

    pub(super) fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take()?))
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take()?))
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    /// Reads a length; returns a reader of that many bytes, and goes on after them.
    pub(super) fn block(&mut self) -> Option<Self> {
        let bytes = self.number()? as usize;
        let block = self.part(bytes);
        self.skip(bytes)?;
        Some(block)
    }

    /// Reads a LEB128 number: seven bits per byte. Returns it, and how many bits it has.
    fn bits(&mut self) -> Option<(u64, u32)> {
        let (mut value, mut bits) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(bits).unwrap_or(0);
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((value, bits));
            }
        }
    }

    /// Reads an unsigned LEB128 number.
    pub(super) fn number(&mut self) -> Option<u64> {
        Some(self.bits()?.0)
    }

    /// Reads a signed LEB128 number.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let (value, bits) = self.bits()?;
        let is_negative = bits < 64 && value >> (bits - 1) & 1 == 1;
        Some(if is_negative { value as i64 | -1 << bits } else { value as i64 })
    }

    /// Reads a pointer in this encoding; `None` for an encoding that no compiler uses for code.
    pub(super) fn pointer(&mut self, encoding: u8) -> Option<usize> {
        let from = self.at;
        let value = self.offset(encoding)?;
        match encoding & 0xf0 {
            ABSOLUTE => Some(value as usize),
            PC_RELATIVE => Some(from.wrapping_add(value as usize)),
            _ => None,
        }
    }

    /// Reads the value of a pointer, to which its base is still to be added.
    pub(super) fn offset(&mut self, encoding: u8) -> Option<i64> {
        Some(match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.long()? as i64,
            0x01 => self.number()? as i64,
            0x02 => self.half()?.into(),
            0x03 => self.word()?.into(),
            0x09 => self.signed()?,
            0x0a => i64::from(self.half()? as i16),
            0x0b => i64::from(self.word()? as i32),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader {
        let at = bytes.as_ptr() as usize;
        // SAFETY: the bytes outlive the reader in each test.
        unsafe { Reader::new(at, at + bytes.len()) }
    }

    #[test]
    fn numbers_of_seven_bits() {
        let bytes = [2, 0x80, 1, 0xe5, 0x8e, 0x26, 0x7f, 0x80];
        let mut numbers = reader(&bytes);
        let read: Vec<_> = core::iter::from_fn(|| numbers.number()).collect();
        assert_eq!(read, [2, 128, 624_485, 127], "the last one has no end");
        let mut signed = reader(&[2, 0x7e, 0xff, 0, 0x80, 0x7f]);
        let read: Vec<_> = core::iter::from_fn(|| signed.signed()).collect();
        assert_eq!(read, [2, -2, 127, -128]);
    }

    #[test]
    fn nothing_behind_the_end_is_read() {
        let bytes = [1, 2, 3];
        let mut short = reader(&bytes);
        assert_eq!(short.word(), None);
        assert_eq!(short.half(), Some(0x201));
        assert_eq!(short.half(), None);
        assert_eq!((short.byte(), short.byte()), (Some(3), None));
        let mut part = reader(&bytes).part(1);
        assert_eq!((part.byte(), part.byte()), (Some(1), None));
    }
}
