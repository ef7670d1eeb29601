//! The format of pprof: `profile.proto` of github.com/google/pprof, compressed with gzip.

use crate::profile::{Profile, VALUES, View};
use crate::protobuf::{Layout, Tables};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

const LAYOUT: Layout = Layout {
    mappings: 3,
    locations: 4,
    functions: 5,
    strings: 6,
    first: 2,
    of_mappings: &[],
    of_locations: &[],
};

/// Writes a profile for pprof, which shows `shown` first.
pub(crate) fn write(profile: &Profile, shown: View, out: impl Write) -> io::Result<()> {
    let mut tables = Tables::of(LAYOUT, &profile.mappings);
    let values = profile.values();
    for (name, unit) in values {
        tables.strings.value_type(&mut tables.out, 1, name, unit);
    }
    for stack in &profile.stacks {
        let locations = tables.locations(&stack.frames);
        tables.out.message(2, |sample| {
            sample.numbers(1, locations);
            sample.numbers(2, stack.values[..values.len()].iter().map(|value| *value as u64));
        });
    }
    tables.out.number(9, profile.started_ns);
    tables.out.number(10, profile.duration_ns);
    tables.strings.value_type(&mut tables.out, 11, "space", "bytes");
    tables.out.number(12, profile.mean);
    let comment = tables.strings.number(&profile.comment());
    tables.out.numbers(13, [comment]);
    let shown = tables.strings.number(VALUES[shown.space()].0);
    tables.out.number(14, shown);
    let mut gz = GzEncoder::new(out, Compression::default());
    gz.write_all(&tables.finish().0)?;
    gz.finish()?.flush()
}
