//! Random operations, compared with the oracle.

use super::oracle::NaiveBuddy;
use super::{FIXED, NODE, ask};
use crate::frame::{MigrateType, Order, Pfn};
use crate::zone::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Take { order: u8, of: MigrateType, count: u32 },
    Put { from: usize, count: usize },
    Reserve { which: usize },
    Unreserve,
    Purge { smallest: u8 },
}

fn any_type() -> impl Strategy<Value = MigrateType> {
    prop::sample::select(&MigrateType::ALL[..3])
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![4 => 0u8..=3, 2 => 4u8..=8, 1 => 9u8..=10];
    prop_oneof![
        8 => (order, any_type(), prop_oneof![Just(1u32), 1u32..70])
            .prop_map(|(order, of, count)| Step::Take { order, of, count }),
        8 => (any::<usize>(), prop_oneof![Just(1usize), 1usize..100])
            .prop_map(|(from, count)| Step::Put { from, count }),
        1 => any::<usize>().prop_map(|which| Step::Reserve { which }),
        1 => Just(Step::Unreserve),
        1 => (0u8..=10).prop_map(|smallest| Step::Purge { smallest }),
    ]
}

struct Run {
    zones: Zones,
    oracle: NaiveBuddy,
    taken: Vec<(Pfn, Order)>,
}

impl Run {
    fn new(frames: u32) -> Self {
        let config = ZoneConfig { initial_frames: frames, reserve_bytes: 256 << 20, ..FIXED };
        let zones = super::zones(&config);
        let oracle = NaiveBuddy::new(Pfn(0), frames);
        Self { zones, oracle, taken: Vec::new() }
    }

    fn zone(&self) -> &Zone {
        self.zones.zone(NODE)
    }

    fn take(&mut self, order: u8, of: MigrateType, count: u32) {
        let ask = ask(order, of);
        let memory = self.zones.memory();
        // Checks the first block only: for others the zone's lists may differ from the oracle's.
        let best = self.oracle.smallest(memory, ask.order, of);
        let mut blocks = Vec::new();
        let got = self.zones.take(NODE, &ask, count, Destination::User, |pfn, zeroed| {
            blocks.push((pfn, zeroed));
        });
        assert_eq!(got as usize, blocks.len());
        for (at, (pfn, zeroed)) in blocks.into_iter().enumerate() {
            let (from, was_zeroed) = self.oracle.take(pfn, ask.order);
            if at == 0 && best.is_some() {
                assert_eq!(Some(from), best, "the smallest block of the type that fits");
            }
            assert_eq!(zeroed, was_zeroed, "{pfn:?} known to be zero");
            self.taken.push((pfn, ask.order));
        }
        if got < count {
            let left = MigrateType::ALL[..3]
                .iter()
                .find_map(|of| self.oracle.smallest(self.zones.memory(), ask.order, *of));
            assert_eq!(left, None, "a request failed although a block was free");
        }
    }

    fn put(&mut self, from: usize, count: usize) {
        let mut blocks = Vec::new();
        for step in 0..count.min(self.taken.len()) {
            let at = (from.wrapping_add(step * 7)) % self.taken.len();
            let (pfn, order) = self.taken.swap_remove(at);
            blocks.push(Block { pfn, order, zeroed: false });
        }
        // Merging depends on types, which the zone's `put` may change. So the oracle puts first.
        for block in &blocks {
            self.oracle.put(self.zones.memory(), block.pfn, block.order, false);
        }
        self.zones.put(NODE, blocks.into_iter());
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Take { order, of, count } => self.take(order, of, count),
            Step::Put { from, count } => self.put(from, count),
            Step::Reserve { which } => {
                if let Some((pfn, order)) = self.taken.get(which % self.taken.len().max(1)) {
                    self.zones.reserve_high_atomic(NODE, *pfn, *order);
                }
            }
            Step::Unreserve => {
                let memory = self.zones.memory();
                self.zones.unreserve_high_atomic(NODE, MigrateType::Movable, true);
                self.oracle.follow_types(memory);
            }
            Step::Purge { smallest } => {
                let smallest = Order::new(smallest);
                let memory = self.zones.memory();
                let bytes = self.zones.purge(NODE, smallest, usize::MAX);
                assert_eq!(bytes, self.oracle.purge(memory, smallest.get()));
            }
        }
    }

    fn check(&self) {
        let stats = self.zone().stats();
        let sums = stats.nr_free.map(|by_type| by_type.iter().sum::<u32>());
        assert_eq!(sums, self.oracle.nr_free(), "free blocks by order");
        assert_eq!(stats.dirty, self.oracle.dirty(), "dirty frames");
        let taken: u32 = self.taken.iter().map(|(_, order)| order.frames()).sum();
        assert_eq!(stats.managed, stats.free + taken, "managed = free + handed out");
        assert_eq!(self.zones.budget().used(), taken);
    }
}

/// A quarter of the usual number of cases (`PROPTEST_CASES`), because each case checks all frames.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: (usual.cases / 4).max(1), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_zone_agrees_with_the_oracle(
        frames in prop_oneof![Just(1024u32), Just(4096), Just(3001), Just(1), Just(61_440)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut run = Run::new(frames);
        for step in &steps {
            run.run(step);
            run.check();
        }
        assert_eq!(run.zones.validate(), Ok(()));
        run.oracle.compare(run.zones.memory());
        let all = run.taken.len();
        run.put(0, all);
        run.check();
        assert_eq!(run.zones.validate(), Ok(()));
    }
}
