//! Fields as JSON, by a description of each section: one function writes them all, because it is
//! part of the library. A number of all ones stands for "no limit", and is `null`.

use crate::name::{NAME_BYTES, Name};
use core::fmt::{self, Write};

/// The kind of the bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 32 bits.
    Short,
    /// 64 bits.
    Long,
    /// A name.
    Name,
    /// Rows of so many numbers of 32 bits.
    Rows(usize),
}

/// A field of a section.
pub(crate) struct Shape {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its bytes.
    pub(crate) bytes: usize,
}

/// A description of a section: its fields, one after the other.
pub(crate) trait Described {
    /// All of them.
    const SHAPES: &'static [Shape];
}

/// Writes a number.
pub(crate) fn number(value: u64, out: &mut dyn Write) -> fmt::Result {
    if value == u64::MAX { out.write_str("null") } else { write!(out, "{value}") }
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

/// Writes a comma, unless it is the first of several.
fn comma(is_first: bool, out: &mut dyn Write) -> fmt::Result {
    out.write_str(if is_first { "" } else { "," })
}

/// Writes the name of a member, after a comma if it is not the first one.
pub(crate) fn member(out: &mut dyn Write, is_first: bool, name: &str) -> fmt::Result {
    comma(is_first, out)?;
    string(name, out)?;
    out.write_char(':')
}

fn short(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes).into())
}

/// Writes a section, whose bytes stand at the start of `bytes`.
pub(crate) fn object(shapes: &[Shape], mut bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    out.write_char('{')?;
    for (at, shape) in shapes.iter().enumerate() {
        let (field, rest) = bytes.split_at_checked(shape.bytes).ok_or(fmt::Error)?;
        bytes = rest;
        member(out, at == 0, shape.name)?;
        match shape.kind {
            Kind::Short => number(short(field), out)?,
            Kind::Long => {
                let value = field.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                number(value, out)?;
            }
            Kind::Name => {
                let name = field.first_chunk::<NAME_BYTES>().and_then(|it| Name::parse(*it));
                string(name.unwrap_or_default().as_str(), out)?;
            }
            Kind::Rows(columns) => rows(field, columns, out)?,
        }
    }
    out.write_char('}')
}

fn rows(field: &[u8], columns: usize, out: &mut dyn Write) -> fmt::Result {
    out.write_char('[')?;
    for (at, row) in field.chunks(4 * columns).enumerate() {
        comma(at == 0, out)?;
        out.write_char('[')?;
        for (at, value) in row.chunks(4).enumerate() {
            comma(at == 0, out)?;
            number(short(value), out)?;
        }
        out.write_char(']')?;
    }
    out.write_char(']')
}

/// Writes a table as an array of objects; its rows stand in `bytes`.
pub(crate) fn table(shapes: &[Shape], bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    let row_bytes = shapes.iter().map(|shape| shape.bytes).sum::<usize>().max(1);
    out.write_char('[')?;
    for (at, row) in bytes.chunks_exact(row_bytes).enumerate() {
        comma(at == 0, out)?;
        object(shapes, row, out)?;
    }
    out.write_char(']')
}
