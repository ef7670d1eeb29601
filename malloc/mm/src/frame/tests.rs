//! Compares the window, with foreign mappings in it, with an oracle that knows each pageblock.

use super::block_bits::{Bit, BlockBits};
use super::{Memory, PAGEBLOCK_BYTES, PageblockIndex, Side, Wanted};
use proptest::prelude::*;
use quarry_sys::os::{FakeOs, NotMoved, OsError};

const BLOCKS: u32 = 128;

fn fake_os() -> &'static FakeOs {
    Box::leak(Box::new(FakeOs::new(4096)))
}

fn memory_on(os: &'static FakeOs) -> Memory {
    Memory::reserve(os, BLOCKS as usize * PAGEBLOCK_BYTES).expect("there are addresses")
}

fn wanted(count: u32) -> Wanted {
    Wanted { side: Side::Zone, count, align: 1, room: 0 }
}

#[derive(Clone, Debug)]
enum Op {
    Take {
        side: Side,
        count: u32,
        align: u32,
        room: u32,
    },
    /// Extends one of the held extents.
    Extend {
        which: usize,
        more: u32,
    },
    /// Gives back the end of an extent, from `from` on.
    GiveBack {
        which: usize,
        from: u32,
    },
    Move {
        which: usize,
        more: u32,
        is_lost: bool,
    },
    /// Makes the call of the system with this number fail; the next call has number 1.
    Fail(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let side = prop_oneof![Just(Side::Zone), Just(Side::Mapping)];
    prop_oneof![
        4 => (side, 1u32..12, 0u32..3, 0u32..6).prop_map(|(side, count, align, room)| Op::Take {
            side, count, align: 1 << align, room,
        }),
        2 => (0usize..100, 1u32..6).prop_map(|(which, more)| Op::Extend { which, more }),
        3 => (0usize..100, 0u32..12).prop_map(|(which, from)| Op::GiveBack { which, from }),
        2 => (0usize..100, 0u32..4, prop::bool::weighted(0.2))
            .prop_map(|(which, more, is_lost)| Op::Move { which, more, is_lost }),
        1 => (1u64..6).prop_map(Op::Fail),
    ]
}

/// The extents held, and the pageblocks excluded.
struct Oracle {
    held: Vec<(u32, u32)>,
    excluded: Vec<u32>,
}

impl Oracle {
    fn is_free(&self, first: u32, count: u32) -> bool {
        let touches = |(start, len): &(u32, u32)| first < start + len && *start < first + count;
        !self.held.iter().any(touches)
            && !self.excluded.iter().any(|block| (first..first + count).contains(block))
    }

    fn take(&mut self, memory: &Memory, wanted: Wanted) -> Option<(u32, u32)> {
        let first = memory.take(wanted).ok()?.first.0;
        assert!(self.is_free(first, wanted.count), "{first} is taken twice");
        let address = memory.arena().address(PageblockIndex(first).first()).as_ptr() as usize;
        assert!(address.is_multiple_of(wanted.align as usize * PAGEBLOCK_BYTES));
        self.held.push((first, wanted.count));
        Some((first, wanted.count))
    }

    fn check(&self, memory: &Memory) {
        assert_eq!(memory.arena().validate(), Ok(()));
        let held: u32 = self.held.iter().map(|(_, count)| count).sum();
        assert_eq!(memory.arena().pageblocks_taken(), held as usize);
        for block in (0..BLOCKS).map(PageblockIndex) {
            let is_held = self.held.iter().any(|(at, len)| (*at..at + len).contains(&block.0));
            assert_eq!(memory.arena().is_taken(block), is_held, "{block:?}");
            assert_eq!(memory.arena().is_excluded(block), self.excluded.contains(&block.0));
        }
        let end = self.held.iter().map(|(first, count)| first + count).max().unwrap_or(0);
        assert!(memory.arena().span_blocks() >= end, "all that is held has metadata");
    }

    fn play(&mut self, os: &'static FakeOs, memory: &Memory, op: &Op) {
        match *op {
            Op::Take { side, count, align, room } => {
                self.take(memory, Wanted { side, count, align, room });
            }
            Op::Extend { which, more } if !self.held.is_empty() => {
                let at = which % self.held.len();
                let (first, count) = self.held[at];
                let was_free = self.is_free(first + count, more) && first + count + more <= BLOCKS;
                let extended = memory.extend(PageblockIndex(first), count, more, true);
                assert!(was_free || extended.is_err());
                if extended.is_ok() {
                    self.held[at].1 += more;
                }
            }
            Op::GiveBack { which, from } if !self.held.is_empty() => {
                let at = which % self.held.len();
                let (first, count) = self.held[at];
                let from = from.min(count - 1);
                memory.give_back(PageblockIndex(first + from), count - from);
                self.held[at].1 = from;
                self.held.retain(|(_, count)| *count > 0);
            }
            Op::Move { which, more, is_lost } if !self.held.is_empty() => {
                let at = which % self.held.len();
                let (first, count) = self.held[at];
                if let Some(to) = self.take(memory, wanted(count + more)) {
                    self.move_extent(os, memory, (first, count), to, is_lost);
                }
            }
            Op::Fail(nth) => os.fail_nth(nth),
            _ => {}
        }
    }

    fn move_extent(
        &mut self,
        os: &'static FakeOs,
        memory: &Memory,
        from: (u32, u32),
        to: (u32, u32),
        is_lost: bool,
    ) {
        let address = |first: u32| memory.arena().address(PageblockIndex(first).first());
        let extent = |(first, count): (u32, u32)| (PageblockIndex(first), count);
        let word = address(from.0).cast::<u64>();
        // SAFETY: both extents are mapped, and held by this test alone.
        unsafe { word.write(u64::from(from.0) + 1) };
        os.lose_targets(is_lost);
        // SAFETY: both extents are mapped, and held by this test alone.
        let moved = unsafe { memory.move_extent(extent(from), extent(to)) };
        os.lose_targets(false);
        let gone = match moved {
            Ok(()) => {
                // SAFETY: `to` is mapped, and holds the moved pages.
                let arrived = unsafe { address(to.0).cast::<u64>().read() };
                assert_eq!(arrived, u64::from(from.0) + 1);
                from
            }
            Err(NotMoved::Lost) => {
                self.excluded.extend(to.0..to.0 + to.1);
                to
            }
            Err(NotMoved::Unchanged) => return,
        };
        self.held.retain(|extent| *extent != gone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 64, ..Default::default()
    })]

    #[test]
    fn extents_agree_with_single_pageblocks(ops in prop::collection::vec(op(), 1..60)) {
        let os = fake_os();
        let memory = memory_on(os);
        let mut oracle = Oracle { held: Vec::new(), excluded: Vec::new() };
        for op in &ops {
            oracle.play(os, &memory, op);
            oracle.check(&memory);
        }
    }

    #[test]
    fn bits_agree_with_a_list(
        set in prop::collection::vec(any::<bool>(), 1..300),
        is_set in any::<bool>(),
        bounds in (0u32..300, 0u32..300),
    ) {
        let len = set.len() as u32;
        let bits = BlockBits::new(fake_os(), len).expect("there is memory");
        (0..len).for_each(|block| bits.set(Bit::Mapped, block, block + 1, set[block as usize]));
        let (first, end) = (bounds.0.min(len), bounds.1.min(len));
        let naive = (first..end).find(|block| set[*block as usize] == is_set);
        let next = bits.next(Bit::Mapped, is_set, first, end);
        prop_assert_eq!(next, naive.unwrap_or(end.max(first)).min(end));
        let extents = bits.extents(Bit::Mapped, is_set, first, end);
        let found: Vec<_> = extents.flat_map(|(at, end)| at..end).collect();
        let naive: Vec<_> = (first..end).filter(|at| set[*at as usize] == is_set).collect();
        prop_assert_eq!(found, naive);
    }
}

/// Number of blocks of two regions and a part of a third one, which ends within a group.
const MANY: u32 = 2 * 32 * 1024 + 5 * 1024 + 77;

/// A position: mostly at or next to the beginning of a word, a group or a region.
fn place() -> impl Strategy<Value = u32> {
    let edge = prop::sample::select(vec![1u32, 64, 1024, 32 * 1024]);
    (edge, 0..MANY, 0u32..4)
        .prop_map(|(edge, at, beside)| (at / edge * edge + beside).saturating_sub(2).min(MANY))
}

fn length() -> impl Strategy<Value = u32> {
    (0u32..17, any::<u32>()).prop_map(|(bits, random)| (1 << bits) + random % (1 << bits))
}

/// For each search: its start, the number of blocks, the log2 of their alignment, and its offset.
fn wanted_extents() -> impl Strategy<Value = Vec<(u32, u32, u32, u32)>> {
    prop::collection::vec((place(), length(), 0u32..3, 0u32..4), 1..8)
}

fn naive_find(taken: &[bool], start: u32, count: u32, align: u32, offset: u32) -> Option<u32> {
    let mut free = 0;
    let ends = (start..taken.len() as u32).filter_map(|at| {
        free = if taken[at as usize] { 0 } else { free + 1 };
        let first = (at + 1).checked_sub(count).filter(|_| free >= count)?;
        Some(first)
    });
    ends.into_iter().find(|first| (first + offset).is_multiple_of(align))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn the_index_finds_what_a_search_of_all_blocks_does(
        changes in prop::collection::vec((place(), length(), any::<bool>()), 1..60),
        holes in (place(), 1u32..40, 1u32..40),
        wanted in wanted_extents(),
    ) {
        let bits = BlockBits::new(fake_os(), MANY).expect("there is memory");
        let mut taken = vec![false; MANY as usize];
        for (first, length, is_taken) in changes {
            let end = first.saturating_add(length).min(MANY);
            if is_taken {
                bits.set(Bit::Taken, first, end, true);
            } else {
                bits.release(first, end);
            }
            taken[first as usize..end as usize].fill(is_taken);
        }
        // In one part all free extents are short: many holes of the same length.
        let (from, full, free) = holes;
        let comb = (from..MANY).step_by((full + free) as usize).take(3000);
        for (first, end) in comb.map(|first| (first, first.saturating_add(full).min(MANY))) {
            bits.set(Bit::Taken, first, end, true);
            taken[first as usize..end as usize].fill(true);
        }
        prop_assert_eq!(bits.validate(), Ok(()));
        for (start, count, order, offset) in wanted {
            let align = 1 << order;
            let align_up = |at: u32| Some((at + offset).next_multiple_of(align) - offset);
            let found = bits.find(start, count, align_up);
            prop_assert_eq!(found, naive_find(&taken, start, count, align, offset));
        }
    }

    #[test]
    fn releasing_leaves_out_what_is_excluded(
        excluded in prop::collection::vec(0u32..300, 0..20),
        bounds in (0u32..300, 0u32..300),
    ) {
        let bits = BlockBits::new(fake_os(), 300).expect("there is memory");
        let (first, end) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
        bits.set(Bit::Taken, 0, 300, true);
        excluded.iter().for_each(|at| bits.set(Bit::Excluded, *at, at + 1, true));
        let goes = |at: &u32| (first..end).contains(at) && !excluded.contains(at);
        prop_assert_eq!(bits.release(first, end) as usize, (0..300).filter(goes).count());
        prop_assert!((0..300).all(|at| bits.is_set(Bit::Taken, at) != goes(&at)));
    }
}

/// Among 100,000 holes, a search looks only into the words around the hole that is large enough.
#[test]
fn a_search_passes_over_holes_that_are_too_small() {
    const HOLES: u32 = 100_000;
    let bits = BlockBits::new(fake_os(), 4 * HOLES + 8).expect("there is memory");
    (0..HOLES).for_each(|hole| bits.set(Bit::Taken, 4 * hole + 1, 4 * hole + 4, true));
    let looked = std::cell::Cell::new(0);
    let align_up = |at| {
        looked.set(looked.get() + 1);
        Some(at)
    };
    assert_eq!(bits.find(0, 2, align_up), Some(4 * HOLES));
    // The search calls `align_up` once for each unit it passes over, and once for each hole.
    assert!(looked.get() < 1000, "{} extents looked at", looked.get());
}

#[test]
fn a_foreign_mapping_is_left_out_and_all_around_it_serves() {
    let os = fake_os();
    let memory = memory_on(os);
    let address = memory.arena().address(PageblockIndex(5).first());
    // SAFETY: the middle of a pageblock of the window.
    let middle = unsafe { address.add(PAGEBLOCK_BYTES / 2) };
    os.occupy(middle, 4096);
    assert_eq!(
        memory.take(wanted(12)).map(|taken| taken.first),
        Ok(PageblockIndex(6)),
        "behind it"
    );
    assert!(memory.arena().is_excluded(PageblockIndex(5)));
    assert_eq!(
        memory.take(wanted(5)).map(|taken| taken.first),
        Ok(PageblockIndex(0)),
        "in front of it"
    );
    assert_eq!(memory.extend(PageblockIndex(0), 5, 1, true), Err(OsError(libc::ENOMEM)));
    assert_eq!(memory.arena().validate(), Ok(()));
    assert_eq!(memory.arena().pageblocks_taken(), 17);
}

#[test]
fn a_table_that_meets_a_foreign_mapping_ends_the_memory_there() {
    let os = fake_os();
    let memory = memory_on(os);
    assert_eq!(memory.take(wanted(2)).map(|taken| taken.first), Ok(PageblockIndex(0)));
    // A foreign mapping lies right after the kinds of the first section, where the table grows.
    let kinds = memory.frames().kinds();
    // SAFETY: within the window.
    os.occupy(unsafe { kinds.add(32 * 512) }.cast(), 4096);
    assert_eq!(memory.take(wanted(40)).map(|taken| taken.first), Err(OsError(libc::ENOMEM)));
    assert_eq!(
        memory.take(wanted(30)).map(|taken| taken.first),
        Ok(PageblockIndex(2)),
        "what has metadata serves"
    );
    assert_eq!(memory.arena().validate(), Ok(()));
    assert_eq!(memory.arena().span_blocks(), 32);
}

#[test]
fn what_cannot_be_unmapped_is_zero_and_serves_again() {
    let os = fake_os();
    let memory = memory_on(os);
    let first = memory.take(wanted(3)).expect("there is memory").first;
    let word = memory.arena().address(first.first()).cast::<u64>();
    // SAFETY: mapped and ours.
    unsafe { word.write(7) };
    os.fail_nth(1);
    memory.give_back(first, 3);
    let calls = os.calls();
    assert_eq!(memory.take(wanted(3)).map(|taken| taken.first), Ok(first));
    assert_eq!(os.calls(), calls, "it is mapped still");
    // SAFETY: taken again, so mapped and ours.
    assert_eq!(unsafe { word.read() }, 0);
    assert_eq!(memory.arena().validate(), Ok(()));
}
