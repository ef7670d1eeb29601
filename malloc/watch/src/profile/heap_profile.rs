//! The profile of one heap: selects samples among requests, and follows each until it is freed.

use super::area::{Area, Did};
use super::gap::Countdown;
use super::layout::{Head, MOST_FRAMES};
use super::pins::{Pin, Pins};
use super::records::{Records, Sampled};
use quarry_mm::frame::{MetadataKind, OsArray, Pfn};
use quarry_mm::slab::Late;
use quarry_mm::stack::{Instrument, Stack, StackConfig, StackHost};
use quarry_sys::clock::coarse_ns;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use quarry_sys::probe;

/// Writes the running thread's return addresses, innermost first, and returns their number. Runs
/// inside `malloc` and signal handlers: it neither allocates nor waits.
pub type Tracer = fn(&mut [u64; MOST_FRAMES]) -> usize;

/// Mean bytes between two samples (tcmalloc and Go 1.26: 512 KiB).
pub const DEFAULT_MEAN: u64 = 512 << 10;

/// The largest mean: with a larger one nothing is sampled in practice.
pub const LARGEST_MEAN: u64 = 1 << 50;

/// The kind of a profile: what it records besides allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// The memory that is in use.
    InUse,
    /// That, and the callers of frees.
    Frees,
    /// The free memory that objects pin in slabs. Such samples stay in their slabs.
    Pins,
}

/// Options of a profile.
#[derive(Clone, Copy, Debug)]
pub struct ProfileOptions {
    /// Mean bytes between two samples, `1..=`[`LARGEST_MEAN`].
    pub mean: u64,
    /// The kind of the profile.
    pub kind: ProfileKind,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The function that finds call sites.
    pub tracer: Tracer,
}

/// Another task is taking a sample at this moment; a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

struct Tables {
    area: Area,
    records: Records,
    countdowns: OsArray<Countdown>,
}

/// The heap profile of one stack. All zero bytes, and so unprepared, at first. Once prepared, it is
/// off (`session` is even) and on (odd) by turns.
pub struct HeapProfile {
    tables: Late<Tables>,
    /// How often a profile was begun or ended: odd while one is on.
    session: AtomicU32,
    /// Number of tasks that are adding to the area.
    busy: AtomicU32,
    mean: AtomicU64,
    /// The [`ProfileKind`].
    kind: AtomicU32,
    pins: Late<Pins>,
    tracer: AtomicPtr<()>,
}

impl HeapProfile {
    pub(crate) const fn new() -> Self {
        Self {
            tables: Late::new(),
            session: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            mean: AtomicU64::new(0),
            kind: AtomicU32::new(0),
            pins: Late::new(),
            tracer: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Makes the tables, with `area` for the counts. To be called once, before the first
    /// [start](Self::start) of a profile of `stack`, whose instrument this is. One task at a time.
    ///
    /// # Errors
    /// The system's error; then no table is made.
    pub fn prepare<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        os: &'static dyn Os,
        area: Area,
    ) -> OsResult<()> {
        if self.tables.get().is_some() {
            return Ok(());
        }
        let slots = stack.percpu().area().slots() as usize;
        let tables = self.tables.build(|| {
            let records = Records::new(os)?;
            Ok(Tables { area, records, countdowns: OsArray::zeroed(os, slots.max(1))? })
        })?;
        let countdowns = tables.countdowns.len() * size_of::<Countdown>();
        let bytes = tables.area.bytes() + Records::BYTES + countdowns;
        stack.metadata().count(MetadataKind::Other, bytes);
        Ok(())
    }

    /// Makes the table of a profile of pins, before the first one starts. One task at a time.
    ///
    /// # Errors
    /// The system's error; then no table is made.
    pub fn prepare_pins<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        os: &'static dyn Os,
    ) -> OsResult<()> {
        if self.pins.get().is_none() {
            self.pins.build(|| Pins::new(os))?;
            stack.metadata().count(MetadataKind::Other, Pins::BYTES);
        }
        Ok(())
    }

    /// The counts, if [`prepare`](Self::prepare) has succeeded.
    #[must_use]
    pub fn area(&self) -> Option<&Area> {
        Some(&self.tables.get()?.area)
    }

    /// Returns whether a profile is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.session.load(Ordering::Relaxed) % 2 == 1
    }

    /// Starts a profile of `stack`, whose instrument this is, and clears the counts of the previous
    /// one. One task at a time; before [`prepare`](Self::prepare) it collects nothing. O(buckets +
    /// slots).
    ///
    /// # Errors
    /// If another task is still adding to the previous profile.
    pub fn start<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        options: &ProfileOptions,
    ) -> Result<(), Busy> {
        self.begin(options)?;
        stack.switch_instrument(Instrument::Profile, self.is_on());
        Ok(())
    }

    fn begin(&self, options: &ProfileOptions) -> Result<(), Busy> {
        let Some(tables) = self.tables.get() else { return Ok(()) };
        let session = self.session.load(Ordering::SeqCst);
        if session % 2 == 1 {
            return Ok(());
        }
        // A sampling task raises `busy`, then reads `session`, so one task sees the other's store.
        if self.busy.load(Ordering::SeqCst) != 0 {
            return Err(Busy);
        }
        let mean = options.mean.clamp(1, LARGEST_MEAN);
        tables.area.clear();
        tables.area.head(Head::Mean).store(mean, Ordering::Relaxed);
        let flag = |kind| u64::from(options.kind == kind);
        let head = |word, value| tables.area.head(word).store(value, Ordering::Relaxed);
        head(Head::TracesFrees, flag(ProfileKind::Frees));
        head(Head::HasPins, flag(ProfileKind::Pins));
        self.mean.store(mean, Ordering::Relaxed);
        self.kind.store(options.kind as u32, Ordering::Relaxed);
        self.tracer.store(options.tracer as *mut (), Ordering::Relaxed);
        for slot in 0..tables.countdowns.len() {
            tables.countdowns.at(slot).begin(options.seed.wrapping_add(slot as u64), mean);
        }
        tables.area.head(Head::Session).store(u64::from(session) + 1, Ordering::Relaxed);
        self.session.store(session.wrapping_add(1), Ordering::SeqCst);
        Ok(())
    }

    /// Stops the profile of `stack`, whose instrument this is; its counts stay. Samples still in
    /// use are freed as usual later. One task at a time.
    pub fn stop<C: StackConfig>(&self, stack: &Stack<C>) {
        stack.switch_instrument(Instrument::Profile, false);
        if let Some(tables) = self.tables.get()
            && self.is_on()
        {
            if let Some(pins) = self.pins.get() {
                self.count_pins(stack, tables, pins);
            }
            let session = self.session.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
            tables.area.head(Head::Session).store(session.into(), Ordering::Relaxed);
        }
    }

    /// In the child of a fork: forgets tasks that were adding to the profile and do not exist here.
    pub fn adopt_in_child(&self) {
        if self.busy.load(Ordering::Relaxed) != 0 {
            self.busy.store(0, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn countdown(&self, slot: usize) -> Option<&Countdown> {
        // No modulo, which would cost more than all other steps; `slot` is below the length.
        Some(self.tables.get()?.countdowns.at(slot))
    }

    /// The countdown of `slot`, if an object of `size` bytes is certainly no sample. A caller that
    /// then allocates the object calls [`pass`](Passing::pass).
    #[inline(always)]
    pub(crate) fn passing(&self, slot: usize, size: usize) -> Option<Passing<'_>> {
        let countdown = self.countdown(slot)?;
        countdown.is_beyond(size as u64).then_some(Passing { countdown, size: size as u64 })
    }

    /// Counts an object of `size` bytes; returns how many points it has, 0 for most: an object with
    /// points becomes a sample. O(1).
    pub(crate) fn count_points(&self, slot: usize, size: usize) -> u64 {
        // An object of 0 bytes takes memory as well.
        let size = size.max(1);
        if let Some(passing) = self.passing(slot, size) {
            passing.pass();
            return 0;
        }
        let Some(countdown) = self.countdown(slot) else { return 0 };
        let points = countdown.cross(size as u64, self.mean.load(Ordering::Relaxed));
        if self.is_on() { points } else { 0 }
    }

    /// Makes an object a sample at its call site; returns the number of its record. `None` if no
    /// profile is on, or if there is no room: then the sample counts as lost. Tracers see it, with
    /// the weight `points * mean`, on average the bytes that it stands for.
    pub(crate) fn sample<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        sampled: Sampled,
        points: u64,
    ) -> Option<u32> {
        let record = self.while_on(|tables, session| {
            let size = sampled.size as u64;
            let bucket = self.count(tables, Did::Allocate, size)?;
            let Some(record) = tables.records.take() else {
                // Counts the object as freed, or it would count as in use for ever.
                tables.area.count_freed(bucket, size);
                tables.area.note_lost();
                return None;
            };
            tables.records.write(record, &Sampled { bucket, session, ..sampled });
            Some(record)
        })?;
        let weight = points.saturating_mul(self.mean.load(Ordering::Relaxed));
        probe::alloc(stack.pages().arena().address(sampled.pfn), sampled.size as u64, weight);
        Some(record)
    }

    /// Ends the sample of a freed object. Calls the tracer if frees are traced.
    pub(crate) fn end_sample<C: StackConfig>(&self, stack: &Stack<C>, record: u32) {
        let Some((tables, sampled)) = self.tables.get().zip(self.read(record)) else { return };
        probe::free(stack.pages().arena().address(sampled.pfn));
        self.while_on(|tables, session| {
            let size = sampled.size as u64;
            if sampled.session == session {
                tables.area.count_freed(sampled.bucket, size);
            }
            if self.kind.load(Ordering::Relaxed) == ProfileKind::Frees as u32 {
                self.count(tables, Did::Free, size);
            }
            None
        });
        tables.records.give(record);
    }

    /// Returns whether samples stay in their slabs.
    #[inline]
    pub(crate) fn has_pins(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == ProfileKind::Pins as u32
    }

    /// Makes an object in a slab a sample that stays there.
    pub(crate) fn pin(&self, object: Object, size: usize) {
        let Some(pins) = self.pins.get() else { return };
        self.while_on(|tables, _| {
            let bucket = self.count(tables, Did::Pin, size as u64)?;
            let address = object.as_ptr() as u64;
            if !pins.put(&Pin { address, size: size as u64, born_ns: coarse_ns(), bucket }) {
                tables.area.note_lost();
            }
            None
        });
    }

    /// Notes that an address is handed out: a pin at this address has died.
    #[inline]
    pub(crate) fn unpin(&self, object: Object) {
        if let Some(pins) = self.pins.get() {
            pins.take(object.as_ptr() as u64);
        }
    }

    /// Counts, at the end of a profile, the pins that are in use, and what they pin. O(table).
    fn count_pins<C: StackConfig>(&self, stack: &Stack<C>, tables: &Tables, pins: &Pins) {
        // A freed object shows only in its slab.
        stack.shrink_all();
        let now = coarse_ns();
        pins.take_all(|pin| {
            if let Some(occupancy) = stack.occupancy(pin.address as *mut u8) {
                let age_ms = now.saturating_sub(pin.born_ns) / 1_000_000;
                tables.area.count_pinned(pin.bucket, pin.size, occupancy.pinned, age_ms);
            }
        });
    }

    pub(crate) fn read(&self, record: u32) -> Option<Sampled> {
        self.tables.get()?.records.read(record)
    }

    fn while_on(&self, add: impl FnOnce(&Tables, u32) -> Option<u32>) -> Option<u32> {
        let tables = self.tables.get()?;
        self.busy.fetch_add(1, Ordering::SeqCst);
        let session = self.session.load(Ordering::SeqCst);
        let added = if session % 2 == 1 { add(tables, session) } else { None };
        // In a child forked by a signal handler in between, the count was reset to 0.
        let less = |busy: u32| busy.checked_sub(1);
        let _ = self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        added
    }

    #[inline(never)]
    fn count(&self, tables: &Tables, did: Did, size: u64) -> Option<u32> {
        let mut frames = [0; MOST_FRAMES];
        let tracer = self.tracer.load(Ordering::Relaxed);
        // SAFETY: `begin` stored a `Tracer` before it made the session odd, as the caller saw it.
        let tracer = unsafe { core::mem::transmute::<*mut (), Tracer>(tracer) };
        let found = tracer(&mut frames).min(MOST_FRAMES);
        let bucket = tables.area.count(did, &frames[..found], size);
        if bucket.is_none() {
            tables.area.note_lost();
        }
        bucket
    }
}

impl Sampled {
    /// An object of `size` bytes in `frames` frames from `pfn` on (0 frames for a mapping); the
    /// program may use `usable` bytes of it.
    pub(crate) fn of(size: usize, pfn: Pfn, frames: u32, usable: usize) -> Self {
        Self { size, pfn, frames, usable, bucket: 0, session: 0 }
    }
}

/// An object that is not a sample, before it is counted.
pub(crate) struct Passing<'a> {
    countdown: &'a Countdown,
    size: u64,
}

impl Passing<'_> {
    #[inline(always)]
    pub(crate) fn pass(self) {
        self.countdown.pass(self.size);
    }
}
