//! Names that come from another process and may contain any bytes.

use std::fmt;

const MOST_CHARACTERS: usize = 64;

/// A name that is safe in a terminal, in columns and in a shell: 1 to 64 visible ASCII characters
/// without quotes, backquotes and backslashes. A space becomes `_`, and any other character `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    /// Makes a label of the bytes up to the first NUL. O(bytes).
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let visible = |byte: &u8| match *byte {
            b' ' => '_',
            b'"' | b'\'' | b'\\' | b'`' => '?',
            byte if byte.is_ascii_graphic() => char::from(byte),
            _ => '?',
        };
        let text: String = bytes[..end].iter().take(MOST_CHARACTERS).map(visible).collect();
        Self(if text.is_empty() { "?".to_owned() } else { text })
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Label {
    fn default() -> Self {
        Self::new(b"")
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_lose_what_a_terminal_would_obey() {
        assert_eq!(Label::new(b"kmalloc-64\0rest").as_str(), "kmalloc-64");
        assert_eq!(Label::new(b"\x1b[2Jx y\"\n").as_str(), "?[2Jx_y??");
        assert_eq!(Label::new("größe".as_bytes()).as_str(), "gr????e");
        assert_eq!(Label::new(b"").as_str(), "?");
        assert_eq!(Label::new(&[b'a'; 1000]).as_str().len(), MOST_CHARACTERS);
        assert_eq!(format!("{:<4}|{:>4}", Label::from("ab"), Label::from("cd")), "ab  |  cd");
    }

    proptest! {
        #[test]
        fn a_name_is_one_short_word(bytes: Vec<u8>) {
            let label = Label::new(&bytes);
            prop_assert!((1..=MOST_CHARACTERS).contains(&label.as_str().len()));
            prop_assert!(label.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!label.as_str().contains(['"', '\'', '\\', '`']));
        }
    }
}
