//! Fields as JSON. One function writes every section from a description of its fields; this keeps
//! the library small. A number with all bits set means "no limit", and is written as `null`.

use crate::name::{NAME_BYTES, Name, is_plain};
use core::fmt::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Short,
    Long,
    Name,
    /// Rows of this many 32-bit numbers.
    Rows(usize),
}

/// A description of a section: its fields, in order.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// The fields' names, each followed by a space.
    pub(crate) names: &'static str,
    /// The kind of each field, and its bytes.
    pub(crate) fields: &'static [(Kind, usize)],
}

pub(crate) trait Described {
    const SHAPE: Shape;
}

pub(crate) fn number(value: u64, out: &mut dyn Write) -> fmt::Result {
    if value == u64::MAX { out.write_str("null") } else { write!(out, "{value}") }
}

pub(crate) fn string(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            _ if is_plain(character) => out.write_char(character)?,
            _ => write!(out, "\\u{:04x}", u32::from(character))?,
        }
    }
    out.write_char('"')
}

fn comma(is_first: bool, out: &mut dyn Write) -> fmt::Result {
    out.write_str(if is_first { "" } else { "," })
}

/// Writes the name of a member, after a comma unless it is the first one.
pub(crate) fn member(out: &mut dyn Write, is_first: bool, name: &str) -> fmt::Result {
    comma(is_first, out)?;
    string(name, out)?;
    out.write_char(':')
}

fn short(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes).into())
}

/// Writes the section at the start of `bytes` as an object.
pub(crate) fn object(shape: Shape, mut bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    out.write_char('{')?;
    let named = shape.names.split_ascii_whitespace().zip(shape.fields);
    for (at, (name, (kind, length))) in named.enumerate() {
        let (field, rest) = bytes.split_at_checked(*length).ok_or(fmt::Error)?;
        bytes = rest;
        member(out, at == 0, name)?;
        match *kind {
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

/// Writes a table as an array of objects; its first `rows` rows, which are valid, are in `bytes`.
pub(crate) fn table(shape: Shape, bytes: &[u8], rows: u32, out: &mut dyn Write) -> fmt::Result {
    let row_bytes = shape.fields.iter().map(|(_, length)| length).sum::<usize>().max(1);
    out.write_char('[')?;
    for (at, row) in bytes.chunks_exact(row_bytes).take(rows as usize).enumerate() {
        comma(at == 0, out)?;
        object(shape, row, out)?;
    }
    out.write_char(']')
}
