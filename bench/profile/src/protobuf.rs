//! Messages of protobuf, and the tables of strings, functions, locations and mappings that pprof's
//! and OpenTelemetry's profiles have. Writing these few messages of numbers and strings by hand
//! takes less code than a generator.

use crate::line::Line;
use crate::maps::Mapping;
use crate::profile::Frame;
use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a number; 0 is not written, because it is the value of a missing number.
    pub(crate) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    /// Writes a number of type `fixed64`.
    pub(crate) fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub(crate) fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut inner = Self::default();
        values.into_iter().for_each(|value| inner.varint(value));
        self.bytes(field, &inner.0);
    }
}

/// The fields of a message that another program has written, up to damage: the number of each, its
/// value if that is a number, and its bytes if it has a length.
pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut fields = Vec::new();
    while let Some(tag) = varint(&mut bytes) {
        let read = match tag & 7 {
            0 => varint(&mut bytes).map(|value| (value, 0)),
            1 => Some((0, 8)),
            2 => varint(&mut bytes).map(|length| (0, length)),
            5 => Some((0, 4)),
            _ => None,
        };
        let Some((value, length)) = read else { break };
        let Some((inner, rest)) = bytes.split_at_checked(length as usize) else { break };
        fields.push((tag >> 3, value, inner));
        bytes = rest;
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let first = bytes.split_off_first()?;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A table of strings, to which messages refer by number; string 0 is empty.
#[derive(Default)]
pub(crate) struct Strings {
    numbers: HashMap<String, u64>,
    pub(crate) all: Vec<String>,
}

impl Strings {
    pub(crate) fn number(&mut self, text: &str) -> u64 {
        *self.numbers.entry(text.to_owned()).or_insert_with(|| {
            self.all.push(text.to_owned());
            self.all.len() as u64 - 1
        })
    }

    /// Writes the name of a value and its unit.
    pub(crate) fn value_type(&mut self, out: &mut Message, field: u64, of: &str, unit: &str) {
        out.message(field, |value| {
            value.number(1, self.number(of));
            value.number(2, self.number(unit));
        });
    }
}

/// The fields in which a format has its tables.
pub(crate) struct Layout {
    pub(crate) mappings: u64,
    pub(crate) locations: u64,
    pub(crate) functions: u64,
    pub(crate) strings: u64,
    /// The first field of an entry. A format that begins at 2 has the entry's own number in 1; in
    /// the others it follows from the entry's place.
    pub(crate) first: u64,
    /// Entries of a table of attributes, for each mapping, and for each location in a mapping.
    /// pprof has no such table.
    pub(crate) of_mappings: &'static [u64],
    pub(crate) of_locations: &'static [u64],
}

/// Tables whose entries have the numbers from 1 on; 0 means none.
pub(crate) struct Tables {
    layout: Layout,
    pub(crate) strings: Strings,
    /// Functions without their lines.
    functions: HashMap<Line, u64>,
    /// Locations by address and mapping.
    locations: HashMap<(u64, Option<usize>), u64>,
    pub(crate) out: Message,
}

impl Tables {
    /// Empty tables but for the mappings.
    pub(crate) fn of(layout: Layout, mappings: &[Mapping]) -> Self {
        let mut tables = Self {
            layout,
            strings: Strings::default(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            out: Message::default(),
        };
        tables.strings.number("");
        if tables.layout.first == 1 {
            // Entry 0 takes its place.
            let Layout { mappings, locations, functions, .. } = tables.layout;
            for table in [mappings, locations, functions] {
                tables.out.message(table, |_| {});
            }
        }
        for (number, mapping) in (1..).zip(mappings) {
            tables.mapping(number, mapping);
        }
        tables
    }

    fn entry(&mut self, table: u64, number: u64, fill: impl FnOnce(&mut Message, u64)) {
        let first = self.layout.first;
        self.out.message(table, |entry| {
            if first > 1 {
                entry.number(1, number);
            }
            fill(entry, first);
        });
    }

    fn mapping(&mut self, number: u64, mapping: &Mapping) {
        let path = self.strings.number(&quarry_wary::plain(&mapping.path.to_string_lossy()));
        let attributes = self.layout.of_mappings;
        self.entry(self.layout.mappings, number, |out, first| {
            let Mapping { start, limit, offset, .. } = *mapping;
            for (field, value) in (first..).zip([start, limit, offset, path]) {
                out.number(field, value);
            }
            // The profile has the names, so a reader need not look for them.
            match attributes {
                [] => (7..=10).for_each(|field| out.number(field, 1)),
                _ => out.numbers(first + 4, attributes.iter().copied()),
            }
        });
    }

    fn function(&mut self, line: &Line) -> u64 {
        let key = Line { line: 0, ..line.clone() };
        let next = self.functions.len() as u64 + 1;
        if let Some(number) = self.functions.get(&key) {
            return *number;
        }
        let Line { function, system_name, file, .. } = line;
        let system_name = if system_name.is_empty() { function } else { system_name };
        let names = [function, system_name, file].map(|name| self.strings.number(name));
        self.entry(self.layout.functions, next, |function, first| {
            for (field, name) in (first..).zip(names) {
                function.number(field, name);
            }
        });
        self.functions.insert(key, next);
        next
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        let key = (frame.address, frame.place.mapping);
        let next = self.locations.len() as u64 + 1;
        if let Some(number) = self.locations.get(&key) {
            return *number;
        }
        let lines: Vec<_> =
            frame.place.lines.iter().map(|line| (self.function(line), line.line)).collect();
        let attributes = self.layout.of_locations;
        self.entry(self.layout.locations, next, |location, first| {
            location.number(first, frame.place.mapping.map_or(0, |number| number as u64 + 1));
            location.number(first + 1, frame.address);
            for (function, at) in lines {
                location.message(first + 2, |line| {
                    line.number(1, function);
                    line.number(2, at.into());
                });
            }
            if frame.place.mapping.is_some() && !attributes.is_empty() {
                location.numbers(first + 3, attributes.iter().copied());
            }
        });
        self.locations.insert(key, next);
        next
    }

    /// The numbers of locations.
    pub(crate) fn locations(&mut self, frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| self.location(frame)).collect()
    }

    /// The tables, with that of the strings.
    pub(crate) fn finish(mut self) -> Message {
        for text in &self.strings.all {
            self.out.bytes(self.layout.strings, text.as_bytes());
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_the_format_says() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.number(3, 0);
        message.numbers(6, [3, 270, 86_942]);
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.0, expected);
    }

    #[test]
    fn what_was_written_is_read_up_to_damage() {
        let mut message = Message::default();
        message.number(1, u64::MAX);
        message.fixed(2, 7);
        message.bytes(3, b"text");
        let whole = [(1, u64::MAX, &b""[..]), (2, 0, &[7, 0, 0, 0, 0, 0, 0, 0]), (3, 0, b"text")];
        assert_eq!(fields(&message.0), whole);
        for cut in 0..message.0.len() {
            let read = fields(&message.0[..cut]);
            assert_eq!(read, whole[..read.len()], "{cut} bytes");
            assert!(read.len() < 3, "{cut} bytes");
        }
        for damage in [&[0xff; 11][..], &[0x0b], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(fields(damage), [], "{damage:?}");
        }
    }
}
