//! Blocks of pages without objects, like the kernel's `alloc_pages`.

use crate::gate;
use crate::instance::STACK;
use crate::process::{self, Mode, ensure_ready};
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use quarry_mm::frame::Order;
pub use quarry_mm::stack::PageFlags;
use quarry_sys::errno::KeepErrno;
use quarry_sys::primitive::{AtomicUsize, Ordering::Relaxed};
use quarry_sys::report::warn;

/// The largest order of a pool: 2 MiB.
const MOST_ORDER: u8 = 9;
/// Maximum number of blocks that one step of a bulk request takes or frees.
const BATCH: usize = 32;

fn order_of(order: u8) -> Option<Order> {
    (order <= MOST_ORDER).then(|| Order::new(order))
}

/// Takes a block of `2^order` pages of 4 KiB, for order 0 to 9, from the instance; `None` if there
/// is no memory, or if Quarry does not serve the process.
#[must_use]
pub fn alloc_pages(order: u8, flags: PageFlags) -> Option<NonNull<u8>> {
    let order = order_of(order)?;
    let attempt = || {
        let mut block = [None];
        STACK.alloc_pages(order, flags, &mut block);
        block[0]
    };
    if flags.atomic { at_once(attempt)? } else { process::serve(order.bytes(), attempt) }
}

/// Runs a request that must not wait: once the instance is built, reads no file, starts no thread.
fn at_once<T>(work: impl FnOnce() -> T) -> Option<T> {
    let _errno = KeepErrno::new();
    if ensure_ready() != Mode::Ready {
        return None;
    }
    let _inside = gate::enter();
    Some(work())
}

/// Frees a block; aborts if no block of this order starts there.
///
/// # Safety
/// The user of the block has given it up.
pub unsafe fn free_pages(pages: NonNull<u8>, order: u8) {
    let order = order_of(order).expect("orders of pools are 0..=9");
    // SAFETY: the caller's promise is passed on.
    process::giving_back(|| unsafe { STACK.free_pages(&[pages], order) });
}

/// Blocks of pages for one purpose: buffers, tables, rings.
///
/// ```
/// use quarry::{PageFlags, PagePool};
///
/// static BUFFERS: PagePool = PagePool::new();
/// let zeroed = PageFlags { zeroed: true, ..PageFlags::default() };
/// let mut pages = BUFFERS.alloc(2, zeroed).expect("there are four pages");
/// assert_eq!(pages.len(), 4 * 4096);
/// pages[0].write(7);
/// assert_eq!(BUFFERS.in_use(), 4);
/// drop(pages);
/// assert_eq!(BUFFERS.in_use(), 0);
/// ```
///
/// A pool itself keeps no free blocks: CPUs keep lists of free blocks for all pools and for slabs.
/// A pool counts its pages in use.
///
/// An `atomic` request reclaims nothing and makes no system call. It takes free blocks, also from
/// the reserve of the zones: three fifths of their min mark, and for orders above 0 the pageblocks
/// reserved for high-order atomic requests. It fails if the heap would have to grow.
#[derive(Debug, Default)]
pub struct PagePool {
    /// Pages of 4 KiB in use.
    in_use: AtomicUsize,
}

impl PagePool {
    /// A pool with no page in use.
    #[must_use]
    pub const fn new() -> Self {
        Self { in_use: AtomicUsize::new(0) }
    }

    /// Takes a block of `2^order` pages of 4 KiB, aligned to its size. `None` without memory, if
    /// `order` is above 9, or with `QUARRY_DISABLE=1`. O(1) if the running CPU has a block.
    #[must_use]
    pub fn alloc(&self, order: u8, flags: PageFlags) -> Option<Pages<'_>> {
        let start = alloc_pages(order, flags)?;
        self.in_use.fetch_add(1 << order, Relaxed);
        Some(Pages { start, order, pool: self })
    }

    /// Fills the empty places of `out` with blocks; returns their number. Places stay empty only if
    /// [`alloc`](Self::alloc) finds no block. O(blocks), one lock for many blocks.
    pub fn alloc_bulk<'a>(
        &'a self,
        order: u8,
        flags: PageFlags,
        out: &mut [Option<Pages<'a>>],
    ) -> usize {
        let Some(of_pages) = order_of(order) else { return 0 };
        let mut empty = out.iter_mut().filter(|place| place.is_none()).peekable();
        let mut filled = 0;
        while empty.peek().is_some() {
            let mut taken = [None; BATCH];
            let mut places = [const { None }; BATCH];
            let mut wanted = 0;
            for (slot, place) in places.iter_mut().zip(empty.by_ref()) {
                *slot = Some(place);
                wanted += 1;
            }
            let attempt = || STACK.alloc_pages(of_pages, flags, &mut taken[..wanted]);
            let count = match flags.atomic {
                true => at_once(attempt),
                false => process::on_instance(wanted * of_pages.bytes(), attempt),
            };
            let count = count.unwrap_or(0);
            self.in_use.fetch_add(count << order, Relaxed);
            let mut left = places.into_iter().flatten();
            for (start, place) in taken.into_iter().flatten().zip(left.by_ref()) {
                *place = Some(Pages { start, order, pool: self });
            }
            filled += count;
            // The only free blocks may be on the lists of other CPUs.
            for place in left {
                let Some(pages) = self.alloc(order, flags) else { return filled };
                *place = Some(pages);
                filled += 1;
            }
        }
        filled
    }

    /// Frees blocks, many in one critical section, and empties their places. O(blocks).
    pub fn free_bulk(&self, blocks: &mut [Option<Pages<'_>>]) {
        for piece in blocks.chunks_mut(BATCH) {
            for order in 0..=MOST_ORDER {
                let mut starts = [NonNull::dangling(); BATCH];
                let mut count = 0;
                let of_order = |place: &&mut Option<Pages<'_>>| {
                    place.as_ref().is_some_and(|pages| pages.order == order)
                };
                for place in piece.iter_mut().filter(of_order) {
                    let Some(pages) = place.take() else { continue };
                    starts[count] = pages.leave();
                    count += 1;
                }
                if count > 0 {
                    let starts = &starts[..count];
                    // SAFETY: the blocks were ours, and their owners have given them up.
                    process::giving_back(|| unsafe {
                        STACK.free_pages(starts, Order::new(order));
                    });
                }
            }
        }
    }

    /// Pages of 4 KiB that are in use. O(1).
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.in_use.load(Relaxed)
    }
}

impl Drop for PagePool {
    /// Blocks borrow their pool, so a block that is still in use was forgotten by its owner.
    fn drop(&mut self) {
        match self.in_use() {
            0 => {}
            pages => warn(format_args!("a page pool is gone, and {pages} pages of it are in use")),
        }
    }
}

/// A block of pages of a [`PagePool`], to which it returns when dropped. It dereferences to its
/// bytes, whose contents are undefined unless the request was for zeroes.
pub struct Pages<'a> {
    start: NonNull<u8>,
    order: u8,
    pool: &'a PagePool,
}

// SAFETY: the block belongs only to its owner, and to no thread.
unsafe impl Send for Pages<'_> {}
// SAFETY: shared references to it only give shared references to its bytes.
unsafe impl Sync for Pages<'_> {}

impl Pages<'_> {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The order: the block has `2^order` pages of 4 KiB.
    #[must_use]
    pub fn order(&self) -> u8 {
        self.order
    }

    fn leave(self) -> NonNull<u8> {
        self.pool.in_use.fetch_sub(1 << self.order, Relaxed);
        let start = self.start;
        core::mem::forget(self);
        start
    }
}

impl Deref for Pages<'_> {
    type Target = [MaybeUninit<u8>];

    fn deref(&self) -> &[MaybeUninit<u8>] {
        let bytes = Order::new(self.order).bytes();
        // SAFETY: the block has this many bytes, and is ours; they need not be initialised.
        unsafe { core::slice::from_raw_parts(self.start.cast().as_ptr(), bytes) }
    }
}

impl DerefMut for Pages<'_> {
    fn deref_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let bytes = Order::new(self.order).bytes();
        // SAFETY: the block has this many bytes (see `deref`), and is borrowed uniquely.
        unsafe { core::slice::from_raw_parts_mut(self.start.cast().as_ptr(), bytes) }
    }
}

impl Drop for Pages<'_> {
    fn drop(&mut self) {
        self.pool.in_use.fetch_sub(1 << self.order, Relaxed);
        // SAFETY: the block is ours, and ends with this.
        unsafe { free_pages(self.start, self.order) };
    }
}

impl fmt::Debug for Pages<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} pages at {:p}", 1usize << self.order, self.start)
    }
}
