//! The mapping cache: extents of freed mappings, with their memory.
//!
//! A request takes the front of the shortest extent that is long enough. If all are too short,
//! `mapping.rs` enlarges the extent with the most memory. A mapping that grows takes pageblocks of
//! the cached extent right after it: often the rest of the extent whose front it took. An extent
//! that is put is joined with its neighbours in the cache, and gets the age of the oldest of them.
//! With the age of the newest, a part in constant use would keep its idle neighbours in the cache.
//!
//! Equations: `bytes = sum of extents <= most`, where `most` is the bound when the last extent was
//! put; `charged = sum of frames charged`; `count <= CACHED_EXTENTS`; extents lie in the order of
//! their numbers; only the first `charged <= blocks * 512` frames of an extent may be in memory.

use crate::frame::{PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex};
use quarry_sys::broken::{Broken, Check};

/// Bytes that the cache may hold even if little is in use.
pub(super) const CACHED_BYTES: usize = 64 << 20;
const CACHED_EXTENTS: usize = 32;

/// Fewest charged frames worth enlarging: 1 MiB, whose page faults take hundreds of microseconds.
const WORTH_ENLARGING: u32 = PAGEBLOCK_FRAMES / 2;

/// The pageblocks of a mapping, in use or cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: PageblockIndex,
    pub(super) blocks: u32,
    /// Number of its first frames that are charged to the budget; no others may be in memory.
    pub(super) charged: u32,
    /// The node of the thread that took its pageblocks, where its memory lies if that touched it.
    pub(super) node: u32,
}

impl Extent {
    pub(super) fn end(&self) -> PageblockIndex {
        PageblockIndex(self.first.0 + self.blocks)
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks as usize * PAGEBLOCK_BYTES
    }

    pub(super) fn frames(&self) -> u32 {
        self.blocks * PAGEBLOCK_FRAMES
    }

    /// The extent of its first `blocks` pageblocks, and the extent of the others.
    pub(super) fn split(self, blocks: u32) -> (Self, Self) {
        debug_assert!(blocks <= self.blocks);
        let charged = self.charged.min(blocks * PAGEBLOCK_FRAMES);
        let rest = Self {
            first: PageblockIndex(self.first.0 + blocks),
            blocks: self.blocks - blocks,
            charged: self.charged - charged,
            ..self
        };
        (Self { blocks, charged, ..self }, rest)
    }

    /// Returns whether it begins where `low` ends, on the same node.
    fn follows(&self, low: &Self) -> bool {
        self.first == low.end() && self.node == low.node
    }

    /// Frames to charge when `next` is joined: those between the charged frames here and `next`.
    pub(super) fn missing_before(&self, next: &Self) -> u32 {
        if next.charged == 0 { 0 } else { self.frames() - self.charged }
    }
}

/// The most bytes that the cache may hold: as many as are in use, at least 64 MiB. (`footprint.rs`
/// keeps the process within its recent peak.) With an eighth of this bound, a program that replaced
/// 20 blocks of 5 to 25 MiB at random took 1.13 million page faults; with this bound 0.38 million.
pub(super) fn most_cached(in_use: usize) -> usize {
    CACHED_BYTES.max(in_use)
}

/// A cached extent. Its number, which stands for its age, is the count of extents put before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedExtent {
    pub(super) extent: Extent,
    pub(super) number: u64,
}

const NO_EXTENT: Extent = Extent { first: PageblockIndex(0), blocks: 0, charged: 0, node: 0 };
const NOTHING: CachedExtent = CachedExtent { extent: NO_EXTENT, number: 0 };

pub(super) struct MappingCache {
    /// Oldest first.
    extents: [CachedExtent; CACHED_EXTENTS],
    count: usize,
    bytes: usize,
    charged: u32,
    most: usize,
    so_far: u64,
}

impl MappingCache {
    pub(super) const fn new() -> Self {
        Self {
            extents: [NOTHING; CACHED_EXTENTS],
            count: 0,
            bytes: 0,
            charged: 0,
            most: 0,
            so_far: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn so_far(&self) -> u64 {
        self.so_far
    }

    pub(super) fn charged(&self) -> u32 {
        self.charged
    }

    fn all(&self) -> &[CachedExtent] {
        &self.extents[..self.count]
    }

    /// Takes the front of the shortest extent that has at least `blocks` pageblocks and for which
    /// `begins_well` returns true.
    pub(super) fn take(
        &mut self,
        blocks: u32,
        begins_well: impl Fn(&Extent) -> bool,
    ) -> Option<Extent> {
        let best = (0..self.count)
            .filter(|index| self.extents[*index].extent.blocks >= blocks)
            .filter(|index| begins_well(&self.extents[*index].extent))
            .min_by_key(|index| self.extents[*index].extent.blocks)?;
        Some(self.take_front(best, blocks))
    }

    /// Takes the extent of `node` with the most charged frames, if it is shorter than `blocks`
    /// pageblocks and [enough](WORTH_ENLARGING) frames are charged. The caller may [put
    /// it](Self::put) back.
    pub(super) fn take_largest(&mut self, blocks: u32, node: u32) -> Option<CachedExtent> {
        let largest = (0..self.count)
            .filter(|index| self.extents[*index].extent.node == node)
            .max_by_key(|index| self.extents[*index].extent.charged)?;
        let CachedExtent { extent, number } = self.extents[largest];
        let is_worth_it = extent.blocks < blocks && extent.charged >= WORTH_ENLARGING;
        is_worth_it.then(|| CachedExtent { extent: self.remove(largest), number })
    }

    /// Takes up to `blocks` pageblocks after `low`, if an extent of its node begins there.
    pub(super) fn take_after(&mut self, low: &Extent, blocks: u32) -> Option<Extent> {
        let index = self.find(|extent| extent.follows(low))?;
        Some(self.take_front(index, blocks.min(self.extents[index].extent.blocks)))
    }

    fn take_front(&mut self, index: usize, blocks: u32) -> Extent {
        let (front, rest) = self.extents[index].extent.split(blocks);
        if rest.blocks == 0 {
            return self.remove(index);
        }
        self.extents[index].extent = rest;
        self.bytes -= front.bytes();
        self.charged -= front.charged;
        front
    }

    /// Takes the oldest extent, if its number is below `number`.
    pub(super) fn take_older_than(&mut self, number: u64) -> Option<Extent> {
        (self.count > 0 && self.extents[0].number < number).then(|| self.remove(0))
    }

    /// Takes the oldest extent, which the caller may [put](Self::put) back.
    pub(super) fn take_oldest(&mut self) -> Option<CachedExtent> {
        let number = self.all().first()?.number;
        Some(CachedExtent { extent: self.remove(0), number })
    }

    fn remove(&mut self, index: usize) -> Extent {
        let extent = self.extents[index].extent;
        self.extents.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.bytes -= extent.bytes();
        self.charged -= extent.charged;
        extent
    }

    /// Takes the oldest extent, which the caller must release, if there is no room for `extent`
    /// within `most` bytes.
    pub(super) fn make_room_for(&mut self, extent: Extent, most: usize) -> Option<Extent> {
        self.most = most;
        let has_room = self.count < CACHED_EXTENTS && self.bytes + extent.bytes() <= most;
        if has_room { None } else { self.take_older_than(u64::MAX) }
    }

    /// Puts an extent for which there is room. If it was cached before under `number`, it keeps
    /// this number. Joins the extent with each neighbour of its node if `charge` accepts the gap:
    /// the uncharged frames at the end of the lower extent.
    pub(super) fn put(
        &mut self,
        extent: Extent,
        number: Option<u64>,
        charge: impl Fn(u32) -> bool,
    ) {
        let number = number.unwrap_or(self.so_far);
        self.so_far = self.so_far.max(number + 1);
        let mut kept = CachedExtent { extent, number };
        if let Some(low) = self.find(|other| extent.follows(other)) {
            kept = self.join(kept, low, &charge);
        }
        if let Some(high) = self.find(|other| other.follows(&extent)) {
            kept = self.join(kept, high, &charge);
        }
        let at = self.all().partition_point(|other| other.number < kept.number);
        self.extents.copy_within(at..self.count, at + 1);
        self.extents[at] = kept;
        self.count += 1;
        self.bytes += kept.extent.bytes();
        self.charged += kept.extent.charged;
    }

    fn join(
        &mut self,
        kept: CachedExtent,
        index: usize,
        charge: &impl Fn(u32) -> bool,
    ) -> CachedExtent {
        let other = self.extents[index];
        let is_lower = kept.extent.first.0 < other.extent.first.0;
        let (low, high) =
            if is_lower { (kept.extent, other.extent) } else { (other.extent, kept.extent) };
        let missing = low.missing_before(&high);
        if !charge(missing) {
            return kept;
        }
        self.remove(index);
        let charged = low.charged + missing + high.charged;
        let extent = Extent { blocks: low.blocks + high.blocks, charged, ..low };
        CachedExtent { extent, number: kept.number.min(other.number) }
    }

    fn find(&self, is_it: impl Fn(&Extent) -> bool) -> Option<usize> {
        self.all().iter().position(|kept| is_it(&kept.extent))
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let (cache, all) = (Check::of("mapping cache"), self.all());
        let bytes = all.iter().map(|kept| kept.extent.bytes() as u64).sum::<u64>();
        let charged = all.iter().map(|kept| kept.extent.charged).sum::<u32>();
        cache.equal(self.bytes as u64, bytes, "bytes = sum of extents")?;
        cache.equal(self.charged, charged, "charged = sum of frames charged")?;
        cache.that(self.bytes <= self.most, "bytes <= most")?;
        for CachedExtent { extent, .. } in all {
            let this = cache.at(extent.first.0);
            this.that(extent.charged <= extent.frames(), "charged <= blocks * 512")?;
            this.that(extent.blocks > 0, "blocks > 0")?;
        }
        cache.that(all.is_sorted_by(|one, next| one.number < next.number), "numbers rise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u32 = 64;
    const MOST: usize = CACHED_BYTES;

    #[derive(Clone, Debug)]
    enum Op {
        /// An extent of `blocks` pageblocks, charged for `part` 256ths of it.
        Put {
            first: u32,
            blocks: u32,
            part: u32,
        },
        Take(u32),
        TakeAt {
            first: u32,
            blocks: u32,
        },
        TakeOldest,
        /// Takes the largest extent below `blocks` pageblocks, and puts it back or not.
        TakeLargest {
            blocks: u32,
            puts_back: bool,
        },
        /// Takes the oldest extent, and puts it back with a part of its charge, in 256ths.
        Cut(u32),
    }

    fn op() -> impl Strategy<Value = (Op, bool)> {
        let (first, blocks) = (0..BLOCKS, 1u32..8);
        let op = prop_oneof![
            4 => (first.clone(), blocks.clone(), prop_oneof![Just(256), 0u32..256])
                .prop_map(|(first, blocks, part)| Op::Put { first, blocks, part }),
            2 => blocks.clone().prop_map(Op::Take),
            2 => (first, blocks).prop_map(|(first, blocks)| Op::TakeAt { first, blocks }),
            1 => Just(Op::TakeOldest),
            1 => (1u32..8, any::<bool>())
                .prop_map(|(blocks, puts_back)| Op::TakeLargest { blocks, puts_back }),
            1 => (0u32..=256).prop_map(Op::Cut),
        ];
        (op, prop::bool::weighted(0.8))
    }

    /// For each cached pageblock, how many frames at its front may be in memory, and the number of
    /// the extent with which it entered the cache.
    #[derive(Default)]
    struct Naive {
        kept: Vec<Option<(u32, u64)>>,
        charged: u64,
    }

    impl Naive {
        fn put(&mut self, extent: Extent, number: u64) {
            for block in 0..extent.blocks {
                let dirty = extent.charged.saturating_sub(block * PAGEBLOCK_FRAMES);
                let dirty = dirty.min(PAGEBLOCK_FRAMES);
                let known = &mut self.kept[(extent.first.0 + block) as usize];
                assert_eq!(known.replace((dirty, number)), None, "kept twice");
            }
            self.charged += u64::from(extent.charged);
        }

        /// Counts the frames that joins of extents charge; they charge none unless `may_charge`.
        fn charging(&mut self, may_charge: bool, put: impl FnOnce(&dyn Fn(u32) -> bool)) {
            let more = std::cell::Cell::new(0);
            put(&|missing| {
                assert!(missing < PAGEBLOCK_FRAMES * BLOCKS);
                more.set(more.get() + if may_charge { missing } else { 0 });
                may_charge || missing == 0
            });
            self.charged += u64::from(more.get());
        }

        /// Checks that all frames that may be in memory are charged, and that no pageblock of the
        /// extent is older than the extent: none was put with a lower number than `number`.
        fn check(&self, extent: &Extent, number: u64) {
            for block in 0..extent.blocks {
                assert_eq!(node_of(extent.first.0 + block), extent.node, "{extent:?}");
                let (dirty, put) =
                    self.kept[(extent.first.0 + block) as usize].expect("it is kept");
                let end = block * PAGEBLOCK_FRAMES + dirty;
                assert!(dirty == 0 || end <= extent.charged, "{extent:?}, {dirty} of {block}");
                assert!(number <= put, "{extent:?} says {number}, but {block} was put at {put}");
            }
        }

        fn take(&mut self, extent: Extent) {
            self.check(&extent, 0);
            let kept = extent.first.0 as usize..extent.end().0 as usize;
            self.kept[kept].iter_mut().for_each(|known| *known = None);
            self.charged -= u64::from(extent.charged);
        }
    }

    /// Whole runs of pageblocks belong to a node.
    fn node_of(block: u32) -> u32 {
        block / 16 % 2
    }

    fn play(kept: &mut MappingCache, naive: &mut Naive, op: &Op, may_charge: bool) {
        match *op {
            Op::Put { first, blocks, part } => {
                let blocks = blocks.min(BLOCKS - first);
                let node = node_of(first);
                let is_free =
                    |block: &u32| naive.kept[*block as usize].is_none() && node_of(*block) == node;
                let blocks = (first..first + blocks).take_while(is_free).count() as u32;
                let charged = (blocks * PAGEBLOCK_FRAMES * part).div_ceil(256);
                let extent = Extent { first: PageblockIndex(first), blocks, charged, node };
                while let Some(oldest) = kept.make_room_for(extent, MOST) {
                    naive.take(oldest);
                }
                if blocks > 0 {
                    naive.put(extent, kept.so_far());
                    naive.charging(may_charge, |charge| kept.put(extent, None, charge));
                }
            }
            Op::Take(blocks) => {
                let taken = kept.take(blocks, |extent| extent.first.0.is_multiple_of(2));
                if let Some(extent) = taken {
                    let is_even = extent.first.0.is_multiple_of(2);
                    assert!(extent.blocks == blocks && is_even, "{extent:?}");
                    naive.take(extent);
                }
            }
            Op::TakeAt { first, blocks } => {
                let low =
                    Extent { first: PageblockIndex(first), node: node_of(first), ..NO_EXTENT };
                if let Some(extent) = kept.take_after(&low, blocks) {
                    assert!(
                        extent.first.0 == first && (1..=blocks).contains(&extent.blocks),
                        "{extent:?}"
                    );
                    naive.take(extent);
                }
            }
            Op::TakeOldest => {
                let first = kept.all().first().map(|oldest| oldest.number);
                assert_eq!(kept.take_older_than(first.unwrap_or(0)), None, "nothing is older");
                if let Some(extent) = kept.take_older_than(u64::MAX) {
                    naive.take(extent);
                }
            }
            Op::TakeLargest { blocks, puts_back } => {
                let near = kept.all().iter().filter(|kept| kept.extent.node == 1);
                let most = near.map(|kept| kept.extent.charged).max();
                let Some(largest) = kept.take_largest(blocks, 1) else { return };
                let extent = largest.extent;
                assert_eq!(Some(extent.charged), most);
                assert!(extent.blocks < blocks && extent.charged >= WORTH_ENLARGING, "{extent:?}");
                naive.take(extent);
                if puts_back {
                    naive.put(extent, largest.number);
                    let number = Some(largest.number);
                    naive.charging(may_charge, |charge| kept.put(extent, number, charge));
                }
            }
            Op::Cut(part) => {
                let Some(mut oldest) = kept.take_oldest() else { return };
                naive.take(oldest.extent);
                oldest.extent.charged = oldest.extent.charged * part / 256;
                // All pageblocks get the extent's number, also those put with a higher one.
                let CachedExtent { extent, number } = oldest;
                naive.put(extent, number);
                naive.charging(may_charge, |charge| kept.put(extent, Some(number), charge));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn kept_extents_agree_with_single_pageblocks(ops in prop::collection::vec(op(), 1..200)) {
            let mut kept = MappingCache::new();
            let mut naive = Naive { kept: vec![None; BLOCKS as usize], charged: 0 };
            for (op, may_charge) in &ops {
                play(&mut kept, &mut naive, op, *may_charge);
                prop_assert_eq!(kept.validate(), Ok(()));
                kept.all().iter().for_each(|kept| naive.check(&kept.extent, kept.number));
                let blocks = naive.kept.iter().flatten().count();
                prop_assert_eq!(kept.bytes(), blocks * PAGEBLOCK_BYTES);
                prop_assert_eq!(u64::from(kept.charged()), naive.charged);
            }
        }
    }

    #[test]
    fn what_may_be_kept_follows_what_is_in_use() {
        assert_eq!((most_cached(0), most_cached(64 << 20)), (CACHED_BYTES, CACHED_BYTES));
        assert_eq!(most_cached(8 << 30), 8 << 30);
    }

    #[test]
    fn what_is_used_again_does_not_keep_its_neighbours_alive() {
        let mut kept = MappingCache::new();
        let first = PageblockIndex(3);
        let extent = Extent { first, blocks: 8, charged: 8 * PAGEBLOCK_FRAMES, node: 0 };
        assert_eq!(kept.make_room_for(extent, MOST), None);
        kept.put(extent, None, |_| true);
        let seen = kept.so_far();
        for _ in 0..10 {
            let front = kept.take(1, |_| true).expect("there is one");
            assert_eq!((front.first, front.blocks), (extent.first, 1));
            kept.put(front, None, |_| true);
        }
        assert_eq!(kept.take_older_than(seen), Some(extent), "one extent, as old as its rest");
        assert_eq!(kept.bytes(), 0);
    }
}
