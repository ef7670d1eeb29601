//! The measured calls of malloc and free, in a form that the compiler cannot remove.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Blocks of [`Heap::of_preallocated`], of 64 bytes each.
pub(crate) const PREALLOCATED: usize = 4096;

/// `malloc`, `free`, `calloc` and `realloc` of this process, called through pointers that hide them
/// from the compiler, which may remove a `malloc` and its `free` if both are called by name. A call
/// through a pointer costs as much as one through the linkage table (PLT).
#[derive(Clone, Copy)]
pub(crate) struct Heap {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
}

impl Heap {
    pub(crate) fn of_this_process() -> Self {
        Self {
            malloc: black_box(libc::malloc),
            free: black_box(libc::free),
            calloc: black_box(libc::calloc),
            realloc: black_box(libc::realloc),
        }
    }

    /// Functions that hand out and take back the same block, which is never freed: the cost of a
    /// measurement without an allocator. The block must be back before it is handed out again.
    pub(crate) fn of_one_block() -> Self {
        extern "C" fn give(_size: usize) -> *mut c_void {
            thread_local! {
                static BLOCK: Cell<u64> = const { Cell::new(0) };
            }
            BLOCK.with(|block| block.as_ptr().cast())
        }
        extern "C" fn take(_block: *mut c_void) {}
        Self { malloc: black_box(give), free: black_box(take), ..Self::of_this_process() }
    }

    /// Functions that hand out each thread's [`PREALLOCATED`] small blocks in turn: the cost of
    /// passing blocks between threads without allocation. A block must be taken back before
    /// [`PREALLOCATED`] other blocks are handed out.
    pub(crate) fn of_preallocated() -> Self {
        thread_local! {
            // Leaked, because blocks of an ended thread may still be in a queue.
            static BLOCKS: &'static [Cell<[u64; 8]>] =
                vec![Cell::new([0; 8]); PREALLOCATED].leak();
            static NEXT: Cell<usize> = const { Cell::new(0) };
        }
        extern "C" fn give(_size: usize) -> *mut c_void {
            let next = NEXT.get();
            NEXT.set((next + 1) % PREALLOCATED);
            BLOCKS.with(|blocks| blocks[next].as_ptr().cast())
        }
        extern "C" fn take(_block: *mut c_void) {}
        Self { malloc: black_box(give), free: black_box(take), ..Self::of_this_process() }
    }

    pub(crate) fn served_by(&self) -> Option<String> {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address; `info` is writable for one `Dl_info`.
        if unsafe { libc::dladdr(self.malloc as *const c_void, info.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: the call above succeeded, so it filled `info`.
        let name = unsafe { info.assume_init() }.dli_fname;
        // SAFETY: `dli_fname` is a NUL-terminated string; its object stays loaded.
        let text = |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        (!name.is_null()).then(|| text(name))
    }

    /// Allocates `size` bytes, at least 8, and writes `mark` into the first 8.
    #[inline(always)]
    pub(crate) fn allocate(&self, size: usize, mark: u64) -> Block {
        debug_assert!(size >= 8);
        // SAFETY: malloc has no preconditions.
        let pointer = unsafe { (self.malloc)(size) }.cast::<u64>();
        if pointer.is_null() {
            out_of_memory(size);
        }
        // SAFETY: `pointer` is aligned for a u64 and has at least 8 bytes. The store is volatile,
        // so it stays even if the block is freed at once.
        unsafe { pointer.write_volatile(mark) };
        Block(pointer)
    }

    /// Allocates `size` bytes, at least 8, by `calloc`.
    pub(crate) fn allocate_zeroed(&self, size: usize) -> Block {
        // SAFETY: calloc has no preconditions.
        let pointer = unsafe { (self.calloc)(1, size) }.cast::<u64>();
        if pointer.is_null() {
            out_of_memory(size);
        }
        Block(pointer)
    }

    /// Gives a block another size, at least 8; the block keeps its mark.
    pub(crate) fn reallocate(&self, block: Block, size: usize) -> Block {
        // SAFETY: the block came from `malloc`, and its old address is consumed.
        let pointer = unsafe { (self.realloc)(block.0.cast(), size) }.cast::<u64>();
        if pointer.is_null() {
            out_of_memory(size);
        }
        Block(pointer)
    }

    /// Checks a block's mark and frees the block. Panics on a wrong mark, because another owner of
    /// the memory has written it.
    #[inline(always)]
    pub(crate) fn free(&self, block: Block, mark: u64) {
        // SAFETY: the block is live; `allocate` wrote its first 8 bytes, or `calloc` zeroed them.
        let found = unsafe { block.0.read_volatile() };
        if found != mark {
            overwritten(found, mark);
        }
        self.free_unread(block);
    }

    /// Frees a block without reading its mark, because reading would load its first cache line.
    #[inline(always)]
    pub(crate) fn free_unread(&self, block: Block) {
        // SAFETY: the block came from `malloc` and is consumed, so it is not used afterwards.
        unsafe { (self.free)(block.0.cast()) };
    }
}

pub(crate) struct Block(*mut u64);

// SAFETY: a block is plain memory with one owner, and any thread may free it.
unsafe impl Send for Block {}

impl Block {
    pub(crate) fn into_word(self) -> usize {
        self.0 as usize
    }

    /// # Safety
    /// The block has 8 bytes at `offset`, which is a multiple of 8.
    pub(crate) unsafe fn write(&mut self, offset: usize, word: u64) {
        // SAFETY: inside a live block with one owner, as the caller promises.
        unsafe { self.0.byte_add(offset).write_volatile(word) };
    }

    /// # Safety
    /// As for [`Block::write`]; the word has been written, or the block was allocated zeroed.
    pub(crate) unsafe fn read(&self, offset: usize) -> u64 {
        // SAFETY: inside a live block, and initialised, as the caller promises.
        unsafe { self.0.byte_add(offset).read_volatile() }
    }

    /// # Safety
    /// `word` came from [`Block::into_word`] and is turned back once.
    pub(crate) unsafe fn from_word(word: usize) -> Self {
        Self(word as *mut u64)
    }
}

/// Places for blocks; each block is marked with the number of its place. A drop frees the blocks.
pub(super) struct Places {
    heap: Heap,
    pub(super) blocks: Vec<Option<Block>>,
}

impl Places {
    pub(super) fn new(heap: Heap, sizes: impl Iterator<Item = usize>) -> Self {
        let allocate = |(mark, size)| Some(heap.allocate(size, mark as u64));
        Self { heap, blocks: sizes.enumerate().map(allocate).collect() }
    }

    pub(super) fn empty(heap: Heap, count: usize) -> Self {
        Self { heap, blocks: (0..count).map(|_| None).collect() }
    }

    /// Frees the block of a place and allocates another. Returns the number of freed blocks.
    #[inline(always)]
    pub(super) fn replace(&mut self, mark: usize, size: usize) -> u64 {
        let place = &mut self.blocks[mark];
        let mut freed = 0;
        if let Some(old) = place.take() {
            self.heap.free(old, mark as u64);
            freed = 1;
        }
        *place = Some(self.heap.allocate(size, mark as u64));
        freed
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for (mark, place) in self.blocks.iter_mut().enumerate() {
            if let Some(block) = place.take() {
                self.heap.free(block, mark as u64);
            }
        }
    }
}

#[cold]
#[inline(never)]
fn out_of_memory(size: usize) -> ! {
    panic!("malloc({size}) failed");
}

#[cold]
#[inline(never)]
fn overwritten(found: u64, mark: u64) -> ! {
    panic!("a block holds {found:#x} where {mark:#x} was written: memory was handed out twice");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_marks() {
        let heap = Heap::of_this_process();
        let (a, b) = (heap.allocate(8, 1), heap.allocate(4096, 2));
        let word = b.into_word();
        // SAFETY: `word` came from `into_word` and is turned back once.
        heap.free(unsafe { Block::from_word(word) }, 2);
        heap.free(a, 1);
    }

    #[test]
    fn the_loader_knows_where_malloc_is() {
        let file = Heap::of_this_process().served_by().unwrap();
        assert!(file.contains("libc"), "{file}");
    }

    #[test]
    #[should_panic(expected = "memory was handed out twice")]
    fn a_wrong_mark_is_noticed() {
        let heap = Heap::of_this_process();
        let block = heap.allocate(16, 1);
        heap.free(block, 2);
    }
}
