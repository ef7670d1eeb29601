//! A copy of a process's page, and the record in it that is asked for.

use quarry_record::{Head, Owner, PAGE_BYTES, RECORD_BYTES, RecordError, Snapshot};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

/// Most copies of a record that is written again and again; a writer needs microseconds.
const MOST_COPIES: u32 = 20;
/// Time between two copies.
const BETWEEN_COPIES: Duration = Duration::from_micros(500);

/// The page of a process, in its memfd or in the file of a dump.
#[derive(Debug)]
pub(crate) struct Page {
    file: File,
    /// Where it begins in the file.
    start: u64,
}

/// A record's bytes, which have been checked once.
#[derive(Clone, Debug)]
pub(crate) struct Copy(Vec<u8>);

impl Copy {
    pub(crate) fn record(&self) -> Result<Snapshot<'_>, RecordError> {
        Snapshot::parse(&self.0)
    }
}

impl Page {
    pub(crate) fn new(file: File, start: u64) -> Self {
        Self { file, start }
    }

    /// The owners of all records; an error where the page has another layout.
    pub(crate) fn owners(&self) -> io::Result<Result<Vec<Owner>, RecordError>> {
        let mut owners = Vec::new();
        for record in 0..PAGE_BYTES / RECORD_BYTES {
            match Head::parse(&self.bytes(record)?) {
                Ok(head) => owners.push(head.owner()),
                // Records that were never claimed are empty.
                Err(RecordError::NotARecord) if record > 0 => owners.push(Owner::default()),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(owners))
    }

    /// A copy of a record that nobody wrote meanwhile.
    pub(crate) fn copy(&self, record: usize) -> io::Result<Result<Copy, RecordError>> {
        let mut tries = 0;
        loop {
            let copy = Copy(self.bytes(record)?);
            let error = match copy.record() {
                Ok(_) => return Ok(Ok(copy)),
                Err(error) => error,
            };
            tries += 1;
            let may_pass = matches!(
                error,
                RecordError::Torn | RecordError::BeingWritten { .. } | RecordError::Malformed
            );
            if !may_pass || tries == MOST_COPIES {
                return Ok(Err(error));
            }
            thread::sleep(BETWEEN_COPIES);
        }
    }

    fn bytes(&self, record: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; RECORD_BYTES];
        self.file.read_exact_at(&mut bytes, self.start + (record * RECORD_BYTES) as u64)?;
        Ok(bytes)
    }
}
