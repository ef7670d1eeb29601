//! Tests of groups.

use super::fake_os;
use crate::frame::Metadata;
use crate::zone::{GroupId, GroupLimits, Groups, Name};
use quarry_sys::os::{OsError, OsResult};

/// Most groups beside the root.
const MOST: u32 = 65_535;

struct Bed {
    groups: Box<Groups>,
    metadata: Metadata,
}

impl Bed {
    fn new() -> Self {
        Self { groups: Box::new(Groups::new()), metadata: Metadata::new(fake_os()) }
    }

    fn create(&self, parent: GroupId, limits: GroupLimits) -> OsResult<GroupId> {
        self.groups.create(parent, Name::of("part"), limits, &self.metadata)
    }

    fn make(&self, parent: GroupId, max: u32) -> GroupId {
        self.create(parent, GroupLimits { max, ..GroupLimits::default() }).expect("it exists")
    }

    fn remove(&self, id: GroupId) -> bool {
        let ends = self.groups.begin_end(id);
        if ends {
            self.groups.end(id);
        }
        ends
    }
}

#[test]
fn a_group_takes_no_more_than_its_max() {
    let bed = Bed::new();
    let limits = GroupLimits { max: 100, high: 80, min: 30, low: 60, pinned_max: 10 };
    let id = bed.create(GroupId::ROOT, limits).expect("there is none yet");
    let (groups, group) = (&bed.groups, bed.groups.at(id));
    assert_eq!((group.limits(), group.name().as_str()), (limits, "part"));
    assert!(groups.charge_page(id, 30).is_ok() && groups.is_protected(id, false));
    assert!(groups.charge_page(id, 30).is_ok() && !groups.is_protected(id, false));
    assert!(groups.is_protected(id, true) && !groups.is_any_above_high());
    assert!(groups.charge(id, 40).is_ok() && !groups.is_protected(id, true));
    assert_eq!(groups.charge_page(id, 1), Err(id));
    assert_eq!((group.used(), group.cached(), group.above_high()), (100, 60, 20));
    assert!(groups.is_any_above_high());
    assert!(group.counts_pins() && group.may_pin(10));
    group.pin(10);
    assert!(!group.may_pin(1));
    group.unpin(10);
    assert!(group.may_pin(1));
    groups.uncharge(id, 40);
    groups.uncharge_page(id, 60);
    assert!(!groups.is_any_above_high());
    assert_eq!(groups.charge(GroupId::ROOT, u32::MAX), Ok(()), "the budget is its limit");
    assert!(!groups.is_protected(GroupId::ROOT, true));
}

#[test]
fn a_charge_counts_in_all_groups_above_or_in_none() {
    let bed = Bed::new();
    let top = bed.make(GroupId::ROOT, 100);
    let (left, right) = (bed.make(top, 80), bed.make(top, u32::MAX));
    let leaf = bed.make(left, 70);
    let used = || [top, left, right, leaf].map(|id| bed.groups.at(id).used());
    assert_eq!(bed.groups.charge(leaf, 60), Ok(()));
    assert_eq!(bed.groups.charge(right, 30), Ok(()));
    assert_eq!(used(), [90, 60, 30, 60]);
    assert_eq!(bed.groups.charge(leaf, 11), Err(leaf));
    assert_eq!(bed.groups.charge(left, 21), Err(left));
    assert_eq!(bed.groups.charge(leaf, 10 + 1), Err(leaf), "the lowest is named");
    bed.groups.at(leaf).set_limits(GroupLimits::default());
    assert_eq!(bed.groups.charge(leaf, 20), Err(top));
    assert_eq!(used(), [90, 60, 30, 60], "nothing was charged");
    assert!(bed.groups.is_part(leaf, top) && bed.groups.is_part(leaf, GroupId::ROOT));
    assert!(!bed.groups.is_part(leaf, right) && bed.groups.is_part(leaf, leaf));
    let of_heaps = |id| {
        if id == leaf {
            60
        } else if id == right {
            30
        } else {
            0
        }
    };
    assert_eq!(bed.groups.validate(of_heaps), Ok(()));
    assert!(bed.groups.validate(|_| 0).is_err());
    bed.groups.hand_up(leaf, 60);
    assert_eq!(used(), [90, 60, 30, 0]);
    assert!(bed.remove(leaf) && !bed.remove(top), "others are part of it");
}

#[test]
fn a_group_with_members_or_threads_inside_stays() {
    let bed = Bed::new();
    let id = bed.make(GroupId::ROOT, 100);
    assert!(bed.groups.join(id) && !bed.remove(id));
    bed.groups.leave(id);
    assert!(bed.groups.enter(id) && !bed.remove(id));
    bed.groups.exit(id);
    let part = bed.make(id, 10);
    assert!(!bed.remove(id) && bed.remove(part) && bed.remove(id));
    assert!(!bed.remove(id) && !bed.groups.join(id) && !bed.groups.enter(id), "it is gone");
    assert_eq!(bed.create(id, GroupLimits::default()), Err(OsError(libc::ENOENT)));
    assert_eq!(bed.groups.iter().count(), 0);
    assert!(bed.groups.join(GroupId::ROOT) && bed.groups.enter(GroupId::ROOT));
    assert!(!bed.groups.enter(GroupId(700)) && !bed.groups.join(GroupId(700)));
}

#[test]
fn there_are_as_many_groups_as_a_page_can_name() {
    let bed = Bed::new();
    let most = if cfg!(miri) { 100 } else { MOST };
    for number in 1..=most {
        assert_eq!(bed.make(GroupId::ROOT, 1), GroupId(number as u16));
    }
    assert_eq!(bed.groups.iter().count() as u32, most);
    if most == MOST {
        let refused = bed.create(GroupId::ROOT, GroupLimits::default());
        assert_eq!(refused, Err(OsError(libc::ENOSPC)));
    }
    assert!(bed.remove(GroupId(77)));
    assert_eq!(bed.make(GroupId::ROOT, 1), GroupId(77));
}

#[test]
fn a_fork_leaves_only_the_thread_that_forks_inside() {
    let bed = Bed::new();
    let (mine, other) = (bed.make(GroupId::ROOT, 1), bed.make(GroupId::ROOT, 1));
    assert!(bed.groups.enter(mine) && bed.groups.enter(other) && bed.groups.enter(other));
    bed.groups.at(other).telling.set(1, 2);
    assert_eq!(bed.groups.at(other).telling.begin(77), Some((1, 2)));
    bed.groups.adopt_in_child(5, mine);
    assert!(bed.remove(other) && !bed.remove(mine));
    assert_eq!(bed.groups.at(other).telling.teller(), 0, "the thread that called is lost");
}
