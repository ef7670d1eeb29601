//! Where a heap profile has what: words of 64 bits, the same in memory, in a file, and to the
//! reader.
//!
//! ```text
//! head       512 words, of which `Head` names those that are used
//! buckets    8 words each: what one call site did with objects of about one size
//! frames     addresses of code, those of one call site behind each other, the callee first
//! ```
//!
//! The process only adds to counts while it samples, and readers look whenever they like: they
//! treat every word as a stranger's. A profile that was written to a file is followed by a copy of
//! `/proc/self/maps`, which says what code the addresses are.

/// First word: "QUARRYHP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"QUARRYHP");

/// The layout that this file describes.
pub const VERSION: u64 = 1;

/// Words of the head.
pub const HEAD_WORDS: usize = 512;

/// Words of a bucket.
pub const BUCKET_WORDS: usize = 8;

/// Buckets of a profile of a process. With 64 frames and a few sizes each, that is what programs of
/// some million lines need; what does not fit is counted as lost.
pub const BUCKETS: usize = 16 << 10;

/// Addresses of code that a profile of a process has room for.
pub const FRAMES: usize = 512 << 10;

/// Most addresses of one call site (as tcmalloc has; the outermost callers are left out).
pub const MOST_FRAMES: usize = 64;

/// A word of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Head {
    /// [`MAGIC`].
    Magic,
    /// [`VERSION`].
    Version,
    /// Buckets that there are.
    Buckets,
    /// Addresses of code that there is room for.
    Frames,
    /// The process.
    Pid,
    /// Mean bytes from one sample to the next.
    Mean,
    /// Counts the profiles of the process; odd while the present one is on.
    Session,
    /// When the profile began, in nanoseconds since 1970.
    Started,
    /// When it ended; 0 while it is on.
    Stopped,
    /// Samples that were taken.
    Samples,
    /// Samples that found no room.
    Lost,
    /// Addresses of code that are in use.
    FramesUsed,
    /// 1 where frees are traced too.
    TracesFrees,
}

/// A word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Bucket {
    /// A hash of the rest, 0 where the bucket is free.
    Key,
    /// `{written : 1 | first frame : 47 | frames : 16}`, 0 where it has not been written yet.
    Trace,
    /// `{frees : 1 | bytes : 63}`: whether these are the frees of a call site, and what the sizes
    /// of the objects begin with: see [`about`].
    Size,
    /// Objects that were allocated (or freed, where these are frees).
    Allocated,
    /// Their bytes, as they were requested.
    AllocatedBytes,
    /// Those of them that have been freed since.
    Freed,
    /// Their bytes.
    FreedBytes,
}

/// The bit of [`Bucket::Trace`] that says that the frames are written.
pub const TRACE_WRITTEN: u64 = 1 << 63;

/// The bit of [`Bucket::Size`] that says that these are frees.
pub const SIZE_OF_FREES: u64 = 1 << 63;

/// A size without all but its highest three bits: objects of one bucket differ by an eighth at
/// most, so that their mean size says how likely each of them was a sample, to a few parts in a
/// thousand.
#[must_use]
pub const fn about(size: u64) -> u64 {
    let bits = 64 - size.leading_zeros();
    if bits <= 4 { size } else { size >> (bits - 4) << (bits - 4) }
}

/// Words of a profile with so many buckets and frames.
#[must_use]
pub const fn words(buckets: usize, frames: usize) -> usize {
    HEAD_WORDS + buckets * BUCKET_WORDS + frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_bucket_are_alike() {
        for size in (0..100_000).chain([u64::MAX >> 1, 1 << 40, (1 << 40) - 1]) {
            let bucket = about(size);
            assert!(bucket <= size && (size - bucket) * 8 <= size, "{size} is in {bucket}");
            assert_eq!(about(bucket), bucket);
        }
        assert_eq!([about(15), about(16), about(17), about(18)], [15, 16, 16, 18]);
    }
}
