//! All own heaps of a stack: records and descriptors by number, unused ones, and gone slabs.
//!
//! Locks are taken in this order: a heap's, then `places`.
//!
//! Equation: `gone_frames` = sum over gone descriptors of their frames.

use super::heap::{Locked, Missed, OwnHeap, OwnHeapId, OwnHeapStats, Slabs, Use};
use super::slab::{CLASSES, Contents, OwnSlab, orders};
use crate::frame::{Chunks, FRAME_SHIFT, Metadata, Pfn};
use crate::zone::{GroupId, Groups, Name};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::{AnyLock, Visit};
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed, task};
use quarry_sys::report::fatal;

/// So many records of dead heaps keep their names before a new heap gets the oldest.
const DEAD_KEPT: u32 = 1024;

/// Numbers of unused places and of gone descriptors.
struct Places {
    /// The oldest and the latest dead record, and how many there are.
    dead: (u32, u32, u32),
    /// Descriptors that ever had a number, and the latest unused one.
    descriptors: u32,
    unused: u32,
    /// The oldest and the latest gone descriptor.
    gone: (u32, u32),
}

/// The own heaps of a stack. Aligned like that, so that the fields before it lie as without it.
#[repr(align(256))]
pub struct OwnHeaps {
    heaps: Chunks<OwnHeap, 8>,
    slabs: Slabs,
    places: CountedLock<Places>,
    /// Records that ever had a number: `1..=made`.
    made: AtomicU32,
    live: AtomicU32,
    gone_frames: AtomicU32,
}

/// The lock of a heap, for visitors.
struct LockOf<'a> {
    heaps: &'a OwnHeaps,
    heap: &'a OwnHeap,
    number: u32,
}

impl AnyLock for LockOf<'_> {
    fn is_free(&self) -> bool {
        self.heap.is_free()
    }

    fn stats(&self) -> Option<LockStats> {
        let OwnHeapStats { allocs, frees, contentions, .. } = self.heap.stats();
        let contentions = contentions.into();
        Some(LockStats { acquisitions: allocs + frees, contentions, ..LockStats::default() })
    }

    fn adopt_in_child(&self) {
        self.heap.telling.adopt(task::current());
        if self.heap.adopt() {
            Locked::alone(self.heap, self.number, &self.heaps.slabs).mend();
        }
    }
}

impl OwnHeaps {
    /// Number of classes of objects in slabs.
    pub(crate) const CLASSES: usize = CLASSES;

    /// No heap.
    pub(crate) const fn new() -> Self {
        Self {
            heaps: Chunks::new(),
            slabs: Slabs::new(),
            places: CountedLock::new(Places {
                dead: (0, 0, 0),
                descriptors: 0,
                unused: 0,
                gone: (0, 0),
            }),
            made: AtomicU32::new(0),
            live: AtomicU32::new(0),
            gone_frames: AtomicU32::new(0),
        }
    }

    /// The record with this number, which may be of a dead heap.
    #[inline]
    pub fn heap(&self, number: u32) -> Option<&OwnHeap> {
        self.heaps.get(number)
    }

    /// The descriptor with this number.
    #[inline]
    pub fn slab(&self, number: u32) -> Option<&OwnSlab> {
        self.slabs.get(number)
    }

    /// The name of a heap.
    pub fn name(&self, number: u32) -> Name {
        self.heap(number).map(OwnHeap::name).unwrap_or_default()
    }

    /// All living heaps.
    pub fn each(&self) -> impl Iterator<Item = (OwnHeapId, &OwnHeap)> {
        self.all().filter(|(_, heap)| heap.is_live()).map(|(number, heap)| {
            let generation = heap.generation();
            (OwnHeapId { number, generation }, heap)
        })
    }

    fn all(&self) -> impl Iterator<Item = (u32, &OwnHeap)> {
        let made = self.made.load(Relaxed);
        (1..=made).filter_map(|number| Some((number, self.heap(number)?)))
    }

    /// Number of living heaps.
    pub fn live(&self) -> u32 {
        self.live.load(Relaxed)
    }

    /// Frames of gone slabs.
    pub fn gone_frames(&self) -> u32 {
        self.gone_frames.load(Relaxed)
    }

    /// Makes a heap in a group, of which it is a member if the program has made it. It may be
    /// charged for `limit` frames.
    ///
    /// # Errors
    /// The OS's refusal of memory for its record.
    pub fn create(
        &self,
        name: Name,
        of: (GroupId, Use),
        limit: u32,
        metadata: &Metadata,
    ) -> OsResult<OwnHeapId> {
        let mut places = self.places.lock();
        let made = self.made.load(Relaxed);
        let fresh =
            if places.dead.2 > DEAD_KEPT { None } else { self.heaps.make(made + 1, metadata).ok() };
        let number = match (fresh, self.heap(places.dead.0)) {
            (Some(_), _) => {
                self.made.store(made + 1, Relaxed);
                made + 1
            }
            (None, Some(dead)) => {
                let number = places.dead.0;
                places.dead.0 = dead.next_free.load(Relaxed);
                places.dead.2 -= 1;
                number
            }
            (None, None) => return Err(OsError(libc::ENOMEM)),
        };
        self.live.fetch_add(1, Relaxed);
        let heap = self.heap(number).expect("its piece has memory");
        Ok(OwnHeapId { number, generation: heap.begin(name, of, limit) })
    }

    /// The heap and its lock, if it lives.
    #[inline]
    fn lock(&self, id: OwnHeapId) -> Option<Locked<'_>> {
        let heap = self.heap(id.number)?;
        let held = heap.lock(id.number, &self.slabs);
        (heap.generation() == id.generation).then_some(held)
    }

    /// Takes an object of a class, if the heap has one at hand and its lock is free; returns its
    /// address, or 0. Allowed outside the gate.
    #[inline(always)]
    pub fn take_next(&self, id: OwnHeapId, class: u8) -> usize {
        self.heap(id.number).map_or(0, |heap| heap.take(id.generation, class))
    }

    /// Takes an object of a class from the slabs that the heap has; returns its address. Frame 0 is
    /// at `base`. Allowed outside the gate.
    ///
    /// # Errors
    /// [`Missed::Empty`] or [`Missed::Dead`].
    pub(crate) fn take(&self, id: OwnHeapId, class: u8, base: usize) -> Result<usize, Missed> {
        match self.lock(id).ok_or(Missed::Dead)?.take(class, base) {
            0 => Err(Missed::Empty),
            address => Ok(address),
        }
    }

    /// Gives what comes next back to the slabs. `frame_of` finds the descriptor that the frame of
    /// an address names, the frame, and the offset.
    pub(crate) fn rewind(&self, id: OwnHeapId, frame_of: impl Fn(usize) -> (u32, Pfn, usize)) {
        let Some(held) = self.lock(id) else { return };
        held.rewind(|address| {
            let (at, frame, offset) = frame_of(address);
            let slab = self.slab(at)?;
            Some((at, slab.object_number(self.offset(slab, frame, offset)?)?))
        });
    }

    /// Gives the object at an address back, `offset` bytes from the start of `frame`, which names
    /// descriptor `at`. `None` if it is not one of a slab of a living heap, or not in use, or if
    /// the lock is not free and the caller does not wait; else, whether the heap has many empty
    /// slabs. Allowed outside the gate.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        (at, waits): (u32, bool),
        (frame, offset): (Pfn, usize),
        address: usize,
    ) -> Option<bool> {
        let slab = self.slab(at)?;
        let number = slab.heap();
        let heap = self.heap(number)?;
        heap.give((number, waits), &self.slabs, (at, slab), || {
            let (class, number) = slab.object_at(self.offset(slab, frame, offset)?)?;
            Some((class, number, address))
        })
    }

    /// The offset from the start of a slab of an address `offset` bytes into `frame`, one of its
    /// frames.
    #[inline]
    fn offset(&self, slab: &OwnSlab, frame: Pfn, offset: usize) -> Option<usize> {
        let frames = frame.0.checked_sub(slab.first().0).filter(|it| *it < slab.frames())?;
        Some(((frames as usize) << FRAME_SHIFT) + offset)
    }

    /// Returns whether an object of the descriptor, in use or not, starts at an address, which is
    /// `offset` bytes into `frame`, and whether it is in use.
    pub fn look(&self, at: u32, (frame, offset): (Pfn, usize), address: usize) -> Option<bool> {
        let slab = self.slab(at)?;
        let number = slab.object_number(self.offset(slab, frame, offset)?)?;
        let is_next = match slab.contents() {
            Contents::Objects(class) => self.heap(slab.heap())?.is_next(class, address),
            _ => false,
        };
        Some(slab.is_in_use(number) && !is_next)
    }

    /// The class that serves a plain request after a miss.
    pub(crate) fn serving(&self, id: OwnHeapId, class: u8) -> Result<u8, Missed> {
        Ok(self.lock(id).ok_or(Missed::Dead)?.serving(class))
    }

    /// Charges a heap for a new slab of a class; returns its order. A smaller slab may do at the
    /// limit.
    pub(crate) fn charge_slab(
        &self,
        groups: &Groups,
        id: OwnHeapId,
        class: u8,
    ) -> Result<u8, Missed> {
        let held = self.lock(id).ok_or(Missed::Dead)?;
        let orders = orders(class);
        let mut order = held.next_order(class, orders);
        loop {
            match held.charge(1 << order, groups) {
                Ok(()) => return Ok(order),
                Err(missed) if order == orders.0 => return Err(missed),
                Err(_) => order -= 1,
            }
        }
    }

    /// The least order of slabs of a class.
    pub(crate) fn least_order(class: u8) -> u8 {
        orders(class).0
    }

    /// Charges a heap for frames.
    pub(crate) fn charge(&self, groups: &Groups, id: OwnHeapId, frames: u32) -> Result<(), Missed> {
        self.lock(id).ok_or(Missed::Dead)?.charge(frames, groups)
    }

    /// Takes back a charge whose frames did not come.
    pub(crate) fn uncharge(&self, groups: &Groups, id: OwnHeapId, frames: u32) {
        if let Some(held) = self.lock(id) {
            held.uncharge(frames, groups);
        }
    }

    /// A descriptor of frames that the heap is charged for; not yet in its chain.
    pub(crate) fn describe(
        &self,
        id: OwnHeapId,
        frames: (Pfn, u32),
        contents: Contents,
        metadata: &Metadata,
    ) -> Option<u32> {
        let mut places = self.places.lock();
        let (number, slab) = match self.slab(places.unused).filter(|_| places.unused > 0) {
            Some(unused) => {
                let number = places.unused;
                places.unused = unused.next_of_heap.load(Relaxed);
                (number, unused)
            }
            None => {
                let number = places.descriptors + 1;
                let slab = self.slabs.make(number, metadata).ok()?;
                places.descriptors = number;
                (number, slab)
            }
        };
        drop(places);
        slab.set_up(id.number, frames, contents);
        Some(number)
    }

    /// Puts a new descriptor into the chain; returns false if the heap was destroyed meanwhile.
    pub(crate) fn attach(&self, id: OwnHeapId, at: u32) -> bool {
        let (Some(held), Some(slab)) = (self.lock(id), self.slab(at)) else { return false };
        held.attach(at, slab);
        true
    }

    /// Makes a descriptor, whose frames are free or another's, an unused one.
    pub(crate) fn forget(&self, at: u32) {
        let Some(slab) = self.slab(at) else { return };
        let mut places = self.places.lock();
        slab.end();
        slab.next_of_heap.store(places.unused, Relaxed);
        places.unused = at;
    }

    /// Takes the block or mapping at `frame` out of its heap, of which `at` is the descriptor, and
    /// returns the number of the heap; `None` if another thread has done so.
    pub(crate) fn detach(&self, groups: &Groups, at: u32, frame: Pfn) -> Option<u32> {
        let slab = self.slab(at)?;
        let number = slab.heap();
        let heap = self.heap(number)?;
        let held = heap.lock(number, &self.slabs);
        let is_there = slab.heap() == number && heap.is_live() && slab.first() == frame;
        let leaves = is_there && !matches!(slab.contents(), Contents::Objects(_));
        if leaves {
            held.detach(slab, groups);
        }
        leaves.then_some(number)
    }

    /// Takes a slab that has just become empty out of its heap, if the heap has many; returns
    /// whether it did.
    pub(crate) fn detach_emptied(&self, groups: &Groups, at: u32) -> bool {
        let Some(slab) = self.slab(at) else { return false };
        let number = slab.heap();
        let Some(heap) = self.heap(number) else { return false };
        let held = heap.lock(number, &self.slabs);
        let is_there = slab.heap() == number && heap.is_live() && slab.in_use() == 0;
        let leaves = is_there && held.has_many_empty();
        if leaves {
            held.detach(slab, groups);
        }
        leaves
    }

    /// Takes all empty slabs out of a heap, and returns the first: see
    /// [`next_detached`](Self::next_detached).
    pub(crate) fn detach_empty(&self, groups: &Groups, id: OwnHeapId) -> u32 {
        self.lock(id).map_or(0, |held| held.detach_all(groups, |slab| slab.in_use() == 0))
    }

    /// Frees all objects in slabs, which stay; takes blocks and mappings out of the heap, and
    /// returns the first of them: see [`next_detached`](Self::next_detached).
    pub(crate) fn reset(&self, groups: &Groups, id: OwnHeapId) -> Result<u32, Missed> {
        let held = self.lock(id).ok_or(Missed::Dead)?;
        let is_large = |slab: &OwnSlab| !matches!(slab.contents(), Contents::Objects(_));
        let detached = held.detach_all(groups, is_large);
        held.clear();
        Ok(detached)
    }

    /// The descriptor after this one of those that were taken out together.
    pub(crate) fn next_detached(&self, at: u32) -> u32 {
        self.slab(at).map_or(0, |slab| slab.next_of_heap.load(Relaxed))
    }

    /// Makes the block or mapping of descriptor `at` a sample.
    pub(crate) fn set_sample(&self, id: OwnHeapId, at: u32, record: u32, usable: usize) {
        if let (Some(held), Some(slab)) = (self.lock(id), self.slab(at)) {
            held.resize(slab, || slab.set_sample(record, usable));
        }
    }

    /// Changes the mapping that descriptor `at` describes.
    pub(crate) fn move_mapping(&self, id: OwnHeapId, at: u32, (first, frames): (Pfn, u32)) {
        if let (Some(held), Some(slab)) = (self.lock(id), self.slab(at)) {
            held.resize(slab, || slab.move_to(first, frames));
        }
    }

    /// Ends a heap: its slabs and blocks are gone, and still name it. Takes mappings out, and
    /// returns the first of them. `end_sample` gets the records of samples that are gone. Fails
    /// with `Dead` if the heap has ended already.
    pub(crate) fn destroy(
        &self,
        groups: &Groups,
        id: OwnHeapId,
        end_sample: impl Fn(u32),
    ) -> Result<u32, Missed> {
        let held = self.lock(id).ok_or(Missed::Dead)?;
        let detached = held.detach_all(groups, |slab| slab.contents() == Contents::Mapping);
        let first = held.end(id.generation, groups).ok_or(Missed::Dead)?;
        let (mut last, mut count, mut frames) = (0, 0, 0);
        for (at, slab) in held.each() {
            last = at;
            count += 1;
            frames += slab.frames();
            let sample = slab.sample();
            if sample != 0 {
                slab.set_sample(0, 0);
                end_sample(sample);
            }
        }
        let heap = held.heap;
        let mut places = self.places.lock();
        heap.gone.store(count, Relaxed);
        self.live.fetch_sub(1, Relaxed);
        self.gone_frames.fetch_add(frames, Relaxed);
        if first == 0 {
            self.bury(&mut places, id.number);
        } else {
            match self.slab(places.gone.1).filter(|_| places.gone.0 != 0) {
                Some(latest) => latest.next_of_heap.store(first, Relaxed),
                None => places.gone.0 = first,
            }
            places.gone.1 = last;
        }
        Ok(detached)
    }

    fn bury(&self, places: &mut Places, number: u32) {
        let Some(heap) = self.heap(number) else { return };
        heap.next_free.store(0, Relaxed);
        match self.heap(places.dead.1).filter(|_| places.dead.2 > 0) {
            Some(latest) => latest.next_free.store(number, Relaxed),
            None => places.dead.0 = number,
        }
        places.dead.1 = number;
        places.dead.2 += 1;
    }

    /// Takes the oldest gone descriptor, while more than `most` frames are gone.
    pub(crate) fn take_gone(&self, most: u32) -> Option<u32> {
        if self.gone_frames() <= most {
            return None;
        }
        let mut places = self.places.lock();
        let at = places.gone.0;
        let slab = self.slab(at).filter(|_| at != 0)?;
        places.gone.0 = slab.next_of_heap.load(Relaxed);
        self.gone_frames.fetch_sub(slab.frames(), Relaxed);
        let number = slab.heap();
        slab.end();
        if let Some(heap) = self.heap(number) {
            let left = heap.gone.load(Relaxed) - 1;
            heap.gone.store(left, Relaxed);
            if left == 0 {
                self.bury(&mut places, number);
            }
        }
        Some(at)
    }

    /// Puts the heap of a group that ends, and what other groups have left to that group, into the
    /// group above. O(heaps).
    pub(crate) fn leave_group(&self, groups: &Groups, group: GroupId) {
        for (id, _) in self.each().filter(|(_, heap)| heap.group() == group) {
            if let Some(held) = self.lock(id) {
                held.leave_group(groups);
            }
        }
    }

    /// The charge of all heaps in a group. O(heaps).
    pub(crate) fn charged_in(&self, group: GroupId) -> u64 {
        let heaps = self.each().filter(|(_, heap)| heap.group() == group);
        heaps.map(|(_, heap)| u64::from(heap.charged())).sum()
    }

    /// Visits the locks, if there ever was a heap.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        if self.made.load(Relaxed) > 0 {
            visit("own_heaps->places", &self.places);
        }
        for (number, heap) in self.all() {
            visit("own_heap", &LockOf { heaps: self, heap, number });
        }
    }

    /// Checks the equations of all heaps, of which the frame table has so many frames.
    pub(crate) fn validate(&self, frames: u64) -> Result<(), Broken> {
        let mut charged = 0;
        for (id, heap) in self.each() {
            charged += heap.lock(id.number, &self.slabs).validate()?;
        }
        let places = self.places.lock();
        let (mut gone, mut at) = (0, places.gone.0);
        while let Some(slab) = self.slab(at).filter(|_| at != 0) {
            gone += slab.frames();
            at = if at == places.gone.1 { 0 } else { slab.next_of_heap.load(Relaxed) };
        }
        let check = Check::of("own heaps");
        check.equal(self.gone_frames(), gone, "gone_frames = frames of gone descriptors")?;
        check.equal(frames, charged + u64::from(gone), "frames of the kind OWN = charged + gone")
    }

    /// Reports the use of a heap that does not live, and aborts.
    #[cold]
    #[inline(never)]
    pub fn no_heap(&self, entry: &str, id: OwnHeapId) -> ! {
        match self.heap(id.number) {
            Some(heap) if heap.generation() == id.generation.wrapping_add(1) => {
                let name = heap.name();
                fatal(format_args!("{entry}: heap {} was destroyed before", name.as_str()))
            }
            Some(heap) if heap.generation() > id.generation && id.generation & 1 == 1 => {
                fatal(format_args!("{entry}: the heap was destroyed long ago"))
            }
            _ => fatal(format_args!("{entry}: there is no such heap")),
        }
    }
}
