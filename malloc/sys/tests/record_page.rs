//! The statistics page between real processes: a process dies in the middle of a publication.
#![cfg(not(any(miri, quarry_model, quarry_sim)))]

use quarry_record::{
    About, Draft, PAGE_BYTES, RECORD_BYTES, RECORDS, RecordError, Snapshot, record_of,
};
use quarry_sys::memfd::map_sealed;
use quarry_sys::record_page::{Published, Publisher, RecordPage, STALE_NS};

/// A process that has made a page, and a reader's copy of that page.
struct Maker {
    publisher: Publisher,
    page: *const u8,
}

impl Maker {
    fn new() -> Self {
        let (memory, _) =
            map_sealed(c"quarry-test-page", PAGE_BYTES, 100).expect("there are memfds");
        let publisher = Publisher::new();
        // SAFETY: a fresh mapping that is never unmapped.
        unsafe { publisher.open(memory.as_ptr().cast::<RecordPage>()) };
        Self { publisher, page: memory.as_ptr() }
    }

    fn publish(&self, pid: u32, now_ns: u64, cpus: u32) -> Published {
        self.publisher.publish(now_ns, pid, |sink| {
            Draft::new(sink).finish(About { cpus, ..About::default() })
        })
    }

    fn copy(&self) -> Vec<u8> {
        let mut copy = vec![0; PAGE_BYTES];
        // SAFETY: the mapping has so many bytes, and no process writes at the moment.
        unsafe { self.page.copy_to_nonoverlapping(copy.as_mut_ptr(), PAGE_BYTES) };
        copy
    }
}

fn record(copy: &[u8], at: usize) -> &[u8] {
    &copy[at * RECORD_BYTES..][..RECORD_BYTES]
}

/// Runs `work` in the child of a fork; returns how the child ended.
fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child calls only kill, _exit and the publisher, which allocates nothing and takes
    // no lock.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork");
        if child == 0 {
            work();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

#[test]
fn a_process_that_dies_while_it_publishes_is_seen_to_have_begun() {
    let maker = Maker::new();
    assert_eq!(maker.publish(10, 5, 2), Published::Done);
    let status = in_child(|| {
        maker.publisher.adopt_in_child();
        assert_eq!(maker.publish(11, 6, 3), Published::Done);
        maker.publisher.publish(7, 11, |sink| {
            sink.put(quarry_record::body::START, 1);
            // SAFETY: kill and getpid have no preconditions.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            0
        });
    });
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    let copy = maker.copy();
    let found = record_of(&copy, 11, 0).expect("it had claimed a record");
    assert_eq!(found, 1);
    let error = Snapshot::parse(record(&copy, found)).expect_err("it is not whole");
    assert!(matches!(error, RecordError::BeingWritten { owner } if owner.pid == 11), "{error}");
    let own = Snapshot::parse(record(&copy, 0)).map(|it| it.about().cpus);
    assert_eq!(own, Ok(2), "its parent's record is what it was");

    // Once its record is old, other processes take it over.
    for pid in 20..20 + RECORDS as u32 {
        let now_ns = 7 + STALE_NS;
        let status = in_child(|| {
            maker.publisher.adopt_in_child();
            let published = maker.publish(pid, now_ns, pid);
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(i32::from(published != Published::Done)) };
        });
        let has_record = pid < 20 + RECORDS as u32 - 1;
        assert_eq!(libc::WEXITSTATUS(status) == 0, has_record, "{pid}");
    }
    let copy = maker.copy();
    let snapshot = Snapshot::parse(record(&copy, 1)).expect("another process's publication");
    assert!(snapshot.owner().pid >= 20 && snapshot.owner().generation == 2);
}
