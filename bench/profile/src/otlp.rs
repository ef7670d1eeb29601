//! A profile as OpenTelemetry's collectors take it: `ExportProfilesServiceRequest` of the package
//! `opentelemetry.proto.collector.profiles.v1development`, in the form of opentelemetry-proto 1.10.

use crate::profile::{Profile, VALUES, View, add};
use crate::protobuf::{Layout, Message, Tables};
use std::collections::BTreeMap;

/// Entries of the table of attributes: a key, and a text, else true. Entry 0 of a table is empty.
const ATTRIBUTES: [(&str, Option<&str>); 5] = [
    ("pprof.mapping.has_functions", None),
    ("pprof.mapping.has_filenames", None),
    ("pprof.mapping.has_line_numbers", None),
    ("pprof.mapping.has_inline_frames", None),
    ("profile.frame.type", Some("native")),
];

/// The entry of [`ATTRIBUTES`] behind those: how many samples the profile has.
const COMMENT: u64 = ATTRIBUTES.len() as u64 + 1;

const LAYOUT: Layout = Layout {
    mappings: 1,
    locations: 2,
    functions: 3,
    strings: 5,
    first: 1,
    of_mappings: &[1, 2, 3, 4],
    of_locations: &[5],
};

/// Fields of the tables that only this format has.
const LINKS: u64 = 4;
const ATTRIBUTE: u64 = 6;
const STACK: u64 = 7;

/// A value of an attribute.
pub(crate) enum Value<'a> {
    Text(&'a str),
    Number(u64),
}

impl Value<'_> {
    fn write(&self, out: &mut Message, field: u64) {
        out.message(field, |value| match self {
            Self::Text(text) => value.bytes(1, text.as_bytes()),
            Self::Number(number) => value.number(3, *number),
        });
    }
}

fn attributes(tables: &mut Tables, comment: &str) {
    for (key, text) in ATTRIBUTES {
        let key = tables.strings.number(key);
        tables.out.message(ATTRIBUTE, |entry| {
            entry.number(1, key);
            match text {
                Some(text) => Value::Text(text).write(entry, 2),
                None => entry.message(2, |value| value.number(2, 1)),
            }
        });
    }
    let key = tables.strings.number("pprof.profile.comment");
    tables.out.message(ATTRIBUTE, |entry| {
        entry.number(1, key);
        entry.message(2, |value| value.message(5, |list| Value::Text(comment).write(list, 1)));
    });
}

/// A request that hands a profile over, with the attributes of its process. A receiver shows
/// `shown` first.
pub(crate) fn request(profile: &Profile, shown: View, process: &[(&str, Value)]) -> Vec<u8> {
    let mut tables = Tables::of(LAYOUT, &profile.mappings);
    for table in [LINKS, ATTRIBUTE, STACK] {
        tables.out.message(table, |_| {});
    }
    attributes(&mut tables, &profile.comment());
    // The format wants each stack once.
    let mut stacks: BTreeMap<Vec<u64>, [i64; VALUES.len()]> = BTreeMap::new();
    for stack in &profile.stacks {
        let sums = stacks.entry(tables.locations(&stack.frames)).or_default();
        sums.iter_mut().zip(stack.values).for_each(|(sum, value)| add(sum, value));
    }
    for locations in stacks.keys() {
        tables.out.message(STACK, |stack| stack.numbers(1, locations.iter().copied()));
    }
    let mut request = Message::default();
    request.message(1, |resource| {
        resource.message(1, |resource| {
            for (key, value) in process {
                resource.message(1, |attribute| {
                    attribute.bytes(1, key.as_bytes());
                    value.write(attribute, 2);
                });
            }
        });
        resource.message(2, |scope| {
            scope.message(1, |scope| {
                scope.bytes(1, b"quarry");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            let mut values: Vec<_> = profile.values().iter().enumerate().collect();
            values.sort_by_key(|(value, _)| *value != shown.space());
            for (value, (name, unit)) in values {
                let samples = (1..).zip(stacks.values().map(|sums| sums[value]));
                scope.message(2, |out| {
                    tables.strings.value_type(out, 1, name, unit);
                    for (stack, value) in samples.filter(|(_, value)| *value != 0) {
                        out.message(2, |sample| {
                            sample.number(1, stack);
                            sample.numbers(4, [value as u64]);
                        });
                    }
                    out.fixed(3, profile.started_ns);
                    out.number(4, profile.duration_ns);
                    tables.strings.value_type(out, 5, "space", "bytes");
                    out.number(6, profile.mean);
                    out.numbers(11, [COMMENT]);
                });
            }
        });
    });
    request.bytes(2, &tables.finish().0);
    request.0
}
