//! Parses a heap profile of a process in the format of `layout` of `quarry_watch`. The writer is
//! not trusted: bad words are an error or left out, never a panic.

use anyhow::{Context, Result, bail, ensure};
use quarry_watch::profile::layout::{
    BUCKET_WORDS, BUCKETS, Bucket, FRAMES, HEAD_WORDS, Head, MAGIC, MOST_FRAMES, SIZE_OF_FREES,
    SIZE_OF_PINS, TRACE_WRITTEN, VERSION,
};

/// Maximum number of bytes of a profile with its mappings, of which a process has up to 65,530 by
/// default: ten times those of both.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// The counts for one call site and objects of about one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Addresses of code, the callee first.
    pub(crate) frames: Vec<u64>,
    pub(crate) kind: SiteKind,
    /// Samples that were allocated.
    pub(crate) allocated: Count,
    /// Samples that were freed since.
    pub(crate) freed: Count,
}

/// The meaning of a site's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SiteKind {
    /// Allocations.
    #[default]
    Allocations,
    /// Frees: `allocated` has the freed samples, and `freed` no meaning.
    Frees,
    /// Objects in slabs, in use at the end: `freed` has the greatest age in milliseconds, and the
    /// free bytes that they pin.
    Pins,
}

/// Samples and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Number of sampled objects.
    pub(crate) objects: u64,
    /// Bytes that were requested for these objects.
    pub(crate) bytes: u64,
}

/// A profile in the form in which a process keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw {
    /// The number of the process, in its own pid namespace.
    pub(crate) pid: u32,
    /// Mean bytes from one sample to the next.
    pub(crate) mean: u64,
    /// Number of the profile in its process; odd while the profile is on.
    pub(crate) session: u64,
    /// Start in nanoseconds since 1970; 0 if unknown.
    pub(crate) started_ns: u64,
    /// End in nanoseconds since 1970; 0 if unknown.
    pub(crate) stopped_ns: u64,
    /// Samples that were lost, because the profile had no room for them.
    pub(crate) lost: u64,
    /// True if frees were traced.
    pub(crate) traces_frees: bool,
    /// True if samples in slabs were kept there.
    pub(crate) has_pins: bool,
    /// The call sites.
    pub(crate) sites: Vec<Site>,
    /// The mappings of the process in the form of `/proc/PID/maps`; empty in a memfd.
    pub(crate) maps: Vec<u8>,
    /// The words as read, without the mappings.
    pub(crate) words: Vec<u8>,
}

impl Raw {
    /// The bytes of the file that a process would have written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&*self.words, &self.maps].concat()
    }

    /// Reads a profile. Fails if the bytes are not a profile, or one of another version.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let word_at = |index: usize| {
            let bytes = bytes.get(index.checked_mul(8)?..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let head = |word: Head| word_at(word as usize);
        ensure!(head(Head::Magic) == Some(MAGIC), "it is no heap profile of Quarry");
        let version = head(Head::Version).unwrap_or(0);
        if version != VERSION {
            bail!("its version is {version}; this command reads version {VERSION}");
        }
        let limited = |word, most: usize| {
            head(word).filter(|count| *count <= most as u64).context("it is damaged")
        };
        let buckets = limited(Head::Buckets, BUCKETS)? as usize;
        let used = limited(Head::FramesUsed, FRAMES)?;
        let frames = HEAD_WORDS + buckets * BUCKET_WORDS;
        ensure!(bytes.len() >= frames * 8, "it is cut off");
        let sites = (0..buckets).filter_map(|bucket| {
            let at = |word: Bucket| word_at(HEAD_WORDS + bucket * BUCKET_WORDS + word as usize);
            let (trace, size) = (at(Bucket::Trace)?, at(Bucket::Size)?);
            // A process writes a new bucket's key before its frames, so the frames may be missing.
            if at(Bucket::Key)? == 0 || trace & TRACE_WRITTEN == 0 {
                return None;
            }
            let first = (trace & !TRACE_WRITTEN) >> 16;
            let count = trace & 0xffff;
            if count > MOST_FRAMES as u64 || first.saturating_add(count) > used {
                return None;
            }
            let frames = (first..first + count).filter_map(|at| word_at(frames + at as usize));
            let pair = |objects, bytes| Some(Count { objects: at(objects)?, bytes: at(bytes)? });
            Some(Site {
                frames: frames.collect(),
                kind: match size {
                    _ if size & SIZE_OF_FREES != 0 => SiteKind::Frees,
                    _ if size & SIZE_OF_PINS != 0 => SiteKind::Pins,
                    _ => SiteKind::Allocations,
                },
                allocated: pair(Bucket::Allocated, Bucket::AllocatedBytes)?,
                freed: pair(Bucket::Freed, Bucket::FreedBytes)?,
            })
        });
        let sites = sites.collect();
        let (words_read, maps) = bytes.split_at(bytes.len().min((frames + used as usize) * 8));
        Ok(Self {
            pid: head(Head::Pid).unwrap_or(0) as u32,
            mean: head(Head::Mean).unwrap_or(0).max(1),
            session: head(Head::Session).unwrap_or(0),
            started_ns: head(Head::Started).unwrap_or(0),
            stopped_ns: head(Head::Stopped).unwrap_or(0),
            lost: head(Head::Lost).unwrap_or(0),
            traces_frees: head(Head::TracesFrees) == Some(1),
            has_pins: head(Head::HasPins) == Some(1),
            sites,
            maps: maps.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
            words: words_read.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_profile_is_refused() {
        let refuse = |bytes: &[u8]| Raw::parse(bytes).expect_err("refused").to_string();
        assert!(refuse(b"").contains("no heap profile"));
        assert!(refuse(&[0x5a; 100_000]).contains("no heap profile"));
        let mut bytes = vec![0; 4096];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        assert!(refuse(&bytes).contains("version is 0"));
        bytes[8] = VERSION as u8;
        bytes[16..24].copy_from_slice(&1000u64.to_le_bytes());
        assert!(refuse(&bytes).contains("cut off"));
        for buckets in [BUCKETS as u64 + 1, u64::MAX] {
            bytes[16..24].copy_from_slice(&buckets.to_le_bytes());
            assert!(refuse(&bytes).contains("damaged"), "more than a process has room for");
        }
    }

    #[test]
    fn damage_behind_the_head_is_no_panic() {
        let mut state = 1u64;
        for round in 0..200 {
            let mut bytes: Vec<u8> = (0..HEAD_WORDS * 8 + 64 * 16 + 400)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
                    (state >> 56) as u8
                })
                .collect();
            for (word, value) in [
                (Head::Magic, MAGIC),
                (Head::Version, VERSION),
                (Head::Buckets, 16),
                (Head::FramesUsed, round % 60),
            ] {
                bytes[word as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
            Raw::parse(&bytes).expect("the head is right");
        }
    }
}
