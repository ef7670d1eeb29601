//! Names of fixed size.

use core::fmt;

/// Bytes of a name; a shorter one is filled up with zeros.
pub const NAME_BYTES: usize = 24;

/// Returns whether a character is text for terminals and readers of XML: no control character, no
/// end of a line or paragraph, and none that turns the direction of text.
#[must_use]
pub fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// A name: UTF-8 without control characters, truncated to fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
}

impl Name {
    /// The empty name.
    pub const EMPTY: Self = Self { bytes: [0; NAME_BYTES] };

    /// The characters of `text` up to the first that is not [plain](is_plain), as many as fit.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut name = Self::EMPTY;
        for character in text.chars().take_while(|it| is_plain(*it)) {
            let used = name.len();
            let Some(room) = name.bytes.get_mut(used..used + character.len_utf8()) else { break };
            character.encode_utf8(room);
        }
        name
    }

    /// The name in `bytes`; `None` if they are not valid as a name.
    #[must_use]
    pub fn parse(bytes: [u8; NAME_BYTES]) -> Option<Self> {
        let name = Self { bytes };
        let (text, rest) = bytes.split_at(name.len());
        let is_text = core::str::from_utf8(text).is_ok_and(|it| !it.contains(char::is_control));
        (is_text && rest.iter().all(|byte| *byte == 0)).then_some(name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len()]).unwrap_or_default()
    }

    /// The name's bytes, filled up with zeros.
    #[must_use]
    pub fn bytes(&self) -> [u8; NAME_BYTES] {
        self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES)
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(Name::new("malloc-64").as_str(), "malloc-64");
        assert_eq!(Name::new("abcdefghijklmnopqrstuvwxyz").as_str(), "abcdefghijklmnopqrstuvwx");
        assert_eq!(Name::new("abcdefghijklmnopqrstuvw\u{e9}").as_str(), "abcdefghijklmnopqrstuvw");
        assert_eq!(Name::new("a\x1b[31mred").as_str(), "a");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let bytes = |text: &[u8]| {
            let mut bytes = [0; NAME_BYTES];
            bytes[..text.len()].copy_from_slice(text);
            bytes
        };
        assert_eq!(Name::parse(bytes(b"zone->lock")), Some(Name::new("zone->lock")));
        assert_eq!(Name::parse(bytes(b"a\0b")), None, "something after the end");
        assert_eq!(Name::parse(bytes(b"\xff")), None, "no UTF-8");
        assert_eq!(Name::parse(bytes(b"\x1b[2J")), None, "a control character");
        assert_eq!(Name::parse([b'x'; NAME_BYTES]).map(|it| it.as_str().len()), Some(NAME_BYTES));
    }
}
