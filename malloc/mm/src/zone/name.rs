//! The names that a program gives to its groups and heaps.

use quarry_sys::primitive::{AtomicU8, Ordering::Relaxed};

/// Bytes of a name; a longer one is cut.
const BYTES: usize = 32;

/// A name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name([u8; BYTES]);

/// A name in a record that others read meanwhile.
pub(crate) type NameCell = [AtomicU8; BYTES];

impl Name {
    /// The first bytes of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut name = [0; BYTES];
        let end = (0..=BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        name.iter_mut().zip(text[..end].bytes()).for_each(|(place, byte)| *place = byte);
        Self(name)
    }

    pub(crate) fn load(cell: &NameCell) -> Self {
        Self(core::array::from_fn(|place| cell[place].load(Relaxed)))
    }

    pub(crate) fn store(self, cell: &NameCell) {
        cell.iter().zip(self.0).for_each(|(place, byte)| place.store(byte, Relaxed));
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(BYTES);
        core::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }
}
