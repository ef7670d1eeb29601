//! The format of pprof: `profile.proto` of github.com/google/pprof, compressed with gzip. Writing
//! the seven messages of numbers and strings by hand takes less code than a generator.

use crate::line::Line;
use crate::profile::{Profile, VALUES, View};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a number; 0 is not written, because it is the value of a missing number.
    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn numbers(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut inner = Self::default();
        values.for_each(|value| inner.varint(value));
        self.bytes(field, &inner.0);
    }
}

/// A table of strings, to which messages refer by number; string 0 is empty.
#[derive(Default)]
struct Strings {
    numbers: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        *self.numbers.entry(text.to_owned()).or_insert_with(|| {
            self.all.push(text.to_owned());
            self.all.len() as u64 - 1
        })
    }
}

#[derive(Default)]
struct Tables {
    strings: Strings,
    /// Functions without their lines.
    functions: HashMap<Line, u64>,
    /// Locations by address and mapping.
    locations: HashMap<(u64, Option<usize>), u64>,
    out: Message,
}

impl Tables {
    fn function(&mut self, line: &Line) -> u64 {
        let key = Line { line: 0, ..line.clone() };
        let next = self.functions.len() as u64 + 1;
        if let Some(number) = self.functions.get(&key) {
            return *number;
        }
        let Line { function, system_name, file, .. } = line;
        let system_name = if system_name.is_empty() { function } else { system_name };
        let names = [function, system_name, file].map(|name| self.strings.number(name));
        self.out.message(5, |function| {
            function.number(1, next);
            for (field, name) in (2..).zip(names) {
                function.number(field, name);
            }
        });
        self.functions.insert(key, next);
        next
    }

    fn location(&mut self, frame: &crate::profile::Frame) -> u64 {
        let key = (frame.address, frame.place.mapping);
        let next = self.locations.len() as u64 + 1;
        if let Some(number) = self.locations.get(&key) {
            return *number;
        }
        let lines: Vec<_> =
            frame.place.lines.iter().map(|line| (self.function(line), line.line)).collect();
        self.out.message(4, |location| {
            location.number(1, next);
            location.number(2, frame.place.mapping.map_or(0, |number| number as u64 + 1));
            location.number(3, frame.address);
            for (function, at) in lines {
                location.message(4, |line| {
                    line.number(1, function);
                    line.number(2, at.into());
                });
            }
        });
        self.locations.insert(key, next);
        next
    }

    fn value_type(&mut self, field: u64, of: &str, unit: &str) {
        let [of, unit] = [of, unit].map(|text| self.strings.number(text));
        self.out.message(field, |value| {
            value.number(1, of);
            value.number(2, unit);
        });
    }
}

/// Writes a profile for pprof, which shows `shown` first.
pub(crate) fn write(profile: &Profile, shown: View, out: impl Write) -> io::Result<()> {
    let mut tables = Tables::default();
    tables.strings.number("");
    // Values of frees only if frees were traced.
    let values = match (profile.has_pins, profile.traces_frees) {
        (true, _) => VALUES.len(),
        (false, true) => VALUES.len() - 2,
        (false, false) => VALUES.len() - 4,
    };
    for (name, unit) in &VALUES[..values] {
        tables.value_type(1, name, unit);
    }
    for stack in &profile.stacks {
        let locations: Vec<_> = stack.frames.iter().map(|it| tables.location(it)).collect();
        tables.out.message(2, |sample| {
            sample.numbers(1, locations.into_iter());
            sample.numbers(2, stack.values[..values].iter().map(|value| *value as u64));
        });
    }
    for (number, mapping) in profile.mappings.iter().enumerate() {
        let path = tables.strings.number(&quarry_wary::plain(&mapping.path.to_string_lossy()));
        tables.out.message(3, |out| {
            out.number(1, number as u64 + 1);
            out.number(2, mapping.start);
            out.number(3, mapping.limit);
            out.number(4, mapping.offset);
            out.number(5, path);
            // The profile has the names, so pprof need not look for them.
            (7..=10).for_each(|field| out.number(field, 1));
        });
    }
    tables.out.number(9, profile.started_ns);
    tables.out.number(10, profile.duration_ns);
    tables.value_type(11, "space", "bytes");
    tables.out.number(12, profile.mean);
    let lost = format!("samples: {}, lost: {}", profile.samples, profile.lost);
    let comment = tables.strings.number(&lost);
    tables.out.numbers(13, [comment].into_iter());
    let shown = tables.strings.number(VALUES[shown.space()].0);
    tables.out.number(14, shown);
    for text in &tables.strings.all {
        tables.out.bytes(6, text.as_bytes());
    }
    let mut gz = GzEncoder::new(out, Compression::default());
    gz.write_all(&tables.out.0)?;
    gz.finish()?.flush()
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
        message.numbers(6, [3, 270, 86_942].into_iter());
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.0, expected);
    }
}
