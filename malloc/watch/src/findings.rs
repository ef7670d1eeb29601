//! Reports of errors that the checks find: one line, then the object's tracks, then abort.
//!
//! The lines have the form of SLUB's (Linux 6.18, `mm/slub.c`): the bytes around the first wrong
//! one, the thread that allocated the object, and the thread that freed it.

use super::backtrace::print_callers;
use super::checker::{Allocation, Checker, Storage};
use super::checks::{Checks, Damage, Seal, Shape, Slot, Tracked};
use core::fmt;
use quarry_mm::frame::{Kind, Pfn};
use quarry_mm::slab::cache_of;
use quarry_mm::stack::{Entry, Misuse, Stack, StackConfig, StackHost};
use quarry_sys::primitive::Ordering;
use quarry_sys::report::{abort, warn};

/// Bytes per line of a dump; bytes of a whole dump around the first wrong byte.
const LINE_BYTES: usize = 16;
const DUMP_BYTES: usize = 64;

impl Checks {
    /// If the checks have made the memory of `stack` at `address` inaccessible, reports the access
    /// and aborts. The checks must be those of `stack`. The report calls it an `access` ("read
    /// of"). For a SIGSEGV handler: waits for no lock, so it may read the frame table's entry of a
    /// block while another thread hides that block.
    pub fn report_fault<C: StackConfig>(&self, stack: &Stack<C>, address: usize, access: &str) {
        if stack.has_classes() {
            self.on(stack).report_fault(address, access);
        }
    }
}

impl<C: StackConfig> Checker<'_, C> {
    pub(super) fn misuse_of_seen(&self, entry: Entry, seen: &Allocation, misuse: Misuse) -> ! {
        let address = core::ptr::with_exposed_provenance_mut(seen.address);
        self.misuse_of_seen_at(entry, address, seen, misuse)
    }

    /// Reports the misuse of an allocation, through an address inside or outside of it, and aborts.
    #[cold]
    #[inline(never)]
    pub(super) fn misuse_of_seen_at(
        &self,
        entry: Entry,
        address: *mut u8,
        seen: &Allocation,
        misuse: Misuse,
    ) -> ! {
        let say = |what: fmt::Arguments<'_>| warn(format_args!("{entry}({address:p}): {what}"));
        let size = seen.size;
        match misuse {
            Misuse::InsideObject(_) => {
                say(format_args!("pointer into the middle of an object of {size} bytes"));
            }
            Misuse::InsideBlock => say(format_args!("pointer into the middle of a block")),
            Misuse::WrongSize { claimed, bytes } => {
                say(format_args!("{claimed} bytes is the wrong size for an allocation of {bytes}"))
            }
            Misuse::NothingInUse if self.is_large(seen) => {
                say(format_args!("no block in use starts there: freed already, or never allocated"))
            }
            _ => say(format_args!(
                "object of {size} bytes is not in use: freed already, or never allocated"
            )),
        }
        self.tell_of(seen);
        self.end_here()
    }

    /// Counts an error if the allocation was not requested with `size` bytes; with records, aborts
    /// with a report. (The C++ library may round `size` up to `align`, and 0 bytes up to 1.)
    pub(super) fn demand(&self, entry: Entry, seen: &Allocation, size: usize, align: usize) {
        let rounded = size.max(1).checked_next_multiple_of(align.max(1));
        if seen.size == size || Some(seen.size) == rounded {
            return;
        }
        self.stack.wrong_sizes.fetch_add(1, Ordering::Relaxed);
        if self.have_records() {
            let wrong = Misuse::WrongSize { claimed: size, bytes: seen.size };
            self.misuse_of_seen(entry, seen, wrong);
        }
    }

    fn is_large(&self, seen: &Allocation) -> bool {
        let pfn = self.arena().pfn(core::ptr::with_exposed_provenance(seen.address));
        let kind = pfn.map_or(Kind::NONE, |pfn| self.frames().kind(pfn));
        matches!(seen.storage, Storage::Slot(..)) && !kind.is_cache()
    }

    fn tell_of(&self, seen: &Allocation) {
        warn(format_args!("  object at {:#x}, {} bytes", seen.address, seen.size));
        match seen.storage {
            Storage::Guarded(number) => self.tell_guarded(number),
            Storage::Slot(slot, shape) if Self::MAY_RECORD => tell_owners(slot, &shape),
            _ => {}
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn report_damage(
        &self,
        entry: Option<Entry>,
        slot: Slot,
        shape: Shape,
        (damage, at): (Damage, usize),
    ) -> ! {
        let user = self.parts(slot, shape).user();
        let (start, size) = (user.start, user.bytes);
        let how = match damage {
            Damage::Behind => "past its end",
            Damage::Front => "in front of its start",
            Damage::Freed => "after it was freed",
        };
        let byte = at as isize - start as isize;
        let what = format_args!("object of {size} bytes was written {how}: byte {byte}");
        match entry {
            Some(entry) => warn(format_args!("{entry}({start:#x}): {what}")),
            None => warn(format_args!("{start:#x}: {what}")),
        }
        dump(slot, at);
        tell_owners(slot, &shape);
        self.end_here()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn report_broken(&self, entry: Entry, address: *mut u8, slot: Slot) -> ! {
        warn(format_args!(
            "{entry}({address:p}): written far past the end of the object that starts here, or \
             none ever did"
        ));
        dump(slot, slot.start + slot.bytes - LINE_BYTES);
        self.end_here()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn report_written_record(&self, slot: Slot) -> ! {
        warn(format_args!(
            "{:#x}: object was written after it was freed, or its neighbour past its end",
            slot.start
        ));
        dump(slot, slot.start + slot.bytes - LINE_BYTES);
        self.end_here()
    }

    /// If `address` lies in a freed large block that is inaccessible, reports that and aborts.
    #[cold]
    #[inline(never)]
    pub(super) fn report_if_hidden(&self, entry: Entry, address: *mut u8, pfn: Pfn) {
        let Some(hidden) = self.checks.hidden.lock_of_others() else { return };
        let Some(block) = hidden.find(pfn) else { return };
        let is_start = self.arena().address(block.pfn).as_ptr().addr() + block.about.shape.front
            == address.addr();
        let what = if is_start { "no block in use starts there" } else { "pointer into a block" };
        warn(format_args!("{entry}({address:p}): {what}: freed already, or never allocated"));
        tell_tracks(&block.about.tracks);
        self.end_here()
    }

    fn report_fault(&self, address: usize, access: &str) {
        if let Some(number) = self.checks.guarded_at(core::ptr::without_provenance(address)) {
            self.report_guard_fault(address, access, number);
        }
        if !Self::MAY_RECORD {
            return;
        }
        let zeros = &self.checks.zero_sized;
        if let Some(number) = zeros.find(address) {
            let start = zeros.address(number);
            let byte = address - start;
            match zeros.is_used(number) {
                true => warn(format_args!(
                    "{access} {address:#x}: byte {byte} of an object of 0 bytes at {start:#x}"
                )),
                false => warn(format_args!(
                    "{access} {address:#x}: object of 0 bytes at {start:#x} was freed"
                )),
            }
            self.end_here();
        }
        let Some(pfn) = self.arena().pfn(core::ptr::without_provenance(address)) else {
            return;
        };
        // This thread itself may hold the lock; then the fault is not the program's.
        let Some(hidden) = self.checks.hidden.try_lock() else { return };
        if let Some(block) = hidden.find(pfn) {
            let start = self.arena().address(block.pfn).as_ptr().addr() + block.about.shape.front;
            warn(format_args!(
                "{access} {address:#x}: object of {} bytes at {start:#x} was freed",
                block.about.shape.size
            ));
            tell_tracks(&block.about.tracks);
            self.end_here();
        }
        drop(hidden);
        self.report_guard_page(pfn, address, access);
    }

    fn report_guard_page(&self, pfn: Pfn, address: usize, access: &str) {
        if !self.options().harden {
            return;
        }
        let frames = self.frames();
        let owned_below =
            |end: u32| (0..end).rev().map(Pfn).find(|head| frames.kind(*head) != Kind::NONE);
        let guard = owned_below(pfn.0 + 1).filter(|head| frames.kind(*head) == Kind::GUARD);
        let Some(head) = guard.and_then(|guard| owned_below(guard.0)) else { return };
        match cache_of(frames, head).and_then(|id| self.stack.caches.get(id)) {
            Some(cache) => warn(format_args!(
                "{access} {address:#x}: past the end of objects that take {} bytes each",
                cache.stride()
            )),
            None => {
                let start = self.arena().address(head);
                warn(format_args!("{access} {address:#x}: past the end of the block at {start:p}"));
            }
        }
        self.end_here()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn tell_guarded(&self, number: usize) {
        tell_tracks(&self.guarded(number).tracks.get());
    }

    #[cold]
    #[inline(never)]
    fn report_guard_fault(&self, address: usize, access: &str, number: usize) -> ! {
        let guarded = self.guarded(number);
        let user = guarded.user();
        let (start, size) = (user.start, user.bytes);
        match guarded.seal() {
            Seal::Broken => {
                warn(format_args!("{access} {address:#x}: a guard page, far from any object"));
            }
            Seal::Freed => warn(format_args!(
                "{access} {address:#x}: object of {size} bytes at {start:#x} was freed"
            )),
            Seal::Live => warn(format_args!(
                "{access} {address:#x}: byte {} of an object of {size} bytes at {start:#x}",
                address as isize - start as isize
            )),
        }
        self.tell_guarded(number);
        self.end_here()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn end_here(&self) -> ! {
        let here = self.tracked();
        warn(format_args!("  found by thread {}", here.thread));
        print_callers(&here.frames);
        abort()
    }
}

#[inline(never)]
fn tell_owners(slot: Slot, shape: &Shape) {
    // SAFETY: the slot was made for an object of this shape.
    tell_tracks(&unsafe { slot.tracked(shape) });
}

#[inline(never)]
fn tell_tracks(tracks: &[Option<Tracked>; 2]) {
    let now = quarry_sys::clock::monotonic_ns();
    for (what, tracked) in ["allocated", "freed"].iter().zip(tracks) {
        let Some(tracked) = tracked else { continue };
        let ago = now.saturating_sub(tracked.at_ns) / 1_000_000;
        let thread = tracked.thread;
        warn(format_args!("  {what} {}.{:03} s ago by thread {thread}", ago / 1000, ago % 1000));
        print_callers(&tracked.frames);
    }
}

#[inline(never)]
fn dump(slot: Slot, at: usize) {
    let first = (at & !(LINE_BYTES - 1)).saturating_sub(LINE_BYTES).max(slot.start);
    let end = (first + DUMP_BYTES).min(slot.start + slot.bytes);
    for line in (first..end).step_by(LINE_BYTES) {
        warn(format_args!("  {line:#x}: {}", Bytes(line)));
    }
}

struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for offset in 0..LINE_BYTES {
            let byte = core::ptr::with_exposed_provenance::<u8>(self.0 + offset);
            // SAFETY: slots are multiples of 16 bytes at multiples of 16, and accessible.
            write!(out, "{:02x} ", unsafe { byte.read_volatile() })?;
        }
        Ok(())
    }
}
