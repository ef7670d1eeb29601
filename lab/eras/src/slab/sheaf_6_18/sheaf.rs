//! A sheaf (`struct slab_sheaf`, Linux 6.18) and lists of sheaves.
//!
//! Equations: `len <= capacity`; the first `len` entries are objects; a list has `count` sheaves.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_mm::frame::{FreshZero, Metadata, MetadataKind};
use quarry_sys::percpu::Object;

#[repr(C)]
struct Header {
    next: Option<NonNull<Header>>,
    len: u32,
    capacity: u32,
}

const _: () = assert!(size_of::<Header>().is_multiple_of(align_of::<Object>()));

/// A sheaf. The holder of this value owns it.
pub(super) struct Sheaf(NonNull<Header>);

// SAFETY: the memory is reached only through this value, and belongs to no thread.
unsafe impl Send for Sheaf {}

impl Sheaf {
    /// An empty sheaf in new memory. `None` if the OS refuses it.
    pub(super) fn new(metadata: &Metadata, capacity: usize) -> Option<Self> {
        let bytes = size_of::<Header>() + capacity * size_of::<Object>();
        let memory = metadata.alloc(bytes, align_of::<Header>(), MetadataKind::Sheaves).ok()?;
        let header: NonNull<Header> = memory.cast();
        // SAFETY: the memory is new and only this thread's, aligned, and large enough.
        unsafe { header.write(Header { next: None, len: 0, capacity: capacity as u32 }) };
        Some(Self(header))
    }

    fn header(&self) -> &Header {
        // SAFETY: `new` has written the header, which is never given back and reached only through
        // this value.
        unsafe { self.0.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: same as in `header`, and the value is borrowed for writing.
        unsafe { self.0.as_mut() }
    }

    fn first(&self) -> *mut MaybeUninit<Object> {
        // SAFETY: the entries begin one past the header, in the same piece of memory.
        unsafe { self.0.add(1).cast().as_ptr() }
    }

    pub(super) fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    pub(super) fn len(&self) -> usize {
        self.header().len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects, the top one last.
    pub(super) fn objects(&self) -> &[Object] {
        // SAFETY: the first `len` entries are written; `self` is borrowed as long as they are.
        unsafe { core::slice::from_raw_parts(self.first().cast(), self.len()) }
    }

    /// Empties the sheaf, then lets `fill` write objects into the front of its entries. Returns the
    /// number of objects, which `fill` returns.
    ///
    /// # Safety
    /// `fill` writes as many objects as it returns.
    pub(super) unsafe fn refill(
        &mut self,
        fill: impl FnOnce(&mut [MaybeUninit<Object>]) -> usize,
    ) -> usize {
        self.clear();
        // SAFETY: the memory has `capacity` entries, and `self` is borrowed for writing as long as
        // `entries` is in use.
        let entries = unsafe { core::slice::from_raw_parts_mut(self.first(), self.capacity()) };
        let filled = fill(entries);
        debug_assert!(filled <= self.capacity());
        self.header_mut().len = filled as u32;
        filled
    }

    pub(super) fn pop(&mut self) -> Option<Object> {
        let object = *self.objects().last()?;
        self.header_mut().len -= 1;
        Some(object)
    }

    /// Forgets the objects, which have another owner now.
    pub(super) fn clear(&mut self) {
        self.header_mut().len = 0;
    }
}

/// A list of sheaves: last in, first out.
pub(super) struct Sheaves {
    first: Option<NonNull<Header>>,
    count: u32,
}

// SAFETY: the list owns its sheaves, which are `Send`.
unsafe impl Send for Sheaves {}

// SAFETY: zero bytes are an empty list.
unsafe impl FreshZero for Sheaves {}

impl Sheaves {
    pub(super) const fn new() -> Self {
        Self { first: None, count: 0 }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn push(&mut self, mut sheaf: Sheaf) {
        sheaf.header_mut().next = self.first;
        self.first = Some(sheaf.0);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Sheaf> {
        let mut sheaf = Sheaf(self.first?);
        self.first = sheaf.header_mut().next.take();
        self.count -= 1;
        Some(sheaf)
    }

    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Returns whether `count` is right and `holds` is true of every sheaf. O(sheaves).
    pub(super) fn is_sound(&self, holds: impl Fn(&Sheaf) -> bool) -> bool {
        let (mut next, mut found) = (self.first, 0);
        while let Some(header) = next {
            let sheaf = Sheaf(header);
            if found == self.count || !holds(&sheaf) {
                return false;
            }
            next = sheaf.header().next;
            found += 1;
        }
        found == self.count
    }
}
