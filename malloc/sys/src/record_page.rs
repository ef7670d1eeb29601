//! The statistics page as processes share it: ownership of its records, and publications.
//!
//! The crate `quarry_record` defines the layout, its module `head` the protocol. A process changes
//! a word of the page only while it owns the record; `owner` and `sequence` change by
//! compare-and-swap. If two processes both believe that they own a record, only the one whose
//! generation is in `sequence` can publish. The other one notices when it begins or ends a
//! publication. Until then, words that it writes make the sum wrong; the owner overwrites them.
//!
//! Without a system call, a process cannot find out whether another process is alive. So a record
//! whose last publication is old ([`STALE_NS`]) passes to a child that finds no free record. If the
//! old owner is alive after all, it notices the loss at its next publication, and claims another
//! record. The record of the process that made the page never passes to another.

use crate::primitive::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};
use core::ptr::null_mut;
use quarry_record::{
    Head, MAGIC, Owner, PAGE_BYTES, RECORD_WORDS, RECORDS, Sequence, Sink, VERSION,
};

/// A record may pass to another process once it was neither claimed nor published in for this long:
/// 2 s, twenty times the interval at which a working process publishes.
pub const STALE_NS: u64 = 2_000_000_000;

#[repr(C)]
struct SharedRecord {
    words: [AtomicU64; RECORD_WORDS],
}

/// The page; initially all zero bytes. Its memory is shared by processes, so another program may
/// write anything into it.
#[repr(C)]
pub struct RecordPage {
    records: [SharedRecord; RECORDS],
}

const _: () = assert!(size_of::<RecordPage>() == PAGE_BYTES);

struct Body<'a>(&'a SharedRecord);

impl Sink for Body<'_> {
    fn put(&mut self, at: usize, word: u64) {
        self.0.words[at].store(word, Relaxed);
    }
}

impl SharedRecord {
    fn owner(&self) -> Owner {
        Owner::from_word(self.words[Head::OWNER_AT].load(Acquire))
    }

    /// The time when the owner last claimed the record or published in it.
    fn touched_ns(&self) -> u64 {
        let [claimed, published] =
            [Head::CLAIMED_AT, Head::PUBLISHED_AT].map(|at| self.words[at].load(Relaxed));
        claimed.max(published)
    }

    fn claim(&self, before: Owner, pid: u32, now_ns: u64) -> Option<Owner> {
        // Not 0, which is the generation in the sequence of a record that was never claimed.
        let generation = before.generation.wrapping_add(1).max(1);
        let owner = Owner { generation, pid };
        let word = &self.words[Head::OWNER_AT];
        word.compare_exchange(before.to_word(), owner.to_word(), AcqRel, Relaxed).ok()?;
        self.words[Head::CLAIMED_AT].store(now_ns, Relaxed);
        self.words[Head::PUBLISHED_AT].store(0, Relaxed);
        self.words[Head::PUBLICATIONS_AT].store(0, Relaxed);
        self.words[Head::MAGIC_AT].store(MAGIC, Relaxed);
        let version = u64::from(VERSION) | (RECORD_WORDS as u64) << 32;
        self.words[Head::VERSION_AT].store(version, Relaxed);
        let sequence = Sequence { generation, count: 0 };
        self.words[Head::SEQUENCE_AT].store(sequence.to_word(), Release);
        Some(owner)
    }

    /// Begins a publication; `None` where another process owns the record.
    fn begin(&self, owner: Owner) -> Option<Sequence> {
        let word = &self.words[Head::SEQUENCE_AT];
        let before = Sequence::from_word(word.load(Acquire));
        let is_ours = self.owner() == owner && before.generation == owner.generation;
        if !is_ours || before.is_writing() {
            return None;
        }
        let writing = before.next();
        word.compare_exchange(before.to_word(), writing.to_word(), AcqRel, Relaxed).ok()?;
        // No reader sees a new word of the body before it sees that a publication has begun.
        fence(Release);
        Some(writing)
    }

    /// Ends a publication; false if another process has claimed the record since it began.
    fn end(&self, writing: Sequence) -> bool {
        let word = &self.words[Head::SEQUENCE_AT];
        let after = writing.next().to_word();
        word.compare_exchange(writing.to_word(), after, Release, Relaxed).is_ok()
    }
}

impl RecordPage {
    /// Claims the first record. Only for the process that made the page.
    fn claim_first(&self, pid: u32, now_ns: u64) -> Option<(usize, Owner)> {
        let record = &self.records[0];
        record.claim(record.owner(), pid, now_ns).map(|owner| (0, owner))
    }

    /// Claims a free record, or else the one with the oldest `touched_ns`, if that is stale. O(1).
    fn claim(&self, pid: u32, now_ns: u64) -> Option<(usize, Owner)> {
        for (at, record) in self.records.iter().enumerate().skip(1) {
            let owner = record.owner();
            if owner.is_vacant()
                && let Some(owner) = record.claim(owner, pid, now_ns)
            {
                return Some((at, owner));
            }
        }
        let others = self.records.iter().enumerate().skip(1);
        let (at, owner, touched) = others
            .map(|(at, record)| (at, record.owner(), record.touched_ns()))
            .min_by_key(|(_, _, touched)| *touched)?;
        let is_stale = now_ns.saturating_sub(touched) >= STALE_NS;
        let claimed = is_stale.then(|| self.records[at].claim(owner, pid, now_ns));
        claimed.flatten().map(|owner| (at, owner))
    }

    /// Returns a word of a record, as a reader in this process sees it.
    ///
    /// # Panics
    /// If the page has no such record, or the record no such word.
    #[must_use]
    pub fn word(&self, record: usize, at: usize) -> u64 {
        self.records[record].words[at].load(Acquire)
    }
}

/// The outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The publication is in the page.
    Done,
    /// Another publication is under way (perhaps this handler interrupted it), or there is no page.
    Busy,
    /// Other processes own all records.
    NoRecord,
    /// Another process owns the record now; the next publication claims a new one.
    Lost,
}

/// The page as one process uses it: at most one of its threads publishes at a time.
pub struct Publisher {
    page: AtomicPtr<RecordPage>,
    is_busy: AtomicBool,
    is_child: AtomicBool,
    record: AtomicU32,
    /// The word `owner` as this process wrote it; 0 until it claims a record.
    owner: AtomicU64,
}

impl Publisher {
    /// A publisher without a page.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            page: AtomicPtr::new(null_mut()),
            is_busy: AtomicBool::new(false),
            is_child: AtomicBool::new(false),
            record: AtomicU32::new(0),
            owner: AtomicU64::new(0),
        }
    }

    /// Starts to publish in a page that this process has made.
    ///
    /// # Safety
    /// The page stays mapped and writable while this lives; all code writes it by atomic words.
    pub unsafe fn open(&self, page: *mut RecordPage) {
        self.page.store(page, Release);
    }

    /// The page, if there is one.
    pub fn page(&self) -> Option<&RecordPage> {
        // SAFETY: null, or a page that stays mapped (the promise of `open`'s caller).
        unsafe { self.page.load(Acquire).as_ref() }
    }

    /// The address of the record that this process owns, if it owns one.
    pub fn own_record(&self) -> Option<usize> {
        let page = self.page()?;
        let is_owner = !Owner::from_word(self.owner.load(Relaxed)).is_vacant();
        let record = page.records.get(self.record.load(Relaxed) as usize)?;
        is_owner.then(|| core::ptr::from_ref(record) as usize)
    }

    /// Returns whether this process is a forked child of the process that made the page.
    pub fn is_child(&self) -> bool {
        self.is_child.load(Relaxed)
    }

    /// Publishes the body that `fill` writes, for the process `pid`; `fill` returns the body's sum.
    /// Never waits, and makes no system call.
    pub fn publish(
        &self,
        now_ns: u64,
        pid: u32,
        fill: impl FnOnce(&mut dyn Sink) -> u64,
    ) -> Published {
        let Some(page) = self.page() else { return Published::Busy };
        if self.is_busy.swap(true, Acquire) {
            return Published::Busy;
        }
        let published = self.publish_alone(page, now_ns, pid, fill);
        self.is_busy.store(false, Release);
        published
    }

    fn publish_alone(
        &self,
        page: &RecordPage,
        now_ns: u64,
        pid: u32,
        fill: impl FnOnce(&mut dyn Sink) -> u64,
    ) -> Published {
        let mut owner = Owner::from_word(self.owner.load(Relaxed));
        if owner.is_vacant() {
            let is_child = self.is_child();
            let claim = if is_child { RecordPage::claim } else { RecordPage::claim_first };
            let Some((record, claimed)) = claim(page, pid, now_ns) else {
                return Published::NoRecord;
            };
            self.record.store(record as u32, Relaxed);
            self.owner.store(claimed.to_word(), Relaxed);
            owner = claimed;
        }
        let record = &page.records[self.record.load(Relaxed) as usize];
        let Some(writing) = record.begin(owner) else {
            self.owner.store(0, Relaxed);
            return Published::Lost;
        };
        let publications = &record.words[Head::PUBLICATIONS_AT];
        publications.store(publications.load(Relaxed).wrapping_add(1), Relaxed);
        record.words[Head::PUBLISHED_AT].store(now_ns, Relaxed);
        let sum = Head::sum_for(owner, fill(&mut Body(record)));
        record.words[Head::SUM_AT].store(sum, Relaxed);
        if record.end(writing) {
            Published::Done
        } else {
            self.owner.store(0, Relaxed);
            Published::Lost
        }
    }

    /// Gives up the parent's record, in the child of a fork. If the parent had a page, the child
    /// will claim another record in it; if not, the child may make a page. A publication that
    /// another thread of the parent had begun stays unfinished.
    pub fn adopt_in_child(&self) {
        self.owner.store(0, Relaxed);
        self.is_child.store(self.page().is_some(), Relaxed);
        self.is_busy.store(false, Release);
    }
}
