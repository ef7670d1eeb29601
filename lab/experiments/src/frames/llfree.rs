//! LLFree, the lock-free page allocator of Wrenger et al. (USENIX ATC 2023), called through the C
//! interface of `llfree.h`. It is not part of this project: `QUARRY_LLFREE` names its shared
//! object.

use super::Frames;
use anyhow::{Context, Result, bail};
use std::alloc::{Layout, alloc_zeroed};
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// The alignment of LLFree's tables. `LLFREE_CACHE_SIZE` would suffice; page alignment keeps the
/// tables on separate cache lines.
const ALIGN: usize = 4096;
/// `LLFREE_INIT_FREE`: all frames are free.
const INIT_FREE: u8 = 0;

/// `llfree_meta_size_t`: bytes of LLFree's tables.
#[repr(C)]
struct TableBytes {
    llfree: usize,
    local: usize,
    trees: usize,
    lower: usize,
}

/// `llfree_meta_t`: LLFree's tables.
#[repr(C)]
struct Tables {
    local: *mut u8,
    trees: *mut u8,
    lower: *mut u8,
}

/// `llflags_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Flags {
    order: u8,
    movable: bool,
}

/// `llfree_result_t`: `{error : 8 | reclaimed : 1 | frame : 55}`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Answer(u64);

impl Answer {
    fn frame(self) -> Option<u64> {
        (self.0 >> 56 == 0).then_some(self.0 & ((1 << 55) - 1))
    }
}

type TableBytesOf = unsafe extern "C" fn(usize, usize) -> TableBytes;
type Init = unsafe extern "C" fn(*mut c_void, usize, usize, u8, Tables) -> Answer;
type Get = unsafe extern "C" fn(*mut c_void, usize, Flags) -> Answer;
type Put = unsafe extern "C" fn(*mut c_void, usize, u64, Flags) -> Answer;
type FreeFrames = unsafe extern "C" fn(*mut c_void) -> usize;

/// LLFree over some frames. It and its shared object live as long as the process.
pub(super) struct LlFree {
    this: NonNull<c_void>,
    get: Get,
    put: Put,
    free_frames: FreeFrames,
}

// SAFETY: LLFree is made for concurrent calls of its functions from all threads.
unsafe impl Sync for LlFree {}

impl LlFree {
    /// Loads the object and lets it manage `frames` frames for `tasks` tasks.
    ///
    /// # Errors
    /// The object cannot be loaded, lacks a function, or gives answers that this interface does not
    /// allow.
    pub(super) fn load(object: &Path, frames: u32, tasks: u32) -> Result<Self> {
        let object = Object::open(object)?;
        let (tasks, count) = (tasks as usize, frames as usize);
        // SAFETY: `llfree.h` declares the functions with these types. Symbols do not show which
        // version of the interface the object has; but the checks below find wrong answers, and a
        // crash would only end this sample.
        let (table_bytes, init, get, put, free_frames) = unsafe {
            (
                std::mem::transmute::<NonNull<c_void>, TableBytesOf>(
                    object.function(c"llfree_metadata_size")?,
                ),
                std::mem::transmute::<NonNull<c_void>, Init>(object.function(c"llfree_init")?),
                std::mem::transmute::<NonNull<c_void>, Get>(object.function(c"llfree_get")?),
                std::mem::transmute::<NonNull<c_void>, Put>(object.function(c"llfree_put")?),
                std::mem::transmute::<NonNull<c_void>, FreeFrames>(
                    object.function(c"llfree_free_frames")?,
                ),
            )
        };
        // SAFETY: the function only reads its arguments.
        let bytes = unsafe { table_bytes(tasks, count) };
        let this = zeroed(bytes.llfree)?.cast();
        let tables = Tables {
            local: zeroed(bytes.local)?.as_ptr(),
            trees: zeroed(bytes.trees)?.as_ptr(),
            lower: zeroed(bytes.lower)?.as_ptr(),
        };
        // SAFETY: the tables have the sizes that LLFree named, are aligned and zero, and only
        // `this` uses them.
        let answer = unsafe { init(this.as_ptr(), tasks, count, INIT_FREE, tables) };
        let loaded = Self { this, get, put, free_frames };
        if answer.frame().is_none() || loaded.free_frames() != Ok(frames.into()) {
            bail!("it is no LLFree, or one with another interface");
        }
        Ok(loaded)
    }
}

fn zeroed(bytes: usize) -> Result<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes.max(1), ALIGN)?;
    // SAFETY: the layout has a size.
    NonNull::new(unsafe { alloc_zeroed(layout) }).context("no memory for its tables")
}

impl Frames for LlFree {
    #[inline]
    fn get(&self, task: usize, order: u8) -> Option<u32> {
        // SAFETY: LLFree was initialised for this many tasks, and supports all of `ORDERS`.
        let answer =
            unsafe { (self.get)(self.this.as_ptr(), task, Flags { order, movable: false }) };
        answer.frame().map(|frame| frame as u32)
    }

    #[inline]
    fn put(&self, task: usize, first: u32, order: u8) {
        let flags = Flags { order, movable: false };
        // SAFETY: same as in `get`; the frames came from LLFree.
        let answer = unsafe { (self.put)(self.this.as_ptr(), task, first.into(), flags) };
        assert!(answer.frame().is_some(), "LLFree takes back what it gave");
    }

    fn free_frames(&self) -> Result<u64, String> {
        // SAFETY: the function only counts free frames.
        Ok(unsafe { (self.free_frames)(self.this.as_ptr()) } as u64)
    }
}

/// A shared object that stays loaded.
struct Object(NonNull<c_void>);

impl Object {
    fn open(file: &Path) -> Result<Self> {
        let name = CString::new(file.as_os_str().as_bytes())?;
        // SAFETY: the name is a C string; the user who named the object answers for what its
        // constructors do.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).with_context(|| {
            // SAFETY: after a failure this is a C string, valid until the next call.
            let why = NonNull::new(unsafe { libc::dlerror() });
            why.map_or_else(|| format!("cannot load {}", file.display()), text)
        })
    }

    fn function(&self, name: &CStr) -> Result<NonNull<c_void>> {
        // SAFETY: the handle came from `dlopen` and is never closed.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(symbol).with_context(|| format!("it has no {}", name.to_string_lossy()))
    }
}

fn text(message: NonNull<c_char>) -> String {
    // SAFETY: the message of `dlerror` is a C string.
    unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned()
}
