//! The part of a mapping that does not depend on the type of its backing.

use super::balancing::{self, BalanceWait};
use super::raw_mapping::{Effort, MappingOptions, RawMapping, RawPage, RawSlot, inside};
use super::writers::{self, Writer, WriterCalls};
use crate::error::Error;
use crate::instance::STACK;
use crate::{background, fork};
use core::ptr::NonNull;
use quarry_cache::page_cache::{ErrorCursor, ErrorSequence, Need, ReadAhead, Trigger, Window};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::StackHost;
use quarry_mm::zone::{Group, GroupId};
use quarry_sys::clock::coarse_ns;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of calls of `balance` for a mapping between two checks of the number of dirty pages
/// (`ratelimit_pages`, `mm/page-writeback.c`, Linux 6.6).
const DIRTIED_BETWEEN_LOOKS: u32 = 32;
/// Maximum number of dirty pages that a request without memory writes in a round, and of rounds.
const WRITTEN_FOR_ROOM: usize = 64;
const MOST_ROUNDS: u32 = 16;
/// Nanoseconds for which the background thread skips a mapping whose backing has failed: 5 s
/// (`dirty_writeback_interval`, `mm/page-writeback.c`, Linux 6.6).
const AFTER_ERROR_NS: u64 = 5_000_000_000;

#[repr(C)]
pub(crate) struct MappingCore {
    /// The first field, so that the writer has the address of the whole core.
    writer: Writer,
    pub(crate) raw: RawMapping,
    pub(crate) page_bytes: usize,
    /// The group that limits the pinned bytes of the mapping; the root group if no group does.
    pins_of: GroupId,
    /// The value of `fork::generation` in the process that made the mapping.
    process: u32,
    dirtied: AtomicU32,
    most_ahead: AtomicU32,
    /// The background thread writes no page before this time, by the coarse clock.
    quiet_until_ns: AtomicU64,
    errors: ErrorSequence,
    /// The position in `errors` up to which flushes without a cursor have reported.
    reported: CountedLock<ErrorCursor>,
    ahead: CountedLock<ReadAhead>,
}

impl MappingCore {
    pub(crate) fn new(
        raw: RawMapping,
        options: &MappingOptions,
        most_ahead: u32,
        calls: &'static WriterCalls,
    ) -> Self {
        let (bytes, errors) = (options.order.bytes(), ErrorSequence::default());
        let group = STACK.groups().get(GroupId(options.group));
        let counts_pins = group.is_some_and(Group::counts_pins);
        Self {
            writer: Writer::new(calls),
            raw,
            page_bytes: bytes,
            pins_of: GroupId(if counts_pins { options.group } else { 0 }),
            process: fork::generation(),
            dirtied: AtomicU32::new(0),
            most_ahead: AtomicU32::new(most_ahead),
            quiet_until_ns: AtomicU64::new(0),
            reported: CountedLock::new(errors.cursor()),
            errors,
            ahead: CountedLock::new(ReadAhead::default()),
        }
    }

    /// Counts a pin, if the group of the mapping limits them.
    #[inline]
    pub(crate) fn note_pin(&self) {
        if self.pins_of != GroupId::ROOT {
            STACK.groups().at(self.pins_of).pin(self.frames());
        }
    }

    #[inline]
    pub(crate) fn note_unpin(&self) {
        if self.pins_of != GroupId::ROOT {
            STACK.groups().at(self.pins_of).unpin(self.frames());
        }
    }

    /// Refuses another pin that would exceed the limit on pinned bytes of the mapping's group.
    #[inline]
    pub(crate) fn check_pins(&self) -> Result<(), Error> {
        let may_pin =
            self.pins_of == GroupId::ROOT || STACK.groups().at(self.pins_of).may_pin(self.frames());
        if may_pin { Ok(()) } else { Err(Error::Full) }
    }

    fn frames(&self) -> u32 {
        (self.page_bytes / FRAME_BYTES) as u32
    }

    pub(crate) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("mapping->reported", &self.reported);
        visit("mapping->ahead", &self.ahead);
    }

    pub(crate) fn writer(&self) -> NonNull<Writer> {
        NonNull::from(&self.writer)
    }

    /// Number of pages that a mapping can have: all byte offsets are below 2^63
    /// (`MAX_LFS_FILESIZE`, `include/linux/fs.h`, Linux 6.6).
    pub(crate) fn most_pages(&self) -> u64 {
        (1 << 63) / self.page_bytes as u64
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.process != fork::generation()
    }

    /// Sets the maximum number of pages of a read-ahead window; 0 and 1 switch read-ahead off.
    pub(crate) fn set_most_ahead(&self, pages: u32) {
        self.most_ahead.store(pages, Relaxed);
    }

    /// The window to read ahead after a miss or a use of a marked page; `None`: read nothing ahead.
    pub(crate) fn window(&self, index: u64, trigger: Trigger) -> Option<Window> {
        let most = self.most_ahead.load(Relaxed);
        if most <= 1 {
            return None;
        }
        inside(|_| {
            // While another task computes a window, this one reads nothing ahead.
            let mut ahead = self.ahead.try_lock()?;
            let is_cached = |index| self.raw.is_cached(index);
            let window = ahead.window(Need { index, pages: 1, most, trigger }, is_cached);
            (window.pages > 0).then_some(window)
        })
    }

    /// Called where a page becomes dirty: keeps dirty pages within their share of memory. May call
    /// the backing to write pages that no task has latched, or start the background thread.
    pub(crate) fn balance(&self) {
        if !self.dirtied.fetch_add(1, Relaxed).wrapping_add(1).is_multiple_of(DIRTIED_BETWEEN_LOOKS)
        {
            return;
        }
        self.write_if_due();
    }

    #[cold]
    fn write_if_due(&self) {
        if self.is_forked() || !writers::is_due() {
            return;
        }
        let has_background = balancing::wake_for_writeback();
        if has_background && !writers::is_overdue() {
            return;
        }
        // SAFETY: the writer belongs to this mapping.
        unsafe { writers::write(self.writer(), WRITTEN_FOR_ROOM) };
    }

    /// Like [`RawMapping::get_or_alloc`], but makes room first if dirty pages fill the memory.
    pub(crate) fn get_or_alloc(&self, index: u64, effort: Effort) -> Result<RawSlot, Error> {
        let mut rounds = match effort {
            Effort::Every => MOST_ROUNDS,
            Effort::Easy => 0,
        };
        let mut wait = BalanceWait::from(self.page_bytes);
        loop {
            match self.raw.get_or_alloc(index, effort) {
                Err(Error::Full) if rounds > 0 && self.make_room(&mut wait) => rounds -= 1,
                done => {
                    balancing::want_if_due();
                    return done;
                }
            }
        }
    }

    /// Returns whether a step may have freed memory. The steps: empty the slots of all CPUs, write
    /// dirty pages of this mapping, then of others, wait for the background thread.
    #[cold]
    fn make_room(&self, wait: &mut BalanceWait) -> bool {
        // Other CPUs may hold the only free pages.
        if background::empty_slots_at_limit() {
            return true;
        }
        // SAFETY: the writer belongs to this mapping.
        let own = unsafe { writers::write(self.writer(), WRITTEN_FOR_ROOM) };
        own > 0
            || writers::write_some(WRITTEN_FOR_ROOM, |written| written > 0) > 0
            || wait.has_balanced()
    }

    pub(crate) fn mark_dirty(&self, page: RawPage) {
        inside(|cache| cache.mark_dirty(page.0));
    }

    pub(crate) fn note_error(&self, errno: i32) {
        self.errors.record(errno);
        self.quiet_until_ns.store(coarse_ns() + AFTER_ERROR_NS, Relaxed);
    }

    /// Records a failed sync of the backing. The background thread still writes this mapping.
    pub(crate) fn note_sync_error(&self, errno: i32) {
        self.errors.record(errno);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let until = self.quiet_until_ns.load(Relaxed);
        until != 0 && coarse_ns() < until
    }

    pub(crate) fn end_quiet(&self) {
        if self.quiet_until_ns.load(Relaxed) != 0 {
            self.quiet_until_ns.store(0, Relaxed);
        }
    }

    pub(crate) fn error_cursor(&self) -> ErrorCursor {
        self.errors.cursor()
    }

    /// The last error since the cursor, or without a cursor, since the last flush that had none.
    pub(crate) fn news(&self, cursor: Option<&mut ErrorCursor>) -> Option<i32> {
        match cursor {
            Some(cursor) => self.errors.advance(cursor),
            None => inside(|_| self.errors.advance(&mut self.reported.lock())),
        }
    }
}
