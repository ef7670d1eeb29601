//! Fields as JSON. A number of all ones stands for "no limit", and is `null`.

use crate::name::Name;
use core::fmt::{self, Write};

/// Something that can be a value in JSON.
pub(crate) trait Json {
    /// Writes it.
    ///
    /// # Errors
    /// What the writer says.
    fn json(&self, out: &mut dyn Write) -> fmt::Result;
}

impl Json for u64 {
    fn json(&self, out: &mut dyn Write) -> fmt::Result {
        if *self == Self::MAX { out.write_str("null") } else { write!(out, "{self}") }
    }
}

impl Json for u32 {
    fn json(&self, out: &mut dyn Write) -> fmt::Result {
        u64::from(*self).json(out)
    }
}

impl Json for Name {
    fn json(&self, out: &mut dyn Write) -> fmt::Result {
        string(self.as_str(), out)
    }
}

impl<T: Json, const N: usize> Json for [T; N] {
    fn json(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_char('[')?;
        for (at, element) in self.iter().enumerate() {
            out.write_str(if at == 0 { "" } else { "," })?;
            element.json(out)?;
        }
        out.write_char(']')
    }
}

/// Writes a string in quotes.
pub(crate) fn string(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            _ if character.is_control() => write!(out, "\\u{:04x}", u32::from(character))?,
            _ => out.write_char(character)?,
        }
    }
    out.write_char('"')
}

/// Writes the name of a member, behind a comma where it is not the first one.
pub(crate) fn member(out: &mut dyn Write, is_first: bool, name: &str) -> fmt::Result {
    out.write_str(if is_first { "" } else { "," })?;
    string(name, out)?;
    out.write_char(':')
}
