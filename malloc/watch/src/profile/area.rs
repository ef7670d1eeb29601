//! The counts of a profile, by call site and size, in memory that other processes may read.
//!
//! No code here waits or allocates: a signal handler may interrupt any step. The task that first
//! stores a key in a bucket also writes the site's code addresses; others with the same key count
//! without waiting for this. Samples that find no room are counted as lost.

use super::layout::{
    BUCKET_WORDS, Bucket, HEAD_WORDS, Head, MAGIC, SIZE_OF_FREES, SIZE_OF_PINS, TRACE_WRITTEN,
    VERSION, about, words,
};
use core::ptr::NonNull;
use quarry_sys::primitive::{AtomicU64, Ordering};

/// Maximum number of buckets that are searched for a key.
const PROBES: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Allocate,
    Free,
    /// Allocates an object that stays in its slab.
    Pin,
}

/// The counts of a profile in memory; [`layout`](super::layout) describes the words.
pub struct Area {
    start: NonNull<AtomicU64>,
    buckets: usize,
    frames: usize,
}

// SAFETY: the area consists of atomics, and its memory belongs to no thread.
unsafe impl Sync for Area {}
// SAFETY: the area consists of atomics, and its memory belongs to no thread.
unsafe impl Send for Area {}

impl Area {
    /// The area in this memory, whose words are zero.
    ///
    /// # Safety
    /// From `start` on, [`words`]`(buckets, frames)` words can be read and written as long as the
    /// area is used, and other code uses them only as atomics.
    ///
    /// # Panics
    /// If `buckets` is not a power of two.
    #[must_use]
    pub unsafe fn new(start: NonNull<u64>, buckets: usize, frames: usize) -> Self {
        assert!(buckets.is_power_of_two(), "buckets are found by a mask");
        Self { start: start.cast(), buckets, frames }
    }

    /// Bytes of the area.
    #[must_use]
    pub fn bytes(&self) -> usize {
        words(self.buckets, self.frames) * size_of::<u64>()
    }

    /// The current value of a word.
    ///
    /// # Panics
    /// If the word is outside of the area.
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < words(self.buckets, self.frames), "a word outside of the profile");
        // SAFETY: the word lies inside the memory that `new` was promised.
        unsafe { self.start.add(index).as_ref() }
    }

    /// The address of the area's first word.
    #[must_use]
    pub fn start(&self) -> NonNull<u64> {
        self.start.cast()
    }

    /// Bytes of the area up to the last code address in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        let frames = self.head(Head::FramesUsed).load(Ordering::Relaxed) as usize;
        words(self.buckets, frames.min(self.frames)) * size_of::<u64>()
    }

    /// A word of the head.
    #[must_use]
    pub fn head(&self, word: Head) -> &AtomicU64 {
        self.word(word as usize)
    }

    fn bucket(&self, number: u64, word: Bucket) -> &AtomicU64 {
        self.word(HEAD_WORDS + number as usize * BUCKET_WORDS + word as usize)
    }

    /// Clears every count. No other task may add to the area. O(buckets).
    pub(super) fn clear(&self) {
        for number in 0..self.buckets as u64 {
            // Only buckets in use are written, because a page that is only read takes no memory.
            if self.bucket(number, Bucket::Key).load(Ordering::Relaxed) != 0 {
                for word in 0..BUCKET_WORDS {
                    self.word(HEAD_WORDS + number as usize * BUCKET_WORDS + word)
                        .store(0, Ordering::Relaxed);
                }
            }
        }
        for word in [Head::Samples, Head::Lost, Head::FramesUsed, Head::Stopped] {
            self.head(word).store(0, Ordering::Relaxed);
        }
        self.head(Head::Version).store(VERSION, Ordering::Relaxed);
        self.head(Head::Buckets).store(self.buckets as u64, Ordering::Relaxed);
        self.head(Head::Frames).store(self.frames as u64, Ordering::Relaxed);
        self.head(Head::Magic).store(MAGIC, Ordering::Release);
    }

    pub(super) fn note_lost(&self) {
        self.head(Head::Lost).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an object at call site `trace`; returns the bucket, `None` without room. O(frames).
    pub(super) fn count(&self, did: Did, trace: &[u64], size: u64) -> Option<u32> {
        let number = self.find(did, trace, size)?;
        self.head(Head::Samples).fetch_add(1, Ordering::Relaxed);
        if did == Did::Pin {
            // Counted at the end of the profile.
            return Some(number as u32);
        }
        self.bucket(number, Bucket::Allocated).fetch_add(1, Ordering::Relaxed);
        self.bucket(number, Bucket::AllocatedBytes).fetch_add(size, Ordering::Relaxed);
        Some(number as u32)
    }

    pub(super) fn count_freed(&self, bucket: u32, size: u64) {
        let number = u64::from(bucket) & (self.buckets as u64 - 1);
        self.bucket(number, Bucket::Freed).fetch_add(1, Ordering::Relaxed);
        self.bucket(number, Bucket::FreedBytes).fetch_add(size, Ordering::Relaxed);
    }

    /// Counts a pin that is in use at the end of the profile.
    pub(super) fn count_pinned(&self, bucket: u32, size: u64, free: u64, age_ms: u64) {
        let number = u64::from(bucket) & (self.buckets as u64 - 1);
        let add = |word, more| self.bucket(number, word).fetch_add(more, Ordering::Relaxed);
        add(Bucket::Allocated, 1);
        add(Bucket::AllocatedBytes, size);
        add(Bucket::FreedBytes, free);
        self.bucket(number, Bucket::Freed).fetch_max(age_ms, Ordering::Relaxed);
    }

    fn find(&self, did: Did, trace: &[u64], size: u64) -> Option<u64> {
        let kind = match did {
            Did::Allocate => 0,
            Did::Free => SIZE_OF_FREES,
            Did::Pin => SIZE_OF_PINS,
        };
        let size = about(size) | kind;
        let key = hash(trace, size);
        for probe in 0..PROBES.min(self.buckets as u64) {
            let number = key.wrapping_add(probe) & (self.buckets as u64 - 1);
            let word = self.bucket(number, Bucket::Key);
            let relaxed = Ordering::Relaxed;
            let held = match word.load(relaxed) {
                0 => match word.compare_exchange(0, key, relaxed, relaxed) {
                    Ok(_) => {
                        self.bucket(number, Bucket::Size).store(size, relaxed);
                        self.bucket(number, Bucket::Trace)
                            .store(self.write(trace), Ordering::Release);
                        return Some(number);
                    }
                    Err(held) => held,
                },
                held => held,
            };
            if held == key {
                return Some(number);
            }
        }
        None
    }

    /// Writes the code addresses of a call site, if there is room; returns a [`Bucket::Trace`].
    fn write(&self, trace: &[u64]) -> u64 {
        let used = self.head(Head::FramesUsed);
        let fits = |first: u64| {
            (first as usize + trace.len() <= self.frames).then_some(first + trace.len() as u64)
        };
        let Ok(first) = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            return TRACE_WRITTEN;
        };
        let frames = HEAD_WORDS + self.buckets * BUCKET_WORDS + first as usize;
        for (offset, address) in trace.iter().enumerate() {
            self.word(frames + offset).store(*address, Ordering::Relaxed);
        }
        TRACE_WRITTEN | first << 16 | trace.len() as u64
    }
}

/// Hashes a call site and a size to a number, not 0. Two pairs with the same hash are counted as
/// one: among 16,384 pairs this happens once in 10^11 profiles.
fn hash(trace: &[u64], size: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = trace.iter().fold(size.wrapping_mul(FACTOR), |hash, address| {
        let hash = (hash ^ address).wrapping_mul(FACTOR);
        hash ^ hash >> 29
    });
    mixed.max(1)
}
