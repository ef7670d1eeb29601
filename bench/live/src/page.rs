//! Copies the statistics page of a process, from a memfd or a core dump, and reads its records.

use crate::clock;
use crate::label::Label;
use crate::snapshot::Snapshot;
use quarry_record::{
    Head, PAGE_BYTES, RECORD_BYTES, RecordError, Snapshot as Record, record_of, records,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use std::{io, thread};

/// Maximum number of times to copy a record while it is being written, which takes microseconds.
const MOST_COPIES: u32 = 20;
const BETWEEN_COPIES: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) file: File,
    /// Offset of the page's first byte in the file.
    pub(crate) start: u64,
}

/// The reason why a page yields no record of a process.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unreadable(io::Error),
    NoRecord,
    Record(RecordError),
}

impl Page {
    /// The figures of the process `pid` called `name`, which has the number `own_pid` in its own
    /// pid namespace and began at `began_ns` or later.
    pub(crate) fn of_process(
        &self,
        pid: u32,
        own_pid: u32,
        name: &Label,
        began_ns: u64,
    ) -> Result<Snapshot, Refusal> {
        let mut tries = 1;
        loop {
            let copy = self.copy().map_err(Refusal::Unreadable)?;
            Head::parse(&copy).map_err(Refusal::Record)?;
            let at = record_of(&copy, own_pid, began_ns).ok_or(Refusal::NoRecord)?;
            match Record::parse(&copy[at * RECORD_BYTES..]) {
                Ok(record) => {
                    return Ok(Snapshot::of_record(&record, pid, name.clone(), clock::now_ns()));
                }
                Err(RecordError::Torn | RecordError::BeingWritten { .. })
                    if tries < MOST_COPIES =>
                {
                    tries += 1;
                    thread::sleep(BETWEEN_COPIES);
                }
                Err(error) => return Err(Refusal::Record(error)),
            }
        }
    }

    /// Offset of a process's record in the page; arguments as for [`of_process`](Self::of_process).
    pub(crate) fn record_at(&self, own_pid: u32, began_ns: u64) -> Option<usize> {
        let copy = self.copy().ok()?;
        Some(record_of(&copy, own_pid, began_ns)? * RECORD_BYTES)
    }

    /// The figures of every process in the page, numbered as in its own pid namespace. Ages are
    /// computed for the time `now_ns`; if it is 0, ages are unknown. Unusable records are left out.
    pub(crate) fn all(&self, now_ns: u64) -> io::Result<Vec<Snapshot>> {
        let copy = self.copy()?;
        let usable = records(&copy).filter_map(|bytes| Record::parse(bytes).ok());
        let figures =
            usable.map(|it| Snapshot::of_record(&it, it.owner().pid, Label::default(), now_ns));
        Ok(figures.collect())
    }

    /// The error of the first record, that of the process which made the page.
    pub(crate) fn first_error(&self) -> io::Result<Option<RecordError>> {
        Ok(Record::parse(&self.copy()?).err())
    }

    fn copy(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PAGE_BYTES];
        self.file.read_exact_at(&mut bytes, self.start)?;
        Ok(bytes)
    }
}
