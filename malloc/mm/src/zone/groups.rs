//! Groups: file mappings with limits of their own in the budget (the kernel's memory control
//! groups).
//!
//! A group is charged for the cached pages of its file mappings. Group 0, the root, has everything
//! that belongs to no other group. It counts nothing; its only limit is the budget's.
//!
//! Invariants, for each group but the root: `used <= max` whenever a charge succeeds; a group that
//! is gone has no members, and nothing charged.

use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Maximum number of groups, the root included: as many as a descriptor of a page can name.
const MOST_GROUPS: usize = 256;
/// A bit of `members`: the group exists.
const EXISTS: u32 = 1 << 31;
/// A bit of `members`: the group is gone, but its place is not free yet.
const GOING: u32 = 1 << 30;

/// The number of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u8);

impl GroupId {
    /// The group of everything that belongs to no other group.
    pub const ROOT: Self = Self(0);
}

/// The limits of a group, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Up to this number, the group's frames are not reclaimed for others (`memory.min`).
    pub min: u32,
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
        Self { min: 0, high: u32::MAX, max: u32::MAX, pinned_max: u32::MAX }
    }
}

/// A group.
#[repr(align(64))]
pub struct Group {
    used: AtomicU32,
    pinned: AtomicU32,
    /// Number of file mappings in the group, and [`EXISTS`] or [`GOING`].
    members: AtomicU32,
    min: AtomicU32,
    /// The complements of three limits, so that a group of zero bytes has no limits.
    not_high: AtomicU32,
    not_max: AtomicU32,
    not_pinned_max: AtomicU32,
    refusals: AtomicU64,
    reclaims: AtomicU64,
    /// The place where the group's last scan ended: the numbers of a file mapping and a page in it.
    hand_mapping: AtomicU32,
    hand_index: AtomicU64,
}

impl Group {
    const fn new() -> Self {
        Self {
            used: AtomicU32::new(0),
            pinned: AtomicU32::new(0),
            members: AtomicU32::new(0),
            min: AtomicU32::new(0),
            not_high: AtomicU32::new(0),
            not_max: AtomicU32::new(0),
            not_pinned_max: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
            reclaims: AtomicU64::new(0),
            hand_mapping: AtomicU32::new(0),
            hand_index: AtomicU64::new(0),
        }
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> GroupLimits {
        GroupLimits {
            min: self.min.load(Relaxed),
            high: !self.not_high.load(Relaxed),
            max: !self.not_max.load(Relaxed),
            pinned_max: !self.not_pinned_max.load(Relaxed),
        }
    }

    /// Changes the limits. Frames in use beyond them stay in use.
    pub fn set_limits(&self, limits: GroupLimits) {
        self.min.store(limits.min, Relaxed);
        self.not_high.store(!limits.high, Relaxed);
        self.not_max.store(!limits.max, Relaxed);
        self.not_pinned_max.store(!limits.pinned_max, Relaxed);
    }

    /// Frames charged.
    #[inline]
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Frames of pinned pages, if the group limits them.
    #[must_use]
    pub fn pinned(&self) -> u32 {
        self.pinned.load(Relaxed)
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

    /// Returns whether the group's frames must not be reclaimed for others.
    #[inline]
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let min = self.min.load(Relaxed);
        min != 0 && self.used() <= min
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
}

/// Adds to a count unless the sum exceeds `most`; returns whether it has added.
fn add_below(count: &AtomicU32, frames: u32, most: u32) -> bool {
    count
        .fetch_update(AcqRel, Relaxed, |now| now.checked_add(frames).filter(|sum| *sum <= most))
        .is_ok()
}

/// All groups. All bytes are zero as long as only the root exists.
pub struct Groups {
    /// True from a charge beyond a group's high limit until a check finds no group above its limit.
    is_above: AtomicBool,
    all: [Group; MOST_GROUPS],
}

impl Groups {
    /// Groups of which only the root exists.
    #[must_use]
    pub const fn new() -> Self {
        Self { is_above: AtomicBool::new(false), all: [const { Group::new() }; MOST_GROUPS] }
    }

    /// A group, whether it exists or not.
    #[inline]
    #[must_use]
    pub fn at(&self, id: GroupId) -> &Group {
        &self.all[usize::from(id.0)]
    }

    /// Returns whether a group exists; false for the root.
    #[must_use]
    pub fn is_there(&self, id: GroupId) -> bool {
        self.at(id).exists()
    }

    /// Makes a group; returns `None` if 255 groups beside the root exist. O(groups).
    pub fn create(&self, limits: GroupLimits) -> Option<GroupId> {
        let free =
            |group: &Group| group.members.compare_exchange(0, EXISTS, AcqRel, Relaxed).is_ok();
        let number = (1..MOST_GROUPS).find(|number| free(&self.all[*number]))?;
        let id = GroupId(number as u8);
        self.at(id).set_limits(limits);
        Some(id)
    }

    /// Removes a group that has no members and nothing charged; returns whether it was removed.
    pub fn remove(&self, id: GroupId) -> bool {
        let group = self.at(id);
        // Without members, `used` may be above 0: a page that was pinned when its file mapping was
        // removed stays charged until it is unpinned. After the exchange no member can join.
        let is_gone = group.used() == 0
            && group.members.compare_exchange(EXISTS, GOING, AcqRel, Relaxed).is_ok();
        if is_gone {
            group.set_limits(GroupLimits::default());
            group.refusals.store(0, Relaxed);
            group.reclaims.store(0, Relaxed);
            // This store is last, because a new group may get the place from then on.
            group.members.store(0, Release);
        }
        is_gone
    }

    /// Adds a member; returns `false` if the group does not exist.
    #[must_use]
    pub fn join(&self, id: GroupId) -> bool {
        id == GroupId::ROOT
            || self
                .at(id)
                .members
                .fetch_update(AcqRel, Relaxed, |now| (now & EXISTS != 0).then_some(now + 1))
                .is_ok()
    }

    /// Removes a member that has nothing charged.
    pub fn leave(&self, id: GroupId) {
        if id != GroupId::ROOT {
            self.at(id).members.fetch_sub(1, AcqRel);
        }
    }

    /// Charges frames; returns `false` and charges nothing if they do not fit. O(1).
    #[inline]
    #[must_use]
    pub fn charge(&self, id: GroupId, frames: u32) -> bool {
        id == GroupId::ROOT || {
            let group = self.at(id);
            let fits = add_below(&group.used, frames, !group.not_max.load(Relaxed));
            if fits && group.above_high() > 0 && !self.is_above.load(Relaxed) {
                self.is_above.store(true, Relaxed);
            }
            fits
        }
    }

    /// Uncharges frames of a group. O(1).
    #[inline]
    pub fn uncharge(&self, id: GroupId, frames: u32) {
        if id != GroupId::ROOT {
            let before = self.at(id).used.fetch_sub(frames, Relaxed);
            debug_assert!(before >= frames, "more frames uncharged than were charged");
        }
    }

    /// Returns whether a group is above its high limit. O(groups) if `is_above` is set, else O(1).
    #[inline]
    #[must_use]
    pub fn is_any_above_high(&self) -> bool {
        self.is_above.load(Relaxed) && self.look_above()
    }

    #[cold]
    fn look_above(&self) -> bool {
        let is_above = self.iter().any(|(_, group)| group.above_high() > 0);
        if !is_above {
            self.is_above.store(false, Relaxed);
        }
        is_above
    }

    /// The groups that exist, without the root. O(groups).
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        let numbered = self.all.iter().enumerate().skip(1);
        let existing = numbered.filter(|(_, group)| group.exists());
        existing.map(|(number, group)| (GroupId(number as u8), group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_no_more_than_its_max() {
        let groups = Groups::new();
        let limits = GroupLimits { max: 100, high: 80, min: 30, pinned_max: 10 };
        let id = groups.create(limits).expect("there is none yet");
        let group = groups.at(id);
        assert_eq!(group.limits(), limits);
        assert!(groups.charge(id, 30) && group.is_protected());
        assert!(groups.charge(id, 70) && !group.is_protected());
        assert!(!groups.charge(id, 1));
        assert_eq!((group.used(), group.above_high()), (100, 20));
        assert!(group.counts_pins() && group.may_pin(10));
        group.pin(10);
        assert!(!group.may_pin(1));
        group.unpin(10);
        assert!(group.may_pin(1));
        groups.uncharge(id, 100);
        assert!(groups.charge(GroupId::ROOT, u32::MAX), "the root has no limit of its own");
        assert!(!groups.at(GroupId::ROOT).is_protected());
    }

    #[test]
    fn a_group_with_members_stays() {
        let groups = Groups::new();
        let id = groups.create(GroupLimits::default()).expect("there is none yet");
        assert!(groups.join(id));
        assert!(!groups.remove(id));
        groups.leave(id);
        assert!(groups.remove(id));
        assert!(!groups.remove(id) && !groups.join(id), "it is gone");
        assert_eq!(groups.iter().count(), 0);
        assert!(groups.join(GroupId::ROOT));
    }

    #[test]
    fn there_are_as_many_groups_as_a_page_can_name() {
        let groups = Groups::new();
        let created = std::iter::from_fn(|| groups.create(GroupLimits::default()));
        assert_eq!(created.count(), MOST_GROUPS - 1);
        assert_eq!(groups.iter().count(), MOST_GROUPS - 1);
        assert!(groups.remove(GroupId(77)));
        assert_eq!(groups.create(GroupLimits::default()), Some(GroupId(77)));
    }
}
