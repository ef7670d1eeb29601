//! A list that grows by pieces of metadata, each twice as large as the one before. An entry keeps
//! its address, so readers take no lock.
//!
//! Equation: entry `n` is number `n + FIRST - (FIRST << p)` of piece `p = log2(n / FIRST + 1)`.

use crate::frame::{FreshZero, Metadata, MetadataKind};
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{AtomicPtr, Ordering::Acquire, Ordering::Release};

const FIRST: usize = 16;
const PIECES: usize = 20;

/// The list. New entries are zero, and no entry is dropped.
pub(super) struct Pieces<T>([AtomicPtr<T>; PIECES]);

impl<T: FreshZero + Sync> Pieces<T> {
    /// A list without memory.
    pub(super) const fn new() -> Self {
        Self([const { AtomicPtr::new(core::ptr::null_mut()) }; PIECES])
    }

    fn place(index: usize) -> (usize, usize) {
        let piece = (index / FIRST + 1).ilog2() as usize;
        (piece, index + FIRST - (FIRST << piece))
    }

    /// Entry `index`, if its piece has memory. Any index is allowed. O(1).
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let (piece, within) = Self::place(index);
        let start = self.0.get(piece)?.load(Acquire);
        // SAFETY: a piece that is not null has `FIRST << piece` entries, zero at first, which is a
        // valid `T`; its memory is never given back.
        (!start.is_null()).then(|| unsafe { &*start.add(within) })
    }

    /// Entry `index`, whose piece gets memory if it has none. Only one thread may call this at a
    /// time.
    ///
    /// # Errors
    /// `ENOMEM` if the list has as many entries as it can, 16 million, or the error of the OS.
    pub(super) fn make(&self, index: usize, metadata: &Metadata) -> OsResult<&T> {
        let piece = Self::place(index).0;
        let start = self.0.get(piece).ok_or(OsError(libc::ENOMEM))?;
        if start.load(Acquire).is_null() {
            let bytes = (FIRST << piece) * size_of::<T>();
            let fresh = metadata.alloc(bytes, align_of::<T>(), MetadataKind::Other)?;
            start.store(fresh.as_ptr().cast(), Release);
        }
        self.get(index).ok_or(OsError(libc::ENOMEM))
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, PIECES, Pieces};

    #[test]
    fn each_index_has_a_place_of_its_own() {
        let mut expected = (0..8).flat_map(|piece| (0..FIRST << piece).map(move |at| (piece, at)));
        for index in 0..FIRST * 200 {
            assert_eq!(Some(Pieces::<u64>::place(index)), expected.next(), "{index}");
        }
        let most = (FIRST << PIECES) - FIRST;
        assert_eq!(Pieces::<u64>::place(most - 1).0, PIECES - 1);
        assert_eq!(Pieces::<u64>::place(most).0, PIECES);
        assert!(Pieces::<u64>::new().get(usize::MAX - FIRST).is_none());
    }
}
