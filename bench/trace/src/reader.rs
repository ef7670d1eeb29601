//! Reads a trace.

use crate::event::{Decoder, Event};
use crate::layout::{
    AT_CHUNK_BYTES, AT_CHUNK_START, AT_CHUNK_THREAD, AT_CHUNK_USED, AT_COMMAND, AT_COMMAND_LENGTH,
    AT_LOST, AT_USED_CHUNKS, AT_VERSION, CHUNK_BYTES, CHUNK_HEADER_BYTES, COMMAND_BYTES,
    HEADER_BYTES, MAGIC, VERSION, file_bytes,
};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A file that is no trace, or a trace that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Unreadable(PathBuf, io::Error),
    /// The file is no trace; the text names the content that was found.
    #[error("{path}: not a trace of `quarry record`: {1}", path = .0.display())]
    Foreign(PathBuf, String),
    /// Another version of Quarry wrote it.
    #[error(
        "{path}: a trace of version {1}, and this quarry reads version {VERSION}",
        path = .0.display()
    )]
    Version(PathBuf, u32),
    /// A part of it is missing or wrong, as the text tells.
    #[error("{path}: damaged {1}", path = .0.display())]
    Damaged(PathBuf, String),
}

/// The calls of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The command line, its words separated by spaces.
    pub command: String,
    /// Number of calls not recorded: there was no room left, or a signal handler made them.
    pub lost: u64,
    /// The events of each thread, by time. Threads are in the order of their first allocations.
    pub threads: Vec<Vec<Event>>,
    /// Bytes of the events.
    pub event_bytes: u64,
    /// Number of chunks in use.
    pub chunks: usize,
}

impl Trace {
    /// Reads the trace at `path`. O(events), in time and memory.
    ///
    /// # Errors
    /// If the file cannot be read, is no trace, is one of another version, or is damaged.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let bytes = quarry_wary::read(path, u64::MAX)
            .map_err(|error| TraceError::Unreadable(path.into(), error))?;
        File { path, bytes: &bytes }.trace()
    }

    /// Checks, by its header, that the file at `path` is a trace that the tracer has written. O(1).
    ///
    /// # Errors
    /// As for [`read`](Self::read), except damage after the header.
    pub fn check(path: &Path) -> Result<(), TraceError> {
        let unreadable = |error| TraceError::Unreadable(path.into(), error);
        let mut header = Vec::new();
        let file = quarry_wary::open(path).map_err(unreadable)?;
        file.take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(unreadable)?;
        File { path, bytes: &header }.check_header()
    }

    /// Calls of all threads.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

struct File<'a> {
    path: &'a Path,
    bytes: &'a [u8],
}

impl File<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn trace(&self) -> Result<Trace, TraceError> {
        self.check_header()?;
        let chunks = self.u32(AT_USED_CHUNKS) as usize;
        let length = (self.u32(AT_COMMAND_LENGTH) as usize).min(COMMAND_BYTES);
        let command = &self.bytes[AT_COMMAND..AT_COMMAND + length];
        let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        let mut threads = BTreeMap::<u32, Vec<Event>>::new();
        let mut event_bytes = 0;
        for chunk in 0..chunks {
            event_bytes += self.read_chunk(chunk, chunks, &mut threads)?;
        }
        Ok(Trace {
            command: words.join(" "),
            lost: self.u64(AT_LOST),
            threads: threads.into_values().collect(),
            event_bytes,
            chunks,
        })
    }

    fn check_header(&self) -> Result<(), TraceError> {
        let foreign = |what: String| Err(TraceError::Foreign(self.path.into(), what));
        if !self.bytes.starts_with(&MAGIC) {
            let first = &self.bytes[..self.bytes.len().min(MAGIC.len())];
            return foreign(format!("it begins with {:?}", String::from_utf8_lossy(first)));
        }
        if self.bytes.len() < HEADER_BYTES {
            return foreign(format!("it has {} bytes, less than a header", self.bytes.len()));
        }
        let found = self.u32(AT_VERSION);
        if found != VERSION {
            return Err(TraceError::Version(self.path.into(), found));
        }
        let chunk_bytes = self.u32(AT_CHUNK_BYTES);
        if chunk_bytes as usize != CHUNK_BYTES {
            return foreign(format!("its chunks have {chunk_bytes} bytes, not {CHUNK_BYTES}"));
        }
        Ok(())
    }

    /// Adds the events of a chunk to those of its thread; returns the bytes they take.
    fn read_chunk(
        &self,
        chunk: usize,
        chunks: usize,
        threads: &mut BTreeMap<u32, Vec<Event>>,
    ) -> Result<u64, TraceError> {
        let damaged = |what: &str| {
            let what = format!("in chunk {chunk} of {chunks}: {what}");
            Err(TraceError::Damaged(self.path.into(), what))
        };
        let at = file_bytes(chunk);
        if self.bytes.len() < at + CHUNK_BYTES {
            return damaged("the file ends before it");
        }
        let (thread, used) =
            (self.u32(at + AT_CHUNK_THREAD), self.u32(at + AT_CHUNK_USED) as usize);
        if used > CHUNK_BYTES - CHUNK_HEADER_BYTES {
            return damaged("it has more events than room");
        }
        if thread == 0 {
            // The thread ended after it had claimed the chunk and before it wrote to it.
            return if used == 0 { Ok(0) } else { damaged("it belongs to no thread") };
        }
        let first = at + CHUNK_HEADER_BYTES;
        let bytes = &self.bytes[first..first + used];
        let mut decoder = Decoder::new(self.u64(at + AT_CHUNK_START), bytes);
        let events = threads.entry(thread).or_default();
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return Ok(used as u64),
                Err(what) => return damaged(what),
            }
        }
    }
}
