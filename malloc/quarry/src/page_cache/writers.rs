//! The list of mappings that write to a backing, and the limits on dirty pages.
//!
//! Equation: a writer is linked from its registration until its removal, and `uses` is the number
//! of tasks, except its owner, that use it now. Its owner removes it once `uses` is 0.

use crate::gate;
use crate::instance::{STACK, is_ready, zones};
use core::cell::Cell;
use core::ptr::NonNull;
use quarry_cache::PageCaching;
use quarry_mm::frame::FRAME_BYTES;
use quarry_sys::errno::KeepErrno;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::overcommit;
use quarry_sys::primitive::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    futex,
};

/// Percentage of memory; if more is dirty, the background thread writes
/// (`vm.dirty_background_ratio`, `mm/page-writeback.c`, Linux 6.6).
pub(crate) const BACKGROUND_RATIO: u32 = 10;
/// Percentage of memory; if more is dirty, threads that make pages dirty write (`vm.dirty_ratio`).
pub(crate) const HARD_RATIO: u32 = 20;
/// Pages of one mapping that the background thread writes before it goes to the next mapping
/// (`MIN_WRITEBACK_PAGES`, 4 MiB, `fs/fs-writeback.c`, Linux 6.6).
pub(crate) const TURN_PAGES: usize = 1024;

pub(crate) struct WriterCalls {
    pub(crate) write: unsafe fn(NonNull<Writer>, most: usize) -> usize,
    pub(crate) visit_locks: unsafe fn(NonNull<Writer>, &mut Visit<'_>),
}

pub(crate) struct Writer {
    calls: &'static WriterCalls,
    uses: AtomicU32,
    next: Cell<Option<NonNull<Writer>>>,
    previous: Cell<Option<NonNull<Writer>>>,
}

// SAFETY: the links are read and written only under the lock of the list.
unsafe impl Sync for Writer {}
// SAFETY: a writer belongs to no thread, and its links are used only under the lock of the list.
unsafe impl Send for Writer {}

impl Writer {
    pub(crate) const fn new(calls: &'static WriterCalls) -> Self {
        let (next, previous) = (Cell::new(None), Cell::new(None));
        Self { calls, uses: AtomicU32::new(0), next, previous }
    }
}

struct Writers {
    first: Option<NonNull<Writer>>,
}

// SAFETY: any thread may use a writer, see `Writer`.
unsafe impl Send for Writers {}

static WRITERS: CountedLock<Writers> = CountedLock::new(Writers { first: None });

/// The current percentages, by default [`BACKGROUND_RATIO`] and [`HARD_RATIO`].
static BACKGROUND: AtomicU32 = AtomicU32::new(BACKGROUND_RATIO);
static HARD: AtomicU32 = AtomicU32::new(HARD_RATIO);

/// The machine's memory and swap, in pages of 4 KiB; 0 until it is first needed.
static MACHINE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn visit_locks(visit: &mut Visit<'_>) {
    visit("writers", &WRITERS);
    each(|writer| {
        // SAFETY: the writer is linked, so it is alive.
        unsafe { (writer.as_ref().calls.visit_locks)(writer, visit) };
    });
}

fn each(mut look: impl FnMut(NonNull<Writer>)) {
    let writers = WRITERS.lock();
    let mut next = writers.first;
    while let Some(writer) = next {
        look(writer);
        // SAFETY: linked writers are alive, and the lock is held.
        next = unsafe { writer.as_ref() }.next.get();
    }
}

/// # Safety
/// The writer stays where it is until it is removed.
pub(crate) unsafe fn add(writer: NonNull<Writer>) {
    let _inside = gate::enter();
    let mut writers = WRITERS.lock();
    // SAFETY: all linked writers stay where they were added, and the lock is held.
    unsafe {
        writer.as_ref().next.set(writers.first);
        if let Some(next) = writers.first {
            next.as_ref().previous.set(Some(writer));
        }
    }
    writers.first = Some(writer);
}

/// Unlinks a writer, and waits until no task uses it.
///
/// # Safety
/// The writer was added, and has not been removed.
pub(crate) unsafe fn remove(writer: NonNull<Writer>) {
    let _errno = KeepErrno::new();
    // SAFETY: the writer is still linked, so its owner still has it.
    let writer = unsafe { writer.as_ref() };
    loop {
        let uses = {
            let _inside = gate::enter();
            let mut writers = WRITERS.lock();
            let uses = writer.uses.load(Acquire);
            if uses == 0 {
                unlink(&mut writers, writer);
                return;
            }
            uses
        };
        futex::wait(&writer.uses, uses);
    }
}

fn unlink(writers: &mut Writers, writer: &Writer) {
    let (next, previous) = (writer.next.take(), writer.previous.take());
    // SAFETY: linked writers are alive, and the lock is held.
    unsafe {
        match previous {
            Some(previous) => previous.as_ref().next.set(next),
            None => writers.first = next,
        }
        if let Some(next) = next {
            next.as_ref().previous.set(previous);
        }
    }
}

/// In the child of a fork: ends all uses of writers, whose tasks exist only in the parent.
pub(crate) fn forget_uses() {
    // SAFETY: linked writers are alive.
    each(|writer| unsafe { writer.as_ref() }.uses.store(0, Relaxed));
}

/// Ends the use of `used` and begins the use of the next writer; with `None`, of the first one.
fn next_used(used: Option<NonNull<Writer>>) -> Option<NonNull<Writer>> {
    let _inside = gate::enter();
    let writers = WRITERS.lock();
    // SAFETY: a used writer is linked, and linked writers are alive.
    unsafe {
        let next = used.map_or(writers.first, |used| used.as_ref().next.get());
        if let Some(next) = next {
            next.as_ref().uses.fetch_add(1, AcqRel);
        }
        if let Some(used) = used {
            used.as_ref().uses.fetch_sub(1, Release);
            futex::wake_all(&used.as_ref().uses);
        }
        next
    }
}

/// Writes up to `most` dirty pages of each mapping in turn, until `is_enough`; returns their
/// number. Calls backings: the caller holds no lock, and is outside the gate.
pub(crate) fn write_some(most: usize, is_enough: impl Fn(usize) -> bool) -> usize {
    let (mut written, mut used) = (0, None);
    loop {
        used = next_used(used);
        let Some(writer) = used else { return written };
        if !is_enough(written) {
            // SAFETY: a used writer is alive.
            written += unsafe { write(writer, most) };
        }
    }
}

/// Writes up to `most` dirty pages of one mapping; returns their number.
///
/// # Safety
/// The writer is alive.
pub(crate) unsafe fn write(writer: NonNull<Writer>, most: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { (writer.as_ref().calls.write)(writer, most) }
}

pub(crate) fn set_ratios(background: u32, hard: u32) {
    HARD.store(hard, Relaxed);
    BACKGROUND.store(background, Relaxed);
}

pub(crate) fn dirty() -> usize {
    let cache = if is_ready() { PageCaching::opened(&STACK) } else { None };
    cache.map_or(0, |cache| cache.events().dirty() as usize)
}

/// Pages that could hold file data: the lower of limit and machine memory, minus the heap's pages.
fn dirtyable() -> usize {
    let budget = zones().budget();
    let cached = PageCaching::opened(&STACK).map_or(0, |cache| cache.events().pages() as usize);
    let of_heap = (budget.used() as usize).saturating_sub(cached);
    (budget.limit() as usize).min(machine()).saturating_sub(of_heap)
}

fn machine() -> usize {
    if MACHINE.load(Relaxed) == 0 {
        let bytes = overcommit::memory_and_swap().unwrap_or(usize::MAX);
        MACHINE.store((bytes / FRAME_BYTES).max(1), Relaxed);
    }
    MACHINE.load(Relaxed)
}

/// Returns whether the background thread should write, because too many pages are dirty. O(slots).
pub(crate) fn is_due() -> bool {
    is_beyond(&BACKGROUND)
}

/// Returns whether threads that make pages dirty should write some themselves. O(slots).
pub(crate) fn is_overdue() -> bool {
    is_beyond(&HARD)
}

fn is_beyond(percent: &AtomicU32) -> bool {
    let dirty = dirty();
    dirty > 0 && dirty * 100 > dirtyable() * percent.load(Relaxed) as usize
}
