//! Objects taken in advance for requests that must not fail (`kmem_cache_prefill_sheaf`, 6.18).
//!
//! A reserve is an object of the heap, here its *block*: a head, then addresses of unused objects.
//! No instrument sees the block, so it can be recognised whichever of them is on.
//! The head has the block's own address xor [`MARK`], so that a reserve can be recognised.
//!
//! Equation: the first `left <= room` words after the head are addresses of objects of the cache.

use crate::instance::STACK;
use crate::process;
use crate::raw_cache::RawCache;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_mm::heap::classes;
use quarry_mm::stack::{Request, StackHost};

const MARK: usize = 0x5eaf_0b1e_c70f_ca5e;

struct Head {
    mark: usize,
    cache: RawCache,
    room: usize,
    left: usize,
}

/// Objects of a cache that were taken in advance.
#[derive(Debug)]
pub struct RawReserve(NonNull<Head>);

// SAFETY: only the reserve uses the block, and its objects belong to no thread.
unsafe impl Send for RawReserve {}

impl RawReserve {
    /// Maximum number of objects of a reserve, because its block is an object of the heap.
    pub const MOST: usize = (classes::LARGEST - size_of::<Head>()) / size_of::<usize>();

    /// Takes `count` objects of a cache. `None`, without taking any, if memory is short or `count`
    /// is more than [`MOST`](Self::MOST). O(objects).
    #[must_use]
    pub fn of(cache: RawCache, count: usize) -> Option<Self> {
        if count > Self::MOST {
            return None;
        }
        let bytes = size_of::<Head>() + count * size_of::<NonNull<u8>>();
        let unseen = || STACK.alloc_unseen(Request::of(bytes));
        let block = STACK.fast.alloc(bytes).or_else(|| process::serve(bytes, unseen))?;
        let head = block.cast::<Head>();
        let mark = head.as_ptr() as usize ^ MARK;
        // SAFETY: the block is ours, and large enough for head and objects.
        unsafe { head.write(Head { mark, cache, room: count, left: 0 }) };
        let mut reserve = Self(head);
        let taken = cache.alloc_bulk(reserve.places());
        reserve.head().left = taken;
        (taken == count).then_some(reserve)
    }

    /// The reserve at an address from [`into_raw`](Self::into_raw); `None` if none is there.
    ///
    /// # Safety
    /// No other code uses the reserve.
    #[must_use]
    pub unsafe fn from_raw(address: *mut u8) -> Option<Self> {
        let object = NonNull::new(address)?;
        // The address may be any number at all: only an object of the heap can be a reserve.
        let bytes = STACK.unseen_bytes(address)?;
        if bytes < size_of::<Head>() || !address.cast::<Head>().is_aligned() {
            return None;
        }
        let head = object.cast::<Head>();
        // SAFETY: an object of the heap that is large enough starts there, with any contents.
        let mark = unsafe { (&raw const (*head.as_ptr()).mark).read() };
        (mark == address as usize ^ MARK).then(|| Self(head))
    }

    /// The address of the reserve, as [`from_raw`](Self::from_raw) requires it.
    #[must_use]
    pub fn into_raw(self) -> *mut u8 {
        let address = self.0.as_ptr().cast();
        core::mem::forget(self);
        address
    }

    fn head(&mut self) -> &mut Head {
        // SAFETY: only we use the block, and its head was written.
        unsafe { self.0.as_mut() }
    }

    fn places(&mut self) -> &mut [MaybeUninit<NonNull<u8>>] {
        let room = self.head().room;
        // SAFETY: the block has this many words after its head.
        unsafe { core::slice::from_raw_parts_mut(self.0.add(1).cast().as_ptr(), room) }
    }

    /// The cache of the objects.
    #[must_use]
    pub fn cache(&mut self) -> RawCache {
        self.head().cache
    }

    /// Number of unused objects.
    #[must_use]
    pub fn left(&self) -> usize {
        // SAFETY: only we use the block, and its head was written.
        unsafe { self.0.as_ref() }.left
    }

    /// Takes one of the objects; `None` if all have been taken. O(1).
    pub fn take(&mut self) -> Option<NonNull<u8>> {
        let left = self.left().checked_sub(1)?;
        self.head().left = left;
        // SAFETY: the first `left` words were written, and this one was the last of them.
        Some(unsafe { self.places()[left].assume_init() })
    }
}

impl Drop for RawReserve {
    fn drop(&mut self) {
        let (cache, left) = (self.cache(), self.left());
        // An empty reserve may exist longer than its cache.
        // SAFETY: these words were written; no other code has the objects or the block.
        unsafe {
            let objects = core::slice::from_raw_parts(self.0.add(1).cast().as_ptr(), left);
            if !objects.is_empty() {
                cache.free_bulk(objects);
            }
            self.head().mark = 0;
            process::giving_back(|| STACK.free_unseen(self.0.cast()));
        }
    }
}
