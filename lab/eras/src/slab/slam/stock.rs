//! A stock: a chain of bundles for one CPU, which one atomic word names.
//!
//! The word is `{head >> 4 : 44 | bundles : 20}`. Any thread pushes a chain by compare-and-swap,
//! and takes the whole chain by a swap. A thread that needs one bundle takes the chain, and puts
//! the rest back. No thread ever takes only a piece of a chain out of a stock, so an unchanged word
//! always names a complete chain (no ABA).
//!
//! Equations, while no thread is at work: `bundles = bundles on the chain <= 2^20 - 1`;
//! `lowest <= bundles`; `announced + unannounced = bundles * bytes of a bundle`.

use super::bundle;
use quarry_mm::slab::CacheLimits;
use quarry_sys::local;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

const MOST: u64 = 0xf_ffff;
/// A stock announces its bytes to [`CacheLimits`] when they have changed by this much.
const ANNOUNCED_BYTES: i64 = 64 << 10;

/// Bundles linked by their heads; the last link is null.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) head: Option<Object>,
    pub(super) bundles: u64,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { head: None, bundles: 0 };

    fn of(word: u64) -> Self {
        Self { head: Object::new(((word >> 20) << 4) as *mut u8), bundles: word & MOST }
    }

    fn word(self) -> u64 {
        let head = self.head.map_or(0, |head| head.as_ptr() as u64);
        (head >> 4) << 20 | self.bundles
    }

    /// Puts a bundle in front.
    ///
    /// # Safety
    /// `head` is the head of a bundle that the caller owns and gives to the chain.
    pub(super) unsafe fn push(&mut self, head: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe { bundle::set_next(head, self.head) };
        *self = Self { head: Some(head), bundles: self.bundles + 1 };
    }
}

/// See the head of the file.
pub(super) struct Stock {
    word: AtomicU64,
    /// Bytes added minus bytes removed since the last announcement, signed.
    unannounced: AtomicU64,
    /// The fewest bundles since the last [`unneeded`](Self::unneeded).
    lowest: AtomicU32,
}

impl Stock {
    pub(super) fn bundles(&self) -> u64 {
        self.chain().bundles
    }

    /// The present chain, which another thread may take at any time.
    pub(super) fn chain(&self) -> Chain {
        Chain::of(self.word.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn take(&self) -> Chain {
        if self.word.load(Ordering::Relaxed) == 0 {
            return Chain::EMPTY;
        }
        Chain::of(self.word.swap(0, Ordering::AcqRel))
    }

    /// Puts a chain before the bundles of the stock. Returns false if the stock would hold too many
    /// bundles; the caller then still owns the chain.
    ///
    /// # Safety
    /// The caller owns the chain, and `last` is its last bundle.
    pub(super) unsafe fn push(&self, chain: Chain, last: Object) -> bool {
        loop {
            let old = self.word.load(Ordering::Relaxed);
            let there = Chain::of(old);
            if there.bundles + chain.bundles > MOST {
                return false;
            }
            // SAFETY: the caller owns the last bundle until the exchange succeeds.
            unsafe { bundle::set_next(last, there.head) };
            let bundles = there.bundles + chain.bundles;
            if local::compare_exchange(&self.word, old, Chain { bundles, ..chain }.word()) {
                return true;
            }
        }
    }

    /// Puts back the rest of a chain; fails if another thread has pushed bundles since.
    #[inline]
    pub(super) fn put_back(&self, rest: Chain) -> Result<(), Chain> {
        let is_back = rest.head.is_none() || local::compare_exchange(&self.word, 0, rest.word());
        if is_back { Ok(()) } else { Err(rest) }
    }

    #[inline]
    pub(super) fn note_lowest(&self, bundles: u64) {
        if u64::from(self.lowest.load(Ordering::Relaxed)) > bundles {
            self.lowest.store(bundles as u32, Ordering::Relaxed);
        }
    }

    /// Bundles that the CPU did not need: the fewest since the last call.
    pub(super) fn unneeded(&self) -> u64 {
        let bundles = self.bundles();
        u64::from(self.lowest.swap(bundles as u32, Ordering::Relaxed)).min(bundles)
    }

    /// Counts bytes that came (or left, if negative), and announces them once they are many.
    #[inline]
    pub(super) fn note_bytes(&self, limits: &CacheLimits, bytes: i64) {
        let before = self.unannounced.fetch_add(bytes as u64, Ordering::Relaxed) as i64;
        if (before + bytes).abs() >= ANNOUNCED_BYTES {
            let due = self.unannounced.swap(0, Ordering::Relaxed);
            limits.barn_changed(0, due as usize);
        }
    }

    /// Bytes that the stock has not announced, signed.
    pub(super) fn unannounced(&self) -> i64 {
        self.unannounced.load(Ordering::Relaxed) as i64
    }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;
    use crate::slab::slam::unused_cache;

    #[repr(align(16))]
    struct Memory([[u64; 2]; 4]);

    fn stock() -> Stock {
        Stock { word: AtomicU64::new(0), unannounced: AtomicU64::new(0), lowest: AtomicU32::new(0) }
    }

    #[test]
    fn a_chain_is_taken_whole_and_put_back() {
        let mut memory = Memory([[0; 2]; 4]);
        let heads: Vec<Object> =
            memory.0.iter_mut().map(|head| core::ptr::NonNull::from(head).cast()).collect();
        let (stock, cache) = (stock(), unused_cache(16));
        assert!(stock.take().head.is_none());
        for pair in heads.chunks(2) {
            let mut chain = Chain::EMPTY;
            // SAFETY: the test owns the memory, and uses each head once.
            unsafe {
                pair.iter().for_each(|head| chain.push(bundle::tie(&[*head, pair[0]])));
                assert!(stock.push(chain, pair[0]));
            }
        }
        assert_eq!(stock.bundles(), 4);
        let all = stock.take();
        assert_eq!((all.bundles, stock.bundles()), (4, 0));
        let mut found = Vec::new();
        let mut next = all.head;
        while let Some(head) = next {
            found.push(head);
            // SAFETY: the test owns the chain.
            next = unsafe { bundle::next(&cache, head, 2) };
        }
        assert_eq!(found, [heads[3], heads[2], heads[1], heads[0]]);
        let rest = Chain { head: Some(heads[2]), bundles: 3 };
        assert!(stock.put_back(rest).is_ok());
        assert_eq!(stock.put_back(rest).map_err(|rest| rest.bundles), Err(3));
        assert_eq!(stock.bundles(), 3);
    }

    #[test]
    fn bytes_are_announced_when_they_are_many() {
        let (stock, limits) = (stock(), CacheLimits::new());
        stock.note_bytes(&limits, 40 << 10);
        assert_eq!((limits.barns(), stock.unannounced()), (0, 40 << 10));
        stock.note_bytes(&limits, 40 << 10);
        assert_eq!((limits.barns(), stock.unannounced()), (80 << 10, 0));
        stock.note_bytes(&limits, -(80 << 10));
        assert_eq!((limits.barns(), stock.unannounced()), (0, 0));
    }
}
