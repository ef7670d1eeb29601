//! The layout of a heap profile: words of 64 bits, the same in memory, in a file, and for readers.
//!
//! ```text
//! head       512 words; `Head` names the words in use
//! buckets    8 words each: one call site's actions on objects of about one size
//! frames     code addresses: for each call site consecutive ones, the callee first
//! ```
//!
//! Readers may read while the process samples, so they check every word. In a file, a copy of
//! `/proc/self/maps` follows the profile: with it readers find the code at the addresses.

/// First word: "QUARRYHP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"QUARRYHP");

/// Version of the layout that this file describes.
pub const VERSION: u64 = 1;

/// Words of the head.
pub const HEAD_WORDS: usize = 512;

/// Words of a bucket.
pub const BUCKET_WORDS: usize = 8;

/// Buckets of a process's profile. Programs of some million source lines need so many, with up to
/// 64 frames per call site and a few sizes each. Samples that find no bucket are counted as lost.
pub const BUCKETS: usize = 16 << 10;

/// Maximum number of code addresses in a process's profile.
pub const FRAMES: usize = 512 << 10;

/// Maximum number of code addresses of a call site (as in tcmalloc), innermost first.
pub const MOST_FRAMES: usize = 64;

/// A word of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Head {
    /// [`MAGIC`].
    Magic,
    /// [`VERSION`].
    Version,
    /// Number of buckets.
    Buckets,
    /// Room for code addresses.
    Frames,
    /// The process id.
    Pid,
    /// Mean bytes between two samples.
    Mean,
    /// How often a profile of the process was begun or ended; odd while one is on.
    Session,
    /// Start of the profile, in nanoseconds since 1970.
    Started,
    /// End of the profile; 0 while it is on.
    Stopped,
    /// Samples taken.
    Samples,
    /// Samples that found no room.
    Lost,
    /// Code addresses in use.
    FramesUsed,
    /// 1 if frees are traced too.
    TracesFrees,
    /// 1 if the buckets of pins are written at the end of the profile.
    HasPins,
}

/// A word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Bucket {
    /// A hash of call site and size; 0 if the bucket is free.
    Key,
    /// `{written : 1 | first frame : 47 | frames : 16}`; 0 until the frames' position is stored.
    Trace,
    /// `{frees : 1 | pins : 1 | bytes : 62}`: the bucket's kind, and the leading bits of the size:
    /// [`about`].
    Size,
    /// Number of objects allocated (or freed, if the bucket counts frees; of pins: in use).
    Allocated,
    /// Requested bytes of the allocated (or freed) objects.
    AllocatedBytes,
    /// Number of the allocated objects that have been freed since. Of pins: the greatest age, in
    /// milliseconds.
    Freed,
    /// Requested bytes of the freed objects. Of pins: the free bytes that they pin.
    FreedBytes,
}

/// The bit of [`Bucket::Trace`] that is set once the frames are written.
pub const TRACE_WRITTEN: u64 = 1 << 63;

/// The bit of [`Bucket::Size`] of a bucket that counts frees.
pub const SIZE_OF_FREES: u64 = 1 << 63;

/// The bit of [`Bucket::Size`] of a bucket of pins: objects in slabs that were still in use at the
/// end of the profile.
pub const SIZE_OF_PINS: u64 = 1 << 62;

/// A size reduced to its highest four bits. Sizes in one bucket differ by at most an eighth, so the
/// sampling probability computed from their mean is right to some thousandths.
#[must_use]
pub const fn about(size: u64) -> u64 {
    let bits = 64 - size.leading_zeros();
    if bits <= 4 { size } else { size >> (bits - 4) << (bits - 4) }
}

/// Words of a profile with this many buckets and frames.
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
