//! The shards of a cache: parts of its state of which each group of CPUs has its own, so that
//! groups do not wait for each other.
//!
//! The first shard lies in the cache's own state, the others in metadata. A shard never goes away,
//! and a reader takes no lock.
//!
//! Equation: shard `n > 0` is number `n - 2^p` of the `2^p` shards of piece `p = log2(n)`.

use crate::frame::{FreshZero, Metadata, MetadataKind};
use core::ptr::{NonNull, null_mut};
use quarry_sys::os::OsResult;
use quarry_sys::primitive::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Release};

/// Maximum number of shards: a set of them is a word.
pub(super) const MAX_SHARDS: usize = 64;
const PIECES: usize = MAX_SHARDS.ilog2() as usize;

/// The shards beside the first one, which is a part of every call so that the caller can lay it
/// out apart from what all CPUs read.
pub(super) struct Shards<T>(AtomicPtr<Others<T>>);

struct Others<T> {
    pieces: [AtomicPtr<T>; PIECES],
    count: AtomicU32,
}

fn fresh<T>(metadata: &Metadata, count: usize) -> OsResult<NonNull<T>> {
    let bytes = count * size_of::<T>();
    Ok(metadata.alloc(bytes, align_of::<T>(), MetadataKind::CpuSlabs)?.cast())
}

impl<T: FreshZero> Shards<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Makes the shards at least `count`, at most [`MAX_SHARDS`], after `set_up` of each new one,
    /// whose bytes are zero. Never two calls run at once.
    ///
    /// # Errors
    /// `ENOMEM`, or the error of the OS.
    pub(super) fn make(
        &self,
        count: usize,
        metadata: &Metadata,
        set_up: impl Fn(&T),
    ) -> OsResult<()> {
        if self.others().is_none() && count > 1 {
            self.0.store(fresh(metadata, 1)?.as_ptr(), Release);
        }
        let Some(others) = self.others() else { return Ok(()) };
        for index in self.count()..count {
            let piece = &others.pieces[index.ilog2() as usize];
            if piece.load(Acquire).is_null() {
                piece.store(fresh(metadata, 1 << index.ilog2())?.as_ptr(), Release);
            }
            set_up(others.at(index));
            others.count.store(index as u32, Release);
        }
        Ok(())
    }

    #[inline]
    fn others(&self) -> Option<&Others<T>> {
        // SAFETY: null, or fresh metadata, whose zero bytes are no pieces, and which is never given
        // back.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// The number of shards.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.others().map_or(0, |others| others.count.load(Acquire) as usize) + 1
    }

    /// Shard `index`; the first one if there is no such shard.
    #[inline]
    pub(super) fn at<'a>(&'a self, first: &'a T, index: usize) -> &'a T {
        match self.others() {
            Some(others) if index > 0 => others.get(index).unwrap_or(first),
            _ => first,
        }
    }

    pub(super) fn all<'a>(&'a self, first: &'a T) -> impl Iterator<Item = &'a T> {
        (0..self.count()).map(move |index| self.at(first, index))
    }
}

impl<T> Others<T> {
    #[inline(never)]
    fn get(&self, index: usize) -> Option<&T> {
        (index <= self.count.load(Acquire) as usize).then(|| self.at(index))
    }

    fn at(&self, index: usize) -> &T {
        let piece = index.ilog2();
        // SAFETY: `make` has filled the pointer of this piece, with memory for `2^piece` shards
        // whose zero bytes are a valid `T`; it is never given back.
        unsafe { &*self.pieces[piece as usize].load(Acquire).add(index - (1 << piece)) }
    }
}
