//! The profile in the form of pprof (`proto/profile.proto` of google/pprof), without names: pprof
//! finds them in the program's files.

use crate::error::Error;
use crate::instance::{is_ready, profile};
use quarry_sys::primitive::Ordering::Relaxed;
use quarry_watch::profile::Area;
use quarry_watch::profile::layout::{
    BUCKET_WORDS, Bucket, HEAD_WORDS, Head, MOST_FRAMES, SIZE_OF_FREES, SIZE_OF_PINS, TRACE_WRITTEN,
};
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

const TEXTS: [&str; 7] =
    ["", "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space"];
/// The values of a sample, as places of their name and unit in [`TEXTS`].
const VALUES: [(u64, u64); 4] = [(1, 2), (3, 4), (5, 2), (6, 4)];
const BYTES: u64 = 4;
const INUSE_SPACE: u64 = 6;

/// The current profile, or else the last one, as pprof reads it: for a handler of
/// `/debug/pprof/heap`. Addresses of code have no names, so pprof needs the program's files. May be
/// called while the profile is on. O(size), up to some MiB.
///
/// # Errors
/// [`Error::NoProfile`], or the system's error for `/proc/self/maps`.
pub fn pprof() -> Result<Vec<u8>, Error> {
    let area = is_ready().then(|| profile().area()).flatten().ok_or(Error::NoProfile)?;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| {
        Error::System(quarry_sys::os::OsError(error.raw_os_error().unwrap_or(libc::EIO)))
    })?;
    let mut out = Message::default();
    for (name, unit) in VALUES {
        out.message(1, |value| value.number(1, name).number(2, unit));
    }
    let mut places = BTreeMap::new();
    let buckets = area.head(Head::Buckets).load(Relaxed) as usize;
    let mean = area.head(Head::Mean).load(Relaxed).max(1);
    for number in 0..buckets {
        if let Some((frames, values)) = sample(area, number, buckets, mean) {
            let ids = frames.iter().map(|address| {
                let next = places.len() as u64 + 1;
                *places.entry(*address).or_insert(next)
            });
            let ids: Vec<u64> = ids.collect();
            out.message(2, |sample| sample.numbers(1, &ids).numbers(2, &values));
        }
    }
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).into()).collect();
    let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
    for (number, mapping) in (1..).zip(&mappings) {
        let name = texts.len() as u64;
        texts.push(mapping.file.into());
        out.message(3, |of| {
            of.number(1, number).number(2, mapping.start).number(3, mapping.end);
            of.number(4, mapping.offset).number(5, name)
        });
    }
    for (address, id) in &places {
        let holds = |it: &Mapping| (it.start..it.end).contains(address);
        let mapping = mappings.iter().position(holds).map_or(0, |place| place as u64 + 1);
        out.message(4, |of| of.number(1, *id).number(2, mapping).number(3, *address));
    }
    for text in &texts {
        out.bytes(6, text.as_bytes());
    }
    out.number(9, area.head(Head::Started).load(Relaxed));
    out.message(11, |period| period.number(1, INUSE_SPACE).number(2, BYTES));
    out.number(12, mean).number(14, INUSE_SPACE);
    Ok(out.0)
}

/// The addresses of the calls of a bucket, and its estimated values; `None` for one of frees.
fn sample(area: &Area, number: usize, buckets: usize, mean: u64) -> Option<(Vec<u64>, [u64; 4])> {
    let word = |word: Bucket| area.load(HEAD_WORDS + number * BUCKET_WORDS + word as usize);
    let (trace, size) = (word(Bucket::Trace), word(Bucket::Size));
    let is_other = size & (SIZE_OF_FREES | SIZE_OF_PINS) != 0;
    if word(Bucket::Key) == 0 || trace & TRACE_WRITTEN == 0 || is_other {
        return None;
    }
    let first = ((trace & !TRACE_WRITTEN) >> 16) as usize;
    let count = (trace & 0xffff).min(MOST_FRAMES as u64) as usize;
    let frames = HEAD_WORDS + buckets * BUCKET_WORDS + first;
    // The addresses are those to which the calls return.
    let calls = (0..count).map(|at| area.load(frames + at).saturating_sub(1)).collect();
    let (objects, bytes) = (word(Bucket::Allocated), word(Bucket::AllocatedBytes));
    let left = objects.saturating_sub(word(Bucket::Freed));
    let left_bytes = bytes.saturating_sub(word(Bucket::FreedBytes));
    let each = bytes as f64 / (objects.max(1) as f64) / mean as f64;
    // An object of `n` bytes is a sample with the probability `1 - exp(-n / mean)`.
    let times = 1.0 / -(-each.max(1e-9)).exp_m1();
    let values = [objects, bytes, left, left_bytes];
    Some((calls, values.map(|value| (value as f64 * times).round() as u64)))
}

struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    file: &'a str,
}

impl<'a> Mapping<'a> {
    /// A mapping with code; `line` is one of `/proc/self/maps`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        words.next().filter(|access| access.contains('x'))?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(words.next()?)?;
        let file = words.nth(2).unwrap_or("");
        Some(Self { start: number(start)?, end: number(end)?, offset, file })
    }
}

/// A message of Protocol Buffers, as far as a profile needs them.
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

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn numbers(&mut self, field: u64, values: &[u64]) -> &mut Self {
        let mut inner = Self::default();
        values.iter().for_each(|value| inner.varint(*value));
        self.bytes(field, &inner.0)
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self) -> &mut Self) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}
