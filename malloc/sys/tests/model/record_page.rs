//! The statistics page: processes claim records, publish in them and lose them, while a reader
//! copies words at any moment. A `Publisher` stands for a process: they share only the page.

use crate::{check, expect_failure};
use quarry_record::{Head, Owner, RECORDS, Sequence, body, sum};
use quarry_sys::record_page::{Published, Publisher, RecordPage, STALE_NS};

/// Words of the body that a publication writes, all with the same number.
const WORDS: [usize; 2] = [body::START, body::START + 1];

/// A page of one run.
struct Shared(*mut RecordPage);

// SAFETY: all memory at the pointer is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Self {
        // SAFETY: a page is all zero bytes at first.
        let page: Box<RecordPage> = unsafe { Box::new_zeroed().assume_init() };
        Self(Box::into_raw(page))
    }

    fn page(&self) -> &RecordPage {
        // SAFETY: allocated in `new`, and freed when this is dropped.
        unsafe { &*self.0 }
    }

    /// A process that has mapped the page, and has made it unless `is_child` is true.
    fn process(&self, is_child: bool) -> Publisher {
        let publisher = Publisher::new();
        // SAFETY: the page lives as long as the run, and all code writes it by atomic words.
        unsafe { publisher.open(self.0) };
        if is_child {
            publisher.adopt_in_child();
        }
        publisher
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the run's threads have been joined.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Publishes a number that is made of the process and the publication.
fn publish(process: &Publisher, pid: u32, time: u64, now_ns: u64) -> Published {
    let number = u64::from(pid) * 100 + time;
    process.publish(now_ns, pid, |sink| {
        WORDS.iter().for_each(|at| sink.put(*at, number));
        sum::sum(WORDS.map(|at| (at, number)))
    })
}

/// Copies a record that seems published completely: its owner, and the numbers in it.
fn read(page: &RecordPage, record: usize, trusts_all: bool) -> Option<(Owner, [u64; 2])> {
    let sequence = || Sequence::from_word(page.word(record, Head::SEQUENCE_AT));
    let before = sequence();
    let owner = Owner::from_word(page.word(record, Head::OWNER_AT));
    let numbers = WORDS.map(|at| page.word(record, at));
    let found = page.word(record, Head::SUM_AT);
    let is_at_rest = before == sequence() && !before.is_writing() && before.count > 0;
    let is_owned = before.generation == owner.generation;
    let is_whole = found == Head::sum_for(owner, sum::sum(WORDS.into_iter().zip(numbers)));
    let is_publication = is_at_rest && is_owned && is_whole;
    (trusts_all && found != 0 || is_publication).then_some((owner, numbers))
}

fn assert_whole((owner, numbers): (Owner, [u64; 2])) {
    assert_eq!(numbers[0], numbers[1], "a mixture of two publications");
    assert_eq!(numbers[0] / 100, u64::from(owner.pid), "another process's publication");
}

/// A process publishes twice while another one reads.
fn a_reader(trusts_all: bool) {
    let shared = Shared::new();
    shuttle::thread::scope(|scope| {
        let shared = &shared;
        scope.spawn(move || {
            let process = shared.process(false);
            for time in 1..=2 {
                assert_eq!(publish(&process, 7, time, 1), Published::Done);
            }
        });
        for _ in 0..2 {
            read(shared.page(), 0, trusts_all).into_iter().for_each(assert_whole);
        }
    });
    let (owner, numbers) = read(shared.page(), 0, false).expect("it is at rest");
    assert_eq!((owner.pid, numbers[0]), (7, 702));
}

#[test]
fn a_reader_sees_whole_publications() {
    check(|| a_reader(false));
}

#[test]
fn a_reader_without_sequences_sees_mixtures() {
    expect_failure(|| a_reader(true));
}

/// Each of two children gets a record of its own, and neither gets the maker's.
#[test]
fn children_claim_different_records() {
    check(|| {
        let shared = Shared::new();
        shuttle::thread::scope(|scope| {
            for pid in [11, 12] {
                let shared = &shared;
                scope.spawn(move || {
                    let process = shared.process(true);
                    assert_eq!(publish(&process, pid, 1, 1), Published::Done);
                });
            }
        });
        let owners = [1, 2].map(|record| read(shared.page(), record, false).expect("at rest").0);
        let mut pids = owners.map(|owner| owner.pid);
        pids.sort_unstable();
        assert_eq!(pids, [11, 12]);
        assert!(read(shared.page(), 0, false).is_none());
    });
}

/// All records are old. One owner publishes again just when two other processes take records over.
/// An owner that loses its record notices it, and no reader accepts a mixture of two publications.
#[test]
fn a_record_that_passes_on_is_never_read_as_another_processes() {
    check(|| {
        let shared = Shared::new();
        let owner = shared.process(true);
        for record in 1..RECORDS as u32 {
            let other = shared.process(true);
            let process = if record == 1 { &owner } else { &other };
            // The first record is the oldest.
            let now_ns = u64::from(record);
            assert_eq!(publish(process, 20 + record, 1, now_ns), Published::Done);
        }
        let later = STALE_NS + RECORDS as u64;
        shuttle::thread::scope(|scope| {
            let (shared, owner) = (&shared, &owner);
            scope.spawn(move || publish(owner, 21, 2, later));
            for pid in [41, 42] {
                scope.spawn(move || publish(&shared.process(true), pid, 1, later));
            }
            read(shared.page(), 1, false).into_iter().for_each(assert_whole);
        });
        for record in 1..RECORDS {
            read(shared.page(), record, false).into_iter().for_each(assert_whole);
        }
    });
}
