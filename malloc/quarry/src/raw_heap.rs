//! Heaps of the program without a lifetime, for C.

use crate::at_limit::OnPressure;
use crate::error::Error;
use crate::instance::STACK;
use crate::process;
use core::ffi::c_void;
use core::ptr::NonNull;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::own_heap::{OwnHeapId, OwnHeapStats, Use};
use quarry_mm::stack::{MIN_ALIGN, Request, StackHost};
use quarry_mm::zone::{GroupId, Name};
use quarry_sys::clear::clear;

/// The counts of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Bytes of objects in use, each rounded up to the size of its class.
    pub used: usize,
    /// Bytes of the pages that the heap has: its slabs, blocks and mappings.
    pub charged: usize,
    /// The maximum of `charged`; `usize::MAX` without a limit.
    pub limit: usize,
    /// Objects that were handed out.
    pub allocs: u64,
    /// Objects that were given back, or went with a reset.
    pub frees: u64,
    /// Requests that the limit refused.
    pub refused: u64,
}

fn bytes(frames: u32) -> usize {
    if frames == u32::MAX { usize::MAX } else { frames as usize * FRAME_BYTES }
}

fn frames(limit: usize) -> u32 {
    u32::try_from(limit / FRAME_BYTES).unwrap_or(u32::MAX).max(1)
}

/// Runs `work` inside the gate. One copy for all functions.
#[inline(never)]
fn inside(work: &mut dyn FnMut()) {
    process::giving_back(work);
}

/// A heap of the process. It is a number and may be copied; the heap lives until
/// [`destroy`](Self::destroy). Every use of a heap that does not live prints a line with its name
/// and aborts. [`Heap`](crate::Heap) is the safe interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawHeap(OwnHeapId);

impl RawHeap {
    /// Creates a heap in a group that may have `limit` bytes of pages, and keeps the first 32 bytes
    /// of its name.
    ///
    /// # Errors
    /// [`Error::Disabled`], [`Error::NoMemory`] or [`Error::NoSuchGroup`].
    pub fn create(group: GroupId, name: &str, limit: usize) -> Result<Self, Error> {
        process::serving()?;
        if !STACK.groups.join(group) {
            return Err(Error::NoSuchGroup { number: group.0.into() });
        }
        let mut id = Err(Error::NoMemory);
        inside(&mut || {
            let of = (group, Use::Program);
            let created = STACK.own.create(Name::of(name), of, frames(limit), STACK.metadata());
            id = created.map(Self).map_err(|_| Error::NoMemory);
        });
        if id.is_err() {
            STACK.groups.leave(group);
        }
        id
    }

    /// The heap with this handle, which may have been destroyed; `None` for 0.
    #[must_use]
    pub fn of_handle(handle: usize) -> Option<Self> {
        OwnHeapId::of_word(handle as u64).map(Self)
    }

    /// A number for this heap, never 0, that no other heap of the process ever gets.
    #[must_use]
    pub fn handle(self) -> usize {
        self.0.word() as usize
    }

    /// Takes `size` bytes at a multiple of `align`, a power of two. `None` if the limit is reached,
    /// also after the program was told, or if there is no memory. `entry` is for reports.
    #[inline(always)]
    #[must_use]
    pub fn alloc(self, size: usize, align: usize, entry: &str) -> Option<NonNull<u8>> {
        if align <= MIN_ALIGN
            && let Some(object) = STACK.own_take(self.0, size)
        {
            return Some(object);
        }
        self.alloc_slow(size, align, entry)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(self, size: usize, align: usize, entry: &str) -> Option<NonNull<u8>> {
        process::alloc_own(self.0, Request::of(size).aligned(align.max(MIN_ALIGN)), entry)
    }

    /// Same as [`alloc`](Self::alloc), all bytes 0.
    #[must_use]
    pub fn alloc_zeroed(self, size: usize, align: usize, entry: &str) -> Option<NonNull<u8>> {
        if align <= MIN_ALIGN
            && let Some(object) = STACK.own_take(self.0, size)
        {
            // SAFETY: the object has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
            return Some(object);
        }
        let request = Request::of(size).aligned(align.max(MIN_ALIGN)).zeroed();
        process::alloc_own(self.0, request, entry)
    }

    /// Returns whether the allocation at an address is one of this heap.
    #[must_use]
    pub fn has(self, address: NonNull<u8>) -> bool {
        STACK.own_heap_at(address.as_ptr()) == Some(self.0)
    }

    /// Frees all that lives in the heap, which keeps its slabs. O(slabs).
    ///
    /// # Safety
    /// No code uses what lives in the heap.
    pub unsafe fn reset(self, entry: &str) {
        let mut done = Ok(());
        inside(&mut || done = STACK.reset_own_heap(self.0));
        if done.is_err() {
            STACK.own.no_heap(entry, self.0);
        }
    }

    /// Frees all that lives in the heap, and ends it. O(slabs).
    ///
    /// # Safety
    /// No code uses what lives in the heap.
    pub unsafe fn destroy(self, entry: &str) {
        let mut done = Ok(());
        inside(&mut || done = STACK.destroy_own_heap(self.0));
        if done.is_err() {
            STACK.own.no_heap(entry, self.0);
        }
    }

    /// The counts.
    #[must_use]
    pub fn stats(self, entry: &str) -> HeapStats {
        let heap = STACK.own.heap(self.0.number);
        let heap = heap.filter(|heap| heap.generation() == self.0.generation);
        let Some(heap) = heap else { STACK.own.no_heap(entry, self.0) };
        let OwnHeapStats { used, charged, limit, allocs, frees, refused, .. } = heap.stats();
        HeapStats {
            used: used as usize,
            charged: bytes(charged),
            limit: bytes(limit),
            allocs,
            frees,
            refused: refused.into(),
        }
    }

    /// Changes the limit. Objects stay.
    pub fn set_limit(self, limit: usize, entry: &str) {
        let _ = self.stats(entry);
        if let Some(heap) = STACK.own.heap(self.0.number) {
            heap.set_limit(frames(limit));
        }
    }

    /// Sets the function that is called with `argument` and a number of bytes, on the thread whose
    /// request for so many bytes has reached the limit; the request then tries once more. `None`:
    /// no function. The function holds no lock of Quarry, and may free, reset or raise the limit;
    /// requests of its own to this heap fail at the limit at once.
    ///
    /// # Safety
    /// Any thread may call the function with the argument while the heap lives.
    pub unsafe fn on_pressure(
        self,
        function: Option<unsafe extern "C" fn(argument: *mut c_void, bytes: usize)>,
        argument: *mut c_void,
        entry: &str,
    ) {
        let _ = self.stats(entry);
        if let Some(heap) = STACK.own.heap(self.0.number) {
            let function: Option<OnPressure> = function;
            heap.telling.set(function.map_or(0, |it| it as usize), argument as usize);
        }
    }
}
