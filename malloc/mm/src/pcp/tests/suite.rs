//! A suite of properties for every policy. The default is tested here, policies of other eras in
//! their crate, which includes this file. So this file uses only items of its parent module.

use super::MigrateType::{Movable, Reclaimable, Unmovable};
use super::*;
use proptest::prelude::*;
use std::sync::Barrier;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Alloc {
        slot: u32,
        node: u8,
        order: u8,
        of: MigrateType,
    },
    Bulk {
        slot: u32,
        order: u8,
        of: MigrateType,
        count: usize,
    },
    Exact {
        slot: u32,
        count: u32,
        align: u8,
    },
    Free {
        slot: u32,
        which: usize,
    },
    FreeList {
        slot: u32,
        which: usize,
        count: usize,
    },
    DrainSlot {
        slot: u32,
    },
    Decay {
        slot: u32,
    },
    Purge {
        node: u8,
    },
    /// Marks the zone as being reclaimed, or not, during the steps up to the next `Reclaim`.
    Reclaim {
        node: u8,
        active: bool,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let order = || prop_oneof![5 => 0u8..=3, 1 => 4u8..=10, 1 => Just(9u8)];
    let of = || prop::sample::select(vec![Unmovable, Movable, Reclaimable]);
    let slot = || 0u32..4;
    prop_oneof![
        8 => (slot(), 0u8..2, order(), of())
            .prop_map(|(slot, node, order, of)| Step::Alloc { slot, node, order, of }),
        3 => (slot(), order(), of(), 0usize..80)
            .prop_map(|(slot, order, of, count)| Step::Bulk { slot, order, of, count }),
        3 => (slot(), prop_oneof![1u32..40, 1u32..=1024], 0u8..=9)
            .prop_map(|(slot, count, align)| Step::Exact { slot, count, align }),
        8 => (slot(), any::<usize>()).prop_map(|(slot, which)| Step::Free { slot, which }),
        3 => (slot(), any::<usize>(), 0usize..80)
            .prop_map(|(slot, which, count)| Step::FreeList { slot, which, count }),
        1 => slot().prop_map(|slot| Step::DrainSlot { slot }),
        1 => slot().prop_map(|slot| Step::Decay { slot }),
        1 => (0u8..2).prop_map(|node| Step::Purge { node }),
        1 => (0u8..2, any::<bool>()).prop_map(|(node, active)| Step::Reclaim { node, active }),
    ]
}

pub(super) fn run<P: PagePolicy>(owner: &mut Owner<'_, P>, pages: &PageAllocator<P>, step: &Step) {
    match *step {
        Step::Alloc { slot, node, order, of } => {
            let request = PageRequest { node: NodeId(node), ..request(order, of) };
            if let Some(page) = pages.alloc(SlotIndex(slot), request) {
                owner.receive(page, 1 << order);
            }
        }
        Step::Bulk { slot, order, of, count } => {
            let mut out = vec![Page { pfn: Pfn::NONE, zeroed: false }; count];
            let got = pages.alloc_bulk(SlotIndex(slot), request(order, of), &mut out);
            out[..got].iter().for_each(|page| owner.receive(*page, 1 << order));
        }
        Step::Exact { slot, count, align } => {
            let align = Order::new(align);
            if let Some(page) = pages.alloc_exact(SlotIndex(slot), count, Movable, align) {
                assert!(page.pfn.is_aligned(align));
                owner.receive(page, count);
            }
        }
        Step::Free { slot, which } => {
            if let Some((pfn, frames)) = owner.surrender(which) {
                pages.free_exact(SlotIndex(slot), pfn, frames);
            }
        }
        Step::FreeList { slot, which, count } => {
            let blocks: Vec<(Pfn, Order)> = (0..count)
                .filter_map(|step| owner.surrender(which.wrapping_add(step)))
                .flat_map(|(pfn, frames)| largest_blocks(pfn, frames))
                .collect();
            pages.free_list(SlotIndex(slot), &blocks);
        }
        Step::DrainSlot { slot } => {
            pages.drain_slot(SlotIndex(slot));
            let count = |node| pages.listed_frames(SlotIndex(slot), NodeId(node));
            assert_eq!((count(0), count(1)), (0, 0), "nothing is left after a drain");
        }
        Step::Decay { slot } => {
            pages.decay(SlotIndex(slot));
        }
        Step::Purge { node } => {
            pages.zones().purge(NodeId(node), Order::ZERO, usize::MAX);
        }
        Step::Reclaim { .. } => {}
    }
}

pub(super) fn random_traffic(
    policy: impl PagePolicy,
    steps: &[Step],
    short: bool,
    per_page: bool,
    grow: bool,
) {
    let config = PageConfig {
        nodes: 2,
        node_of_slot: |slot| NodeId((slot.0 % 2) as u8),
        initial_frames: if grow { 0 } else { 4000 },
        grow,
        free_list: if per_page { FreeListPolicy::PerPage } else { FreeListPolicy::OneSection },
        ..tiny(policy)
    };
    let pages = build(config, &if short { SHORT } else { RingSizes::default() });
    let mut owner = Owner::new(&pages);
    let mut active = None;
    for step in steps {
        if let Step::Reclaim { node, active: is_active } = *step {
            let concerns = |zone: &Zone| zone.node() == NodeId(node);
            active = is_active.then(|| pages.zones().reclaiming(concerns));
        }
        run(&mut owner, &pages, step);
        let listed: u32 = (0..4)
            .flat_map(|slot| (0..2).map(move |node| (SlotIndex(slot), NodeId(node))))
            .map(|(slot, node)| pages.listed_frames(slot, node))
            .sum();
        assert_eq!(pages.zones().budget().used(), owner.frames() + listed, "handed out + listed");
    }
    drop(active);
    assert_eq!(pages.validate(), Ok(()));
    while owner.len() > 0 {
        run(&mut owner, &pages, &Step::Free { slot: 0, which: 0 });
    }
    pages.drain_all();
    assert_eq!(pages.validate(), Ok(()));
    assert_eq!(pages.zones().budget().used(), 0, "all came back");
}

/// While another thread holds the lists, every request goes to the zone.
pub(super) fn busy_lists(policy: impl PagePolicy) {
    let pages = build(tiny(policy), &RingSizes::default());
    let slot = SlotIndex(2);
    let single = pages.alloc(slot, request(0, Movable)).unwrap();
    let before = pages.pcp_counters(slot);
    let busy = pages.hold_lists(slot, NodeId(0));
    let other = pages.alloc(slot, request(0, Movable)).unwrap();
    let mut bulk = [other; 10];
    assert_eq!(pages.alloc_bulk(slot, request(1, Movable), &mut bulk), 10);
    pages.free(slot, single.pfn, Order::ZERO);
    let list: Vec<(Pfn, Order)> = bulk.iter().map(|page| (page.pfn, Order::new(1))).collect();
    pages.free_list(slot, &list);
    drop(busy);
    let after = pages.pcp_counters(slot);
    assert_eq!(after.bypassed_allocs - before.bypassed_allocs, 11);
    assert_eq!(after.bypassed_frees - before.bypassed_frees, 11);
    assert_eq!((after.allocs, after.frees), (before.allocs, before.frees));
    assert_eq!(after.critical_sections - before.critical_sections, 2, "one page, one list");
    assert_eq!(pages.validate(), Ok(()));
}

/// Document 000, changes since v4: the count stays right when a page fails its check.
pub(super) fn bad_blocks(policy: impl PagePolicy) {
    let pages = build(tiny(policy), &RingSizes::default());
    let slot = SlotIndex(0);
    let mut taken: Vec<Pfn> =
        (0..6).map(|_| pages.alloc(slot, request(0, Movable)).unwrap().pfn).collect();
    taken.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
    let count = pages.pcp_tuning(slot, NodeId(0)).count;
    // The block that was freed last would be taken next; the one before it is left for the drain.
    let (next, later) = (taken[5], taken[3]);
    pages.frames().set_state(next, FrameState::USED);
    pages.frames().set_state(later, FrameState::in_pcp(Order::new(2), false));
    let page = pages.alloc(slot, request(0, Movable)).unwrap();
    assert_eq!(page.pfn, taken[4], "the bad block was passed over");
    assert_eq!(pages.pcp_tuning(slot, NodeId(0)).count, count - 2);
    assert_eq!(pages.pcp_counters(slot).bad_blocks, 1);
    pages.drain_all();
    assert_eq!(pages.pcp_counters(slot).bad_blocks, 2);
    assert_eq!(pages.pcp_tuning(slot, NodeId(0)).count, 0);
    pages.frames().set_state(later, FrameState::USED);
    assert_eq!(pages.validate(), Ok(()));
    assert_eq!(pages.zones().budget().used(), 3, "the page in use and the two bad ones");
    taken.clear();
}

/// Every call of the system fails once: the request returns `None`, and all equations hold.
pub(super) fn refusals(policy: impl PagePolicy) {
    let config = PageConfig { nodes: 2, ..tiny(policy) };
    let story = |os: &'static FakeOs| -> Option<u32> {
        let pages = PageAllocator::build(os, &config, 2).ok()?;
        let mut owner = Owner::new(&pages);
        let mut refused = 0;
        for (slot, order) in [(0, 0), (1, 3), (0, 9), (1, 10), (0, 1), (1, 0)] {
            match pages.alloc(SlotIndex(slot), request(order, Unmovable)) {
                Some(page) => owner.receive(page, 1 << order),
                None => refused += 1,
            }
        }
        assert_eq!(pages.validate(), Ok(()));
        while let Some((pfn, frames)) = owner.surrender(0) {
            pages.free_exact(SlotIndex(0), pfn, frames);
        }
        pages.drain_all();
        pages.zones().purge(NodeId(0), Order::ZERO, usize::MAX);
        assert_eq!(pages.validate(), Ok(()));
        assert_eq!(pages.zones().budget().used(), 0);
        assert!(pages.alloc(SlotIndex(0), request(10, Movable)).is_some(), "it goes on");
        Some(refused)
    };
    let os = fake_os();
    assert_eq!(story(os), Some(0), "nothing fails when nothing is refused");
    for nth in 1..=os.calls() {
        let os = fake_os();
        os.fail_nth(nth);
        assert!(story(os).is_none_or(|refused| refused <= 1), "one refusal costs one request");
    }
}

/// A zone that cannot grow gives all but its reserve, then fails cleanly, and recovers.
pub(super) fn exhaustion(policy: impl PagePolicy) {
    let config = PageConfig { initial_frames: 4096, grow: false, ..tiny(policy) };
    let pages = build(config, &RingSizes::default());
    let marks = pages.zones().zone(NodeId(0)).marks();
    for order in [0u8, 2, 5] {
        let mut owner = Owner::new(&pages);
        while let Some(page) = pages.alloc(SlotIndex(3), request(order, Reclaimable)) {
            owner.receive(page, 1 << order);
        }
        let left = 4096 - owner.frames();
        assert!(left <= marks.min + (1 << order), "{left} frames left at order {order}");
        assert_eq!(pages.validate(), Ok(()));
        while let Some((pfn, frames)) = owner.surrender(0) {
            pages.free(SlotIndex(1), pfn, Order::covering(frames));
        }
        assert_eq!(pages.validate(), Ok(()));
    }
    pages.drain_all();
    assert_eq!(pages.zones().zone(NodeId(0)).free(), 4096);
}

/// Threads share slots, so that another thread often holds the lists.
pub(super) fn threads(policy: impl PagePolicy) {
    let pages = build(PageConfig { reserve_bytes: 256 << 20, ..tiny(policy) }, &SHORT);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (pages, start) = (&pages, &start);
            scope.spawn(move || {
                start.wait();
                let slot = SlotIndex(thread % 2);
                let mut mine: Vec<(Pfn, Order)> = Vec::new();
                let mut random = 0x9e37_79b9_u32.wrapping_mul(thread + 1);
                for _ in 0..3000 {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let order = Order::new([0, 0, 0, 1, 2, 3, 3, 9][(random >> 29) as usize]);
                    let of = MigrateType::ALL[(random >> 27) as usize % 3];
                    if mine.len() < 40 && random >> 20 & 1 == 0 {
                        let page = pages.alloc(slot, request(order.get(), of)).expect("room");
                        for offset in 0..order.frames() {
                            first_word(pages, page.pfn.plus(offset), u64::from(thread) + 1);
                        }
                        mine.push((page.pfn, order));
                    } else if let Some((pfn, order)) = mine.pop() {
                        for offset in 0..order.frames() {
                            let word = first_word(pages, pfn.plus(offset), 0);
                            assert_eq!(word, u64::from(thread) + 1, "somebody wrote to my page");
                        }
                        pages.free(slot, pfn, order);
                    }
                    match random >> 10 & 0x1ff {
                        0 => pages.drain_all(),
                        1 => drop(pages.zones().purge(NodeId(0), Order::new(3), 1 << 20)),
                        2 => drop(pages.decay(slot)),
                        _ => {}
                    }
                }
                pages.free_list(slot, &mine);
            });
        }
    });
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.validate(), Ok(()));
    assert_eq!(pages.zones().budget().used(), 0);
}

/// Makes the tests of the suite for a policy.
macro_rules! suite {
    ($name:ident, $policy:expr) => {
        mod $name {
            use super::suite::*;
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: (ProptestConfig::default().cases / 8).max(1),
                    failure_persistence: None,
                    ..ProptestConfig::default()
                })]

                #[test]
                fn nothing_is_lost_or_handed_out_twice(
                    steps in prop::collection::vec(step(), 1..80),
                    short: bool,
                    per_page: bool,
                    grow: bool,
                ) {
                    random_traffic($policy, &steps, short, per_page, grow);
                }
            }

            #[test]
            fn busy_lists_send_everybody_to_the_zone() {
                busy_lists($policy);
            }

            #[test]
            fn the_count_stays_in_sync_when_a_block_fails_its_check() {
                bad_blocks($policy);
            }

            #[test]
            fn every_refusal_of_the_system_is_survived() {
                refusals($policy);
            }

            #[test]
            fn a_fixed_zone_gives_all_but_its_reserve() {
                exhaustion($policy);
            }

            #[test]
            fn threads_share_slots() {
                threads($policy);
            }
        }
    };
}
pub(super) use suite;
