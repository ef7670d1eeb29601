//! The sampled objects that are in use.
//!
//! A record stays at its place, so any task that has its number may read it. Free records form a
//! linked stack. Its head counts changes, so that an interrupted task detects that another task has
//! taken and returned a record in between (ABA).

use quarry_mm::frame::{OsArray, Pfn, fresh_zero};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

/// Number of records: 32 GiB of live objects at a mean of 512 KiB.
pub const MOST_RECORDS: usize = if cfg!(any(test, quarry_model)) { 32 } else { 64 << 10 };

/// The number that stands for no record.
pub(crate) const NO_RECORD: u32 = 0;

fresh_zero! {
    /// One sampled object. The user of the object owns its record too.
    struct Record {
        /// Bytes that were requested.
        size: AtomicU64,
        /// The first frame of the object, which identifies the object's address.
        pfn: AtomicU32,
        /// Frames of the object's block; 0 for a mapping, which has its own descriptor.
        frames: AtomicU32,
        /// Bytes that the program may use.
        usable: AtomicU32,
        /// The bucket in which the object's free is counted.
        bucket: AtomicU32,
        /// The session of the profile whose sample this is.
        session: AtomicU32,
        next: AtomicU32,
    }
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) size: usize,
    pub(crate) pfn: Pfn,
    pub(crate) frames: u32,
    pub(crate) usable: usize,
    pub(super) bucket: u32,
    pub(super) session: u32,
}

/// Equation: `records = in use + free in the stack + never used`.
pub(super) struct Records {
    records: OsArray<Record>,
    /// `{changes : 32 | first free record : 32}`.
    free: AtomicU64,
    /// Number of records ever used; the first one is never given out.
    used: AtomicU32,
}

impl Records {
    pub(super) fn new(os: &'static dyn Os) -> OsResult<Self> {
        let records = OsArray::zeroed(os, MOST_RECORDS)?;
        Ok(Self { records, free: AtomicU64::new(0), used: AtomicU32::new(1) })
    }

    pub(super) const BYTES: usize = MOST_RECORDS * size_of::<Record>();

    /// Takes a free record; `None` if all are in use. O(1), without a lock.
    pub(super) fn take(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != NO_RECORD {
            let next = self.records.at(head as u32 as usize).next.load(Ordering::Relaxed);
            let rest = changed(head, next);
            match self.free.compare_exchange(head, rest, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(head as u32),
                Err(now) => head = now,
            }
        }
        let fits = |used: u32| (used < MOST_RECORDS as u32).then_some(used + 1);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()
    }

    pub(super) fn give(&self, number: u32) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            self.records.at(number as usize).next.store(head as u32, Ordering::Relaxed);
            let mine = changed(head, number);
            match self.free.compare_exchange(head, mine, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub(super) fn write(&self, number: u32, sampled: &Sampled) {
        let record = self.records.at(number as usize);
        record.size.store(sampled.size as u64, Ordering::Relaxed);
        record.pfn.store(sampled.pfn.0, Ordering::Relaxed);
        record.frames.store(sampled.frames, Ordering::Relaxed);
        record.usable.store(sampled.usable as u32, Ordering::Relaxed);
        record.bucket.store(sampled.bucket, Ordering::Relaxed);
        record.session.store(sampled.session, Ordering::Relaxed);
    }

    pub(super) fn read(&self, number: u32) -> Option<Sampled> {
        if number == NO_RECORD || number as usize >= MOST_RECORDS {
            return None;
        }
        let record = self.records.at(number as usize);
        Some(Sampled {
            size: record.size.load(Ordering::Relaxed) as usize,
            pfn: Pfn(record.pfn.load(Ordering::Relaxed)),
            frames: record.frames.load(Ordering::Relaxed),
            usable: record.usable.load(Ordering::Relaxed) as usize,
            bucket: record.bucket.load(Ordering::Relaxed),
            session: record.session.load(Ordering::Relaxed),
        })
    }
}

fn changed(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;
    use quarry_sys::os::Linux;

    #[test]
    fn each_record_is_taken_once_and_comes_back() {
        let records = Records::new(&Linux).expect("memory");
        let mut taken: Vec<u32> = core::iter::from_fn(|| records.take()).collect();
        assert_eq!(taken.len(), MOST_RECORDS - 1);
        assert!(taken.iter().all(|number| *number != NO_RECORD));
        for number in taken.iter().step_by(2) {
            records.give(*number);
        }
        let again: Vec<u32> = core::iter::from_fn(|| records.take()).collect();
        assert_eq!(again.len(), taken.len().div_ceil(2));
        let mut all: Vec<u32> = taken.iter().skip(1).step_by(2).copied().chain(again).collect();
        all.sort_unstable();
        taken.sort_unstable();
        assert_eq!(all, taken);
    }

    #[test]
    fn what_is_written_is_read() {
        let records = Records::new(&Linux).expect("memory");
        let number = records.take().expect("a record");
        let sampled =
            Sampled { size: 5, pfn: Pfn(7), frames: 1, usable: 16, bucket: 3, session: 1 };
        records.write(number, &sampled);
        assert_eq!(records.read(number), Some(sampled));
        assert_eq!(records.read(NO_RECORD), None);
        assert_eq!(records.read(u32::MAX), None);
    }
}
