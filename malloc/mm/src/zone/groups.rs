//! Groups: parts of a program with an account and limits of their own (the kernel's memory control
//! groups).
//!
//! A group is charged for the cached pages of its file mappings, for the own heaps in it, and for
//! what the groups below it are charged for. Group 0, the root, has everything that belongs to no
//! other group. It counts nothing; its only limit is the budget's.
//!
//! Equations, for each group but the root, while no task is at work:
//! * `used = cached + charges of its own heaps + used of the groups below it`
//! * `members` = its file mappings, its heaps that the program has made, and the groups below it
//! * `inside` = threads that have entered it
//!
//! `used <= max` whenever a charge succeeds. A group that is gone has nothing charged, no members,
//! and no thread inside.

use super::name::{Name, NameCell};
use super::telling::Telling;
use crate::frame::{Chunks, Metadata, fresh_zero};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};

/// Maximum number of groups, the root included: as many as a descriptor of a page can name.
const MOST_GROUPS: u32 = 1 << 16;
/// A bit of `members`: the group exists.
const EXISTS: u32 = 1 << 31;
/// A bit of `members`: the group is gone, but its place is not free yet.
const GOING: u32 = 1 << 30;

/// The number of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u16);

impl GroupId {
    /// The group of everything that belongs to no other group.
    pub const ROOT: Self = Self(0);
}

/// The limits of a group, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Up to this number, the group's frames are not reclaimed for others (`memory.min`).
    pub min: u32,
    /// Up to this number, they are reclaimed only if other groups have too little (`memory.low`).
    pub low: u32,
    /// Above this number, the reclaim thread reclaims from the group (`memory.high`).
    pub high: u32,
    /// Above this number, requests fail (`memory.max`).
    pub max: u32,
    /// Maximum number of frames of pinned pages; a page that is pinned twice counts twice. Pins are
    /// counted only for file mappings that were made while the group had such a limit.
    pub pinned_max: u32,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { min: 0, low: 0, high: u32::MAX, max: u32::MAX, pinned_max: u32::MAX }
    }
}

fresh_zero! {
    /// A group.
    #[repr(align(64))]
    pub struct Group {
        used: AtomicU32,
        cached: AtomicU32,
        parent: AtomicU32,
        pinned: AtomicU32,
        /// Number of members, and [`EXISTS`] or [`GOING`].
        members: AtomicU32,
        inside: AtomicU32,
        min: AtomicU32,
        low: AtomicU32,
        /// The complements of three limits, so that a group of zero bytes has no limits.
        not_high: AtomicU32,
        not_max: AtomicU32,
        not_pinned_max: AtomicU32,
        /// The place where the group's last scan ended: the numbers of a mapping and a page in it.
        hand_mapping: AtomicU32,
        hand_index: AtomicU64,
        refusals: AtomicU64,
        reclaims: AtomicU64,
        /// The own heap that serves `malloc` in the group, in the form that its owner chooses; 0:
        /// none yet.
        heap: AtomicU64,
        /// The function that is told when a request has reached the group's max limit.
        pub telling: Telling,
        name: NameCell,
        next_free: AtomicU32,
    }
}

impl Group {
    /// The limits.
    #[must_use]
    pub fn limits(&self) -> GroupLimits {
        GroupLimits {
            min: self.min.load(Relaxed),
            low: self.low.load(Relaxed),
            high: !self.not_high.load(Relaxed),
            max: !self.not_max.load(Relaxed),
            pinned_max: !self.not_pinned_max.load(Relaxed),
        }
    }

    /// Changes the limits. Frames in use beyond them stay in use.
    pub fn set_limits(&self, limits: GroupLimits) {
        self.min.store(limits.min, Relaxed);
        self.low.store(limits.low, Relaxed);
        self.not_high.store(!limits.high, Relaxed);
        self.not_max.store(!limits.max, Relaxed);
        self.not_pinned_max.store(!limits.pinned_max, Relaxed);
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::load(&self.name)
    }

    /// The group that this one is a part of.
    #[must_use]
    pub fn parent(&self) -> GroupId {
        GroupId(self.parent.load(Relaxed) as u16)
    }

    /// Frames charged, those of the groups below included.
    #[inline]
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Frames of the group's own cached pages.
    #[must_use]
    pub fn cached(&self) -> u32 {
        self.cached.load(Relaxed)
    }

    /// Frames of pinned pages, if the group limits them.
    #[must_use]
    pub fn pinned(&self) -> u32 {
        self.pinned.load(Relaxed)
    }

    /// The own heap that serves `malloc` in the group; 0: none yet.
    #[inline]
    #[must_use]
    pub fn heap(&self) -> u64 {
        self.heap.load(Acquire)
    }

    /// Sets the own heap that serves `malloc`, if the group has none; returns the one that it has.
    pub fn set_heap(&self, heap: u64) -> u64 {
        self.heap.compare_exchange(0, heap, AcqRel, Acquire).map_or_else(|has| has, |_| heap)
    }

    /// Returns whether pins have to be counted.
    #[inline]
    #[must_use]
    pub fn counts_pins(&self) -> bool {
        self.not_pinned_max.load(Relaxed) != 0
    }

    /// Frames beyond the high limit.
    #[inline]
    #[must_use]
    pub fn above_high(&self) -> u32 {
        self.used().saturating_sub(!self.not_high.load(Relaxed))
    }

    fn is_within(&self, limit: &AtomicU32) -> bool {
        let limit = limit.load(Relaxed);
        limit != 0 && self.used() <= limit
    }

    /// Number of requests that failed at the max limit, and number of reclaims of the group alone.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.refusals.load(Relaxed), self.reclaims.load(Relaxed))
    }

    /// Notes a request that failed at the limit after a reclaim of the group.
    pub fn note_refusal(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }

    /// Notes a reclaim of the group.
    pub fn note_reclaim(&self) {
        self.reclaims.fetch_add(1, Relaxed);
    }

    /// Returns whether a page may be pinned. Concurrent tasks may each exceed the limit by a page.
    #[must_use]
    pub fn may_pin(&self, frames: u32) -> bool {
        self.pinned().saturating_add(frames) <= !self.not_pinned_max.load(Relaxed)
    }

    /// Counts a pin of a page.
    pub fn pin(&self, frames: u32) {
        self.pinned.fetch_add(frames, Relaxed);
    }

    /// Counts the end of a pin.
    pub fn unpin(&self, frames: u32) {
        let before = self.pinned.fetch_sub(frames, Relaxed);
        debug_assert!(before >= frames, "more frames unpinned than were pinned");
    }

    /// A hint where the last scan of the group ended: a file mapping's number, and a page's in it.
    #[must_use]
    pub fn hand(&self) -> (u32, u64) {
        (self.hand_mapping.load(Relaxed).max(1), self.hand_index.load(Relaxed))
    }

    /// Notes the end of a scan.
    pub fn set_hand(&self, mapping: u32, index: u64) {
        self.hand_mapping.store(mapping, Relaxed);
        self.hand_index.store(index, Relaxed);
    }

    fn exists(&self) -> bool {
        self.members.load(Acquire) & EXISTS != 0
    }

    fn join(&self) -> bool {
        let joined = |now| (now & EXISTS != 0).then_some(now + 1);
        self.members.fetch_update(AcqRel, Relaxed, joined).is_ok()
    }
}

/// Adds to a count unless the sum exceeds `most`; returns whether it has added.
fn add_below(count: &AtomicU32, frames: u32, most: u32) -> bool {
    count
        .fetch_update(AcqRel, Relaxed, |now| now.checked_add(frames).filter(|sum| *sum <= most))
        .is_ok()
}

fn sub(count: &AtomicU32, frames: u32) {
    let before = count.fetch_sub(frames, AcqRel);
    debug_assert!(before >= frames, "more frames uncharged than were charged");
}

/// All groups. All bytes are zero as long as only the root exists.
pub struct Groups {
    all: Chunks<Group, 4>,
    /// The latest free place, or 0.
    free: CountedLock<u32>,
    /// Places `1..=made` have been given out.
    made: AtomicU32,
    /// 1 from a charge beyond a group's high limit until a check finds no group above its limit.
    is_above: AtomicU8,
}

impl Default for Groups {
    fn default() -> Self {
        Self::new()
    }
}

impl Groups {
    /// Groups of which only the root exists.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            all: Chunks::new(),
            free: CountedLock::new(0),
            made: AtomicU32::new(0),
            is_above: AtomicU8::new(0),
        }
    }

    /// A group that exists or has existed; `None` for the root and all others.
    #[inline]
    #[must_use]
    pub fn get(&self, id: GroupId) -> Option<&Group> {
        if id == GroupId::ROOT { None } else { self.all.get(id.0.into()) }
    }

    /// A group that exists.
    ///
    /// # Panics
    /// If no group ever had this number.
    #[inline]
    #[must_use]
    pub fn at(&self, id: GroupId) -> &Group {
        self.get(id).expect("the group exists")
    }

    /// Returns whether a group exists; false for the root.
    #[must_use]
    pub fn is_there(&self, id: GroupId) -> bool {
        self.get(id).is_some_and(Group::exists)
    }

    /// A group and those that it is part of, from the bottom up, without the root.
    #[inline]
    fn up(&self, id: GroupId) -> impl Iterator<Item = (GroupId, &Group)> {
        let mut at = id;
        core::iter::from_fn(move || {
            let (id, group) = (at, self.get(at)?);
            at = group.parent();
            Some((id, group))
        })
    }

    /// Returns whether a group is another one or a part of it. All are part of the root.
    #[must_use]
    pub fn is_part(&self, id: GroupId, of: GroupId) -> bool {
        id == of || of == GroupId::ROOT || self.up(id).any(|(above, _)| above == of)
    }

    /// Returns whether frames of a group must not be reclaimed for others: it or one that it is
    /// part of is within its min limit; or within its low limit, if `spares_low`.
    #[inline]
    #[must_use]
    pub fn is_protected(&self, id: GroupId, spares_low: bool) -> bool {
        self.up(id).any(|(_, group)| {
            group.is_within(&group.min) || spares_low && group.is_within(&group.low)
        })
    }

    /// Makes a group that is a part of `parent`. O(1).
    ///
    /// # Errors
    /// ENOENT if the parent does not exist, ENOSPC if 65,535 groups beside the root do, or the
    /// OS's refusal of memory.
    pub fn create(
        &self,
        parent: GroupId,
        name: Name,
        limits: GroupLimits,
        metadata: &Metadata,
    ) -> OsResult<GroupId> {
        if parent != GroupId::ROOT && !self.get(parent).is_some_and(Group::join) {
            return Err(OsError(libc::ENOENT));
        }
        let placed = self.place(metadata);
        if placed.is_err() {
            self.leave(parent);
        }
        let (id, group) = placed?;
        for word in [&group.cached, &group.pinned, &group.inside, &group.hand_mapping] {
            word.store(0, Relaxed);
        }
        for word in [&group.refusals, &group.reclaims, &group.heap, &group.hand_index] {
            word.store(0, Relaxed);
        }
        group.parent.store(parent.0.into(), Relaxed);
        group.telling.reset();
        group.set_limits(limits);
        name.store(&group.name);
        group.members.store(EXISTS, SeqCst);
        Ok(id)
    }

    fn place(&self, metadata: &Metadata) -> OsResult<(GroupId, &Group)> {
        let mut latest = self.free.lock();
        let id = GroupId(*latest as u16);
        if let Some(free) = self.get(id) {
            *latest = free.next_free.load(Relaxed);
            return Ok((id, free));
        }
        let number = self.made.load(Relaxed) + 1;
        if number >= MOST_GROUPS {
            return Err(OsError(libc::ENOSPC));
        }
        let group = self.all.make(number, metadata)?;
        self.made.store(number, Relaxed);
        Ok((GroupId(number as u16), group))
    }

    /// Begins to remove a group that has no members, and no thread inside; returns whether it has.
    /// The caller moves the charges of its heaps elsewhere, and then calls [`end`](Self::end).
    pub fn begin_end(&self, id: GroupId) -> bool {
        let Some(group) = self.get(id) else { return false };
        // Without members, `cached` may be above 0: a page that was pinned when its file mapping
        // was removed stays charged until it is unpinned. After the exchange no member can join.
        if group.cached() > 0
            || group.members.compare_exchange(EXISTS, GOING, SeqCst, Relaxed).is_err()
        {
            return false;
        }
        // A thread enters by two steps in the other order: one of us sees the other.
        let is_left = group.inside.load(SeqCst) == 0;
        if !is_left {
            group.members.store(EXISTS, SeqCst);
        }
        is_left
    }

    /// Removes a group that nothing is charged to.
    pub fn end(&self, id: GroupId) {
        let Some(group) = self.get(id) else { return };
        debug_assert_eq!(group.used(), 0, "its charges went elsewhere");
        let parent = group.parent();
        let mut latest = self.free.lock();
        group.next_free.store(*latest, Relaxed);
        group.members.store(0, SeqCst);
        *latest = id.0.into();
        drop(latest);
        self.leave(parent);
    }

    /// Adds a member; returns `false` if the group does not exist.
    #[must_use]
    pub fn join(&self, id: GroupId) -> bool {
        id == GroupId::ROOT || self.get(id).is_some_and(Group::join)
    }

    /// Removes a member that has nothing charged.
    pub fn leave(&self, id: GroupId) {
        if let Some(group) = self.get(id) {
            group.members.fetch_sub(1, AcqRel);
        }
    }

    /// Counts a thread as inside a group; returns false if the group does not exist.
    #[inline]
    #[must_use]
    pub fn enter(&self, id: GroupId) -> bool {
        let Some(group) = self.get(id) else { return id == GroupId::ROOT };
        group.inside.fetch_add(1, SeqCst);
        let is_there = group.members.load(SeqCst) & EXISTS != 0;
        if !is_there {
            group.inside.fetch_sub(1, Relaxed);
        }
        is_there
    }

    /// Ends [`enter`](Self::enter).
    #[inline]
    pub fn exit(&self, id: GroupId) {
        if let Some(group) = self.get(id) {
            group.inside.fetch_sub(1, SeqCst);
        }
    }

    /// Charges frames to a group and to those that it is part of; O(depth).
    ///
    /// # Errors
    /// The group whose max limit they exceed; then nothing is charged.
    #[inline]
    pub fn charge(&self, id: GroupId, frames: u32) -> Result<(), GroupId> {
        for (above, group) in self.up(id) {
            if !add_below(&group.used, frames, !group.not_max.load(Relaxed)) {
                let charged = self.up(id).take_while(|(it, _)| *it != above);
                charged.for_each(|(_, group)| sub(&group.used, frames));
                return Err(above);
            }
            if group.above_high() > 0 && self.is_above.load(Relaxed) == 0 {
                self.is_above.store(1, Relaxed);
            }
        }
        Ok(())
    }

    /// Ends a charge. O(depth).
    #[inline]
    pub fn uncharge(&self, id: GroupId, frames: u32) {
        self.up(id).for_each(|(_, group)| sub(&group.used, frames));
    }

    /// [`charge`](Self::charge) for a cached page.
    ///
    /// # Errors
    /// As of `charge`.
    #[inline]
    pub fn charge_page(&self, id: GroupId, frames: u32) -> Result<(), GroupId> {
        self.charge(id, frames)?;
        if let Some(group) = self.get(id) {
            group.cached.fetch_add(frames, Relaxed);
        }
        Ok(())
    }

    /// Ends [`charge_page`](Self::charge_page).
    #[inline]
    pub fn uncharge_page(&self, id: GroupId, frames: u32) {
        if let Some(group) = self.get(id) {
            sub(&group.cached, frames);
            self.uncharge(id, frames);
        }
    }

    /// Charges frames that a group is charged for to the one above instead, which has them already.
    pub fn hand_up(&self, id: GroupId, frames: u32) {
        if let Some(group) = self.get(id) {
            sub(&group.used, frames);
        }
    }

    /// Returns whether a group is above its high limit. O(groups) if `is_above` is set, else O(1).
    #[inline]
    #[must_use]
    pub fn is_any_above_high(&self) -> bool {
        self.is_above.load(Relaxed) != 0 && self.look_above()
    }

    #[cold]
    fn look_above(&self) -> bool {
        let is_above = self.iter().any(|(_, group)| group.above_high() > 0);
        if !is_above {
            self.is_above.store(0, Relaxed);
        }
        is_above
    }

    /// The groups that exist, without the root. O(groups).
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        let all = 1..=self.made.load(Relaxed);
        let all = all.filter_map(|number| Some((GroupId(number as u16), self.all.get(number)?)));
        all.filter(|(_, group)| group.exists())
    }

    /// In the child of a fork, whose only task is `me` and is inside `current`.
    pub fn adopt_in_child(&self, me: usize, current: GroupId) {
        for (id, group) in self.iter() {
            let inside = (id == current).into();
            // Writes only if it must, because the kernel copies each page that the child writes.
            if group.inside.load(Relaxed) != inside {
                group.inside.store(inside, Relaxed);
            }
            group.telling.adopt(me);
        }
    }

    /// Visits the lock.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        if self.made.load(Relaxed) > 0 {
            visit("groups->free", &self.free);
        }
    }

    /// Checks the first equation, where the heaps in a group are charged for so many frames.
    ///
    /// # Errors
    /// The equation that is broken.
    pub fn validate(&self, of_heaps: impl Fn(GroupId) -> u64) -> Result<(), Broken> {
        for (id, group) in self.iter() {
            let below = self.iter().filter(|(_, below)| below.parent() == id);
            let below: u64 = below.map(|(_, below)| u64::from(below.used())).sum();
            let sum = u64::from(group.cached()) + of_heaps(id) + below;
            let check = Check::of("group").at(id.0);
            check.equal(group.used(), sum, "used = cached + heaps + groups below")?;
        }
        Ok(())
    }
}
