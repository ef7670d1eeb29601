//! The record of an own heap: its account, its slabs by class, and the chain of all its
//! descriptors.
//!
//! Equations, while no thread holds the lock, with sums over the heap's descriptors:
//! * `charged` = sum of frames, and of those on their way into the heap
//! * `empty` = frames of slabs without an object in use
//! * `held` = sum of objects in use times their bytes
//! * `taken - frees` = sum of objects in use
//! * objects in use include those that the *cursors* are about to hand out: the rest of a run of
//!   objects of each class, which the heap has taken from a slab
//! * a slab with a free object is on the list of its class
//!
//! Only the bits of the slabs, the chain of descriptors and the cursors say what is true; all other
//! words follow from them. So the child of a fork can finish what a lost thread had begun.

use super::lock::{HeapLock, Held};
use super::slab::{CLASSES, Contents, MOST_ORDER, OwnSlab, stride};
use crate::frame::{Chunks, FRAME_BYTES, fresh_zero};
use crate::heap::classes;
use crate::slab::CacheId;
use crate::zone::{Group, GroupId, Groups, Name, NameCell, Telling};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::primitive::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A heap's number and generation. No other heap of the stack ever has the same pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnHeapId {
    /// The place of its record, from 1 on.
    pub number: u32,
    /// How often the record's heaps were born or have died: odd.
    pub generation: u32,
}

impl OwnHeapId {
    /// Both in one word, never 0.
    #[must_use]
    pub fn word(self) -> u64 {
        u64::from(self.generation) << u32::BITS | u64::from(self.number)
    }

    /// The heap with this word; `None` for 0.
    #[must_use]
    pub fn of_word(word: u64) -> Option<Self> {
        let id = Self { number: word as u32, generation: (word >> u32::BITS) as u32 };
        (word != 0).then_some(id)
    }
}

/// The reason why a heap gives no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Its slabs have no free object of the class.
    Empty,
    /// The heap was destroyed, or never existed.
    Dead,
    /// The limit of the heap is reached.
    Limit,
    /// The max limit of this group is reached.
    GroupLimit(GroupId),
    /// There is no memory.
    NoMemory,
}

/// The user of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Use {
    /// The program, by its functions.
    #[default]
    Program,
    /// `malloc` of threads inside its group.
    Group,
    /// None: it has the objects that a group has left, and ends with the last one.
    Rest,
}

/// The counts of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnHeapStats {
    /// Its name.
    pub name: Name,
    /// Bytes of objects in use.
    pub used: u64,
    /// Its user.
    pub serves: Use,
    /// Frames of its slabs, blocks and mappings.
    pub charged: u32,
    /// Of these, frames of slabs without an object in use.
    pub empty: u32,
    /// The bound of `charged`; `u32::MAX`: none.
    pub limit: u32,
    /// Objects that were handed out.
    pub allocs: u64,
    /// Objects that were given back, or went with a reset.
    pub frees: u64,
    /// Requests that the limit refused.
    pub refused: u32,
    /// Times that a thread has waited for the lock.
    pub contentions: u32,
}

fresh_zero! {
    /// The record. All but `generation` and the settings change only under the lock.
    #[repr(C, align(64))]
    pub struct OwnHeap {
        lock: HeapLock,
        generation: AtomicU32,
        /// The first descriptor of the chain.
        pub(super) descriptors: AtomicU32,
        held: AtomicU64,
        taken: AtomicU64,
        frees: AtomicU64,
        charged: AtomicU32,
        empty: AtomicU32,
        limit: AtomicU32,
        refused: AtomicU32,
        /// Gone descriptors that name this heap, and the next free record.
        pub(super) gone: AtomicU32,
        pub(super) next_free: AtomicU32,
        /// The group that is charged for the frames as well.
        group: AtomicU32,
        /// See [`Use`].
        serves: AtomicU32,
        /// The function that is told of requests at the limit.
        pub telling: Telling,
        name: NameCell,
        /// For each class, what is next: see [`Cursor`].
        cursors: [AtomicU64; CLASSES + 1],
        /// For each class, the first slab that may have a free object.
        listed: [AtomicU32; CLASSES + 1],
        /// For each class, up to [`COLD`] misses that a coarser class has served, and then how many
        /// slabs it has got.
        growth: [AtomicU8; CLASSES + 1],
    }
}

/// Number of a class's first misses that a coarser class serves: a small heap has few slabs.
const COLD: u8 = 4;

/// Objects that are next, one after the other: `{address / 16 : 44 | how many : 20}`.
#[derive(Clone, Copy)]
struct Cursor(u64);

impl Cursor {
    const COUNT: u64 = (1 << 20) - 1;

    fn new(address: usize, count: u32) -> Self {
        Self((address as u64 >> 4) << 20 | u64::from(count))
    }

    #[inline(always)]
    fn address(self) -> usize {
        ((self.0 >> 20) << 4) as usize
    }

    #[inline(always)]
    fn count(self) -> u64 {
        self.0 & Self::COUNT
    }

    /// Without the first of its objects, of which it has one.
    #[inline(always)]
    fn next(self, stride: usize) -> Self {
        Self((self.0 + ((stride as u64) << 16)) - 1)
    }

    /// Returns whether it is about to hand out the object at an address.
    #[inline(always)]
    fn has(self, address: usize, stride: usize) -> bool {
        (address.wrapping_sub(self.address()) as u64) < self.count() * stride as u64
    }
}

/// All descriptors, by number; 0 stands for none.
pub(super) type Slabs = Chunks<OwnSlab, 10>;

/// A heap whose lock the caller holds, and all descriptors.
pub(super) struct Locked<'a> {
    pub(super) heap: &'a OwnHeap,
    number: u32,
    slabs: &'a Slabs,
    _held: Option<Held<'a>>,
}

impl OwnHeap {
    /// Takes the lock. `number` is that of this record.
    #[inline]
    pub(super) fn lock<'a>(&'a self, number: u32, slabs: &'a Slabs) -> Locked<'a> {
        Locked { heap: self, number, slabs, _held: Some(self.lock.lock()) }
    }

    /// The generation; odd while the heap lives.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Returns whether the heap lives.
    #[inline]
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.generation() & 1 == 1
    }

    /// The name of the heap; of a destroyed one too, until a new heap gets its record.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::load(&self.name)
    }

    /// The group that the heap is in.
    #[inline]
    #[must_use]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(Relaxed) as u16)
    }

    /// The user of the heap.
    #[must_use]
    pub fn serves(&self) -> Use {
        match self.serves.load(Relaxed) {
            0 => Use::Program,
            1 => Use::Group,
            _ => Use::Rest,
        }
    }

    /// Frames of its slabs, blocks and mappings.
    #[must_use]
    pub fn charged(&self) -> u32 {
        self.charged.load(Relaxed)
    }

    /// Begins the life of a heap in an unused record.
    pub(super) fn begin(&self, name: Name, (group, serves): (GroupId, Use), limit: u32) -> u32 {
        let words = [&self.held, &self.taken, &self.frees].into_iter();
        words.chain(&self.cursors).for_each(|word| word.store(0, Relaxed));
        self.growth.iter().for_each(|growth| growth.store(0, Relaxed));
        for word in [&self.descriptors, &self.charged, &self.empty, &self.refused]
            .into_iter()
            .chain(&self.listed)
        {
            word.store(0, Relaxed);
        }
        name.store(&self.name);
        self.telling.reset();
        self.group.store(group.0.into(), Relaxed);
        self.serves.store(serves as u32, Relaxed);
        self.limit.store(limit, Relaxed);
        let generation = self.generation() + 1;
        self.generation.store(generation, Relaxed);
        generation
    }

    /// Hands out the next object of a class. The heap lives. Does not wait for the lock. 0: it has
    /// no object at hand.
    #[inline(always)]
    pub fn take_at_hand(&self, class: u8) -> usize {
        self.lock.try_lock().map_or(0, |_held| self.take_next(class))
    }

    /// [`take_at_hand`](Self::take_at_hand), if the heap is of this generation.
    #[inline(always)]
    pub(super) fn take(&self, generation: u32, class: u8) -> usize {
        let Some(_held) = self.lock.try_lock() else { return 0 };
        if self.generation() != generation {
            return 0;
        }
        self.take_next(class)
    }

    #[inline(always)]
    fn take_next(&self, class: u8) -> usize {
        let Some(place) = self.cursors.get(usize::from(class)) else { return 0 };
        let cursor = Cursor(place.load(Relaxed));
        if cursor.count() == 0 {
            return 0;
        }
        place.store(cursor.next(stride(class)).0, Relaxed);
        cursor.address()
    }

    /// Gives an object of a slab back: `object` finds its class, its number and its address under
    /// the lock, for which the caller waits or not. `None` if it finds none, the slab is no longer
    /// the heap's, or the object is not in use; else, whether the heap has more empty slabs than it
    /// keeps.
    #[inline(always)]
    pub(super) fn give(
        &self,
        (number, waits): (u32, bool),
        slabs: &Slabs,
        (at, slab): (u32, &OwnSlab),
        object: impl FnOnce() -> Option<(u8, u32, usize)>,
    ) -> Option<bool> {
        let _held = if waits { self.lock.lock() } else { self.lock.try_lock()? };
        if slab.heap() != number || !self.is_live() {
            return None;
        }
        let (class, object, address) = object()?;
        if self.cursor(class).has(address, stride(class)) {
            return None;
        }
        let in_use = slab.give(object)?;
        add_wide(&self.frees, 1);
        add_wide(&self.held, (stride(class) as u64).wrapping_neg());
        if slab.is_listed.load(Relaxed) == 0 {
            Locked { heap: self, number, slabs, _held: None }.list(at, slab);
        }
        if in_use > 0 {
            return Some(false);
        }
        add(&self.empty, slab.frames());
        Some(self.has_many_empty())
    }

    #[inline(always)]
    fn cursor(&self, class: u8) -> Cursor {
        Cursor(self.cursors.get(usize::from(class)).map_or(0, |place| place.load(Relaxed)))
    }

    /// Returns whether a cursor is about to hand out the object at an address.
    pub(super) fn is_next(&self, class: u8, address: usize) -> bool {
        self.cursor(class).has(address, stride(class))
    }

    /// Number and bytes of the objects that the cursors are about to hand out.
    fn unissued(&self) -> (u64, u64) {
        let counts = (0..=CLASSES as u8).map(|class| (self.cursor(class).count(), stride(class)));
        counts.fold((0, 0), |(objects, bytes), (count, stride)| {
            (objects + count, bytes + count * stride as u64)
        })
    }

    fn has_many_empty(&self) -> bool {
        const FEW: u32 = 16;
        let most = (self.charged.load(Relaxed) / 8).max(FEW);
        let keeps_none = self.serves.load(Relaxed) == Use::Rest as u32;
        self.empty.load(Relaxed) > if keeps_none { 0 } else { most }
    }

    /// The counts.
    #[must_use]
    pub fn stats(&self) -> OwnHeapStats {
        let (objects, bytes) = self.unissued();
        OwnHeapStats {
            name: self.name(),
            used: self.held.load(Relaxed).wrapping_sub(bytes),
            serves: self.serves(),
            charged: self.charged(),
            empty: self.empty.load(Relaxed),
            limit: self.limit.load(Relaxed),
            allocs: self.taken.load(Relaxed).wrapping_sub(objects),
            frees: self.frees.load(Relaxed),
            refused: self.refused.load(Relaxed),
            contentions: self.lock.contentions(),
        }
    }

    /// Sets the bound of the charge.
    pub fn set_limit(&self, frames: u32) {
        self.limit.store(frames, Relaxed);
    }

    /// Counts a request that the limit refused.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn is_free(&self) -> bool {
        !self.lock.is_held()
    }

    /// In the child of a fork: frees a lock that a lost thread holds; returns whether there was
    /// one.
    pub(super) fn adopt(&self) -> bool {
        self.lock.adopt()
    }
}

fn add(word: &AtomicU32, by: u32) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

fn sub(word: &AtomicU32, by: u32) {
    word.store(word.load(Relaxed).wrapping_sub(by), Relaxed);
}

fn add_wide(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

impl<'a> Locked<'a> {
    /// The heap in the child of a fork, whose only task no one disturbs.
    pub(super) fn alone(heap: &'a OwnHeap, number: u32, slabs: &'a Slabs) -> Self {
        Self { heap, number, slabs, _held: None }
    }

    #[inline]
    fn slab(&self, number: u32) -> Option<&'a OwnSlab> {
        if number == 0 { None } else { self.slabs.get(number) }
    }

    /// All descriptors of the heap, with their numbers.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &'a OwnSlab)> {
        let mut next = self.heap.descriptors.load(Relaxed);
        core::iter::from_fn(move || {
            let (number, slab) = (next, self.slab(next)?);
            next = slab.next_of_heap.load(Relaxed);
            Some((number, slab))
        })
    }

    fn note_taken(&self, slab: &OwnSlab, objects: u32) {
        add_wide(&self.heap.taken, objects.into());
        add_wide(&self.heap.held, slab.object_bytes() as u64 * u64::from(objects));
    }

    /// Takes an object of a class. If its cursor has none, points it to the next run of free
    /// objects of the slabs, where frame 0 is at `base`. 0: the slabs have no free object.
    pub(super) fn take(&self, class: u8, base: usize) -> usize {
        let heap = self.heap;
        let next = heap.take_next(class);
        let Some(list) = heap.listed.get(usize::from(class)).filter(|_| next == 0) else {
            return next;
        };
        while let Some(slab) = self.slab(list.load(Relaxed)) {
            let was_empty = slab.in_use() == 0;
            if let Some((first, count)) = slab.take_run() {
                if was_empty {
                    sub(&heap.empty, slab.frames());
                }
                self.note_taken(slab, count);
                let start = base + slab.first().index() * FRAME_BYTES;
                let cursor = Cursor::new(start + first as usize * stride(class), count);
                heap.cursors[usize::from(class)].store(cursor.0, Relaxed);
                return heap.take_next(class);
            }
            self.unlist(slab);
        }
        0
    }

    /// Gives the objects that the cursors are about to hand out back to their slabs; `slab_of`
    /// finds the descriptor of an address, and the object's number.
    pub(super) fn rewind(&self, slab_of: impl Fn(usize) -> Option<(u32, u32)>) {
        let heap = self.heap;
        for class in 1..=CLASSES as u8 {
            let cursor = heap.cursor(class);
            heap.cursors[usize::from(class)].store(0, Relaxed);
            for object in 0..cursor.count() as usize {
                let place = slab_of(cursor.address() + object * stride(class));
                let Some((at, number)) = place else { continue };
                let Some(slab) = self.slab(at) else { continue };
                let in_use = slab.give(number);
                add_wide(&heap.taken, 1u64.wrapping_neg());
                add_wide(&heap.held, (stride(class) as u64).wrapping_neg());
                if slab.is_listed.load(Relaxed) == 0 {
                    self.list(at, slab);
                }
                if in_use == Some(0) {
                    add(&heap.empty, slab.frames());
                }
            }
        }
    }

    /// Returns whether more than an eighth of the heap and 64 KiB is in empty slabs.
    pub(super) fn has_many_empty(&self) -> bool {
        self.heap.has_many_empty()
    }

    #[cold]
    #[inline(never)]
    fn list(&self, at: u32, slab: &OwnSlab) {
        let Contents::Objects(class) = slab.contents() else { return };
        let Some(list) = self.heap.listed.get(usize::from(class)) else { return };
        let first = list.load(Relaxed);
        slab.previous.store(0, Relaxed);
        slab.next.store(first, Relaxed);
        if let Some(first) = self.slab(first) {
            first.previous.store(at, Relaxed);
        }
        slab.is_listed.store(1, Relaxed);
        list.store(at, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn unlist(&self, slab: &OwnSlab) {
        let Contents::Objects(class) = slab.contents() else { return };
        if slab.is_listed.load(Relaxed) == 0 {
            return;
        }
        let (previous, next) = (slab.previous.load(Relaxed), slab.next.load(Relaxed));
        match self.slab(previous) {
            Some(before) => before.next.store(next, Relaxed),
            None => self.heap.listed[usize::from(class)].store(next, Relaxed),
        }
        if let Some(after) = self.slab(next) {
            after.previous.store(previous, Relaxed);
        }
        slab.is_listed.store(0, Relaxed);
    }

    /// Charges frames to the heap and its group.
    pub(super) fn charge(&self, frames: u32, groups: &Groups) -> Result<(), Missed> {
        let charged = self.heap.charged.load(Relaxed).saturating_add(frames);
        if charged > self.heap.limit.load(Relaxed) {
            return Err(Missed::Limit);
        }
        groups.charge(self.heap.group(), frames).map_err(Missed::GroupLimit)?;
        self.heap.charged.store(charged, Relaxed);
        Ok(())
    }

    pub(super) fn uncharge(&self, frames: u32, groups: &Groups) {
        sub(&self.heap.charged, frames);
        groups.uncharge(self.heap.group(), frames);
    }

    /// Puts the heap of a group that ends into the group above, which is charged for it already.
    pub(super) fn leave_group(&self, groups: &Groups) {
        let (group, charged) = (self.heap.group(), self.heap.charged.load(Relaxed));
        groups.hand_up(group, charged);
        let above = groups.get(group).map_or(GroupId::ROOT, Group::parent);
        self.heap.group.store(above.0.into(), Relaxed);
        self.heap.serves.store(Use::Rest as u32, Relaxed);
    }

    fn growth(&self, class: u8) -> &AtomicU8 {
        &self.heap.growth[usize::from(class)]
    }

    /// The class that serves a request after a miss: a coarser one at first. Most heaps have a few
    /// objects of many sizes, and each class in use takes a page at least.
    pub(super) fn serving(&self, class: u8) -> u8 {
        let coarse = match usize::from(class) {
            fine @ ..=classes::FINE => fine.next_power_of_two(),
            other => classes::coarse(CacheId::new(other)).index(),
        };
        let misses = self.growth(class).load(Relaxed);
        if misses >= COLD || coarse > CLASSES || coarse == usize::from(class) {
            return class;
        }
        self.growth(class).store(misses + 1, Relaxed);
        coarse as u8
    }

    /// The order of the next slab of a class that has slabs of these orders: each is twice as large
    /// as the one before.
    pub(super) fn next_order(&self, class: u8, (least, most): (u8, u8)) -> u8 {
        let slabs = self.growth(class).load(Relaxed).saturating_sub(COLD);
        (least + slabs).min(most)
    }

    /// Counts a slab that a class has got, or lost.
    fn note_slab(&self, slab: &OwnSlab, is_new: bool) {
        const MOST: u8 = COLD + MOST_ORDER + 1;
        let Contents::Objects(class) = slab.contents() else { return };
        let growth = self.growth(class).load(Relaxed);
        let next = if is_new { growth.max(COLD) + 1 } else { growth.max(COLD + 1) - 1 };
        self.growth(class).store(next.min(MOST), Relaxed);
    }

    /// Puts a descriptor that was set up, and whose frames are charged, into the chain.
    pub(super) fn attach(&self, at: u32, slab: &OwnSlab) {
        let first = self.heap.descriptors.load(Relaxed);
        slab.previous_of_heap.store(0, Relaxed);
        slab.next_of_heap.store(first, Relaxed);
        if let Some(first) = self.slab(first) {
            first.previous_of_heap.store(at, Relaxed);
        }
        self.heap.descriptors.store(at, Relaxed);
        self.note_slab(slab, true);
        if slab.in_use() > 0 {
            self.note_taken(slab, 1);
        } else {
            add(&self.heap.empty, slab.frames());
            self.list(at, slab);
        }
    }

    /// Takes a descriptor out of the chain, and ends it. An allocation in a block or mapping counts
    /// as freed.
    pub(super) fn detach(&self, slab: &OwnSlab, groups: &Groups) {
        let heap = self.heap;
        self.note_slab(slab, false);
        self.unlist(slab);
        let previous = slab.previous_of_heap.load(Relaxed);
        let next = slab.next_of_heap.load(Relaxed);
        match self.slab(previous) {
            Some(before) => before.next_of_heap.store(next, Relaxed),
            None => heap.descriptors.store(next, Relaxed),
        }
        if let Some(after) = self.slab(next) {
            after.previous_of_heap.store(previous, Relaxed);
        }
        if slab.in_use() == 0 {
            sub(&heap.empty, slab.frames());
        } else {
            add_wide(&heap.frees, slab.in_use().into());
            let bytes = slab.object_bytes() as u64 * u64::from(slab.in_use());
            add_wide(&heap.held, bytes.wrapping_neg());
        }
        self.uncharge(slab.frames(), groups);
        slab.end();
    }

    /// Changes the length of a mapping, whose frames are charged.
    pub(super) fn resize(&self, slab: &OwnSlab, resized: impl FnOnce()) {
        let before = slab.object_bytes() as u64;
        resized();
        add_wide(&self.heap.held, (slab.object_bytes() as u64).wrapping_sub(before));
    }

    /// Takes all descriptors out of the chain that `is_meant` wants; returns the first of a chain
    /// of them, which `next_of_heap` links.
    pub(super) fn detach_all(&self, groups: &Groups, is_meant: impl Fn(&OwnSlab) -> bool) -> u32 {
        let mut taken = 0;
        for (at, slab) in self.each().filter(|(_, slab)| is_meant(slab)) {
            self.detach(slab, groups);
            slab.next_of_heap.store(taken, Relaxed);
            taken = at;
        }
        taken
    }

    /// Frees all objects of slabs.
    pub(super) fn clear(&self) {
        let (unissued, _) = self.heap.unissued();
        add_wide(&self.heap.taken, unissued.wrapping_neg());
        self.heap.cursors.iter().for_each(|cursor| cursor.store(0, Relaxed));
        self.each().for_each(|(_, slab)| slab.clear());
        let freed = self.remake();
        add_wide(&self.heap.frees, freed);
    }

    /// Makes anew what follows from the bits: counts and lists. The charge does not, because frames
    /// may be on their way into the heap. Returns by how much `taken - frees` exceeds the objects
    /// in use.
    pub(super) fn remake(&self) -> u64 {
        let heap = self.heap;
        let (mut held, mut empty, mut in_use) = (0, 0, 0);
        heap.listed.iter().for_each(|list| list.store(0, Relaxed));
        for (number, slab) in self.each() {
            slab.recount();
            slab.is_listed.store(0, Relaxed);
            self.list(number, slab);
            empty += if slab.in_use() == 0 { slab.frames() } else { 0 };
            in_use += u64::from(slab.in_use());
            held += slab.object_bytes() as u64 * u64::from(slab.in_use());
        }
        heap.empty.store(empty, Relaxed);
        heap.held.store(held, Relaxed);
        heap.taken.load(Relaxed).wrapping_sub(heap.frees.load(Relaxed)).wrapping_sub(in_use)
    }

    /// In the child of a fork: finishes what a lost thread had begun.
    pub(super) fn mend(&self) {
        let lost = self.remake();
        add_wide(&self.heap.frees, lost);
    }

    /// Ends the life of the heap, if it is of this generation; returns the first descriptor.
    pub(super) fn end(&self, generation: u32, groups: &Groups) -> Option<u32> {
        let heap = self.heap;
        if heap.generation() != generation {
            return None;
        }
        heap.generation.store(generation.wrapping_add(1), Relaxed);
        groups.uncharge(heap.group(), heap.charged.load(Relaxed));
        if heap.serves() == Use::Program {
            groups.leave(heap.group());
        }
        Some(heap.descriptors.load(Relaxed))
    }

    /// Checks the equations; returns the frames of all descriptors.
    pub(super) fn validate(&self) -> Result<u64, Broken> {
        let (heap, check) = (self.heap, Check::of("own heap").at(self.number));
        let (mut used, mut charged, mut empty, mut in_use) = (0, 0, 0, 0);
        for (number, slab) in self.each() {
            slab.validate()?;
            check.equal(slab.heap(), self.number, "each descriptor names its heap")?;
            let is_full = !matches!(slab.contents(), Contents::Objects(_)) || slab.is_full();
            let is_listed = slab.is_listed.load(Relaxed) == 1;
            let of_slab = Check::of("slab of an own heap").at(number);
            of_slab.that(is_full || is_listed, "a slab with a free object is listed")?;
            charged += slab.frames();
            empty += if slab.in_use() == 0 { slab.frames() } else { 0 };
            in_use += u64::from(slab.in_use());
            used += slab.object_bytes() as u64 * u64::from(slab.in_use());
        }
        let stats = heap.stats();
        check.equal(stats.charged, charged, "charged = frames of its descriptors")?;
        check.equal(heap.empty.load(Relaxed), empty, "empty = frames of its empty slabs")?;
        check.equal(heap.held.load(Relaxed), used, "held = bytes of objects in use")?;
        let counted = heap.taken.load(Relaxed).wrapping_sub(stats.frees);
        check.equal(counted, in_use, "taken - frees = objects in use")?;
        Ok(charged.into())
    }
}
