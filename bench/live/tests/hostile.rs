//! Records that a process made up: whatever is in them, readers print bounded lines of visible
//! characters, and no number makes them panic.

use proptest::prelude::*;
use quarry_live::metrics::{Exporter, Format, Level};
use quarry_live::{
    Label, Snapshot, activity, buddyinfo, farewell, lockstat, slabinfo, total, vmstat, zoneinfo,
};
use quarry_record::{
    About, Budget, CacheRow, Draft, Head, ListRow, LockRow, MAGIC, Memory, Name, Owner,
    RECORD_BYTES, RECORD_WORDS, Sequence, Sink, Snapshot as Record, VERSION, ZoneRow, events,
};
use std::path::PathBuf;

/// A record in memory.
struct Words(Vec<u64>);

impl Sink for Words {
    fn put(&mut self, at: usize, word: u64) {
        self.0[at] = word;
    }
}

/// The numbers of a made-up record: random ones, and those at the limits of 64 bits.
struct Numbers {
    all: Vec<u64>,
    next: usize,
}

impl Numbers {
    fn next(&mut self) -> u64 {
        self.next = (self.next + 1) % self.all.len();
        self.all[self.next]
    }

    fn short(&mut self) -> u32 {
        self.next() as u32
    }
}

fn cache(name: Name, it: &mut Numbers) -> CacheRow {
    CacheRow {
        name,
        object_bytes: it.short(),
        stride: it.short(),
        slab_objects: it.short(),
        slab_frames: it.short(),
        active_objects: it.next(),
        total_objects: it.next(),
        parked_objects: it.next(),
        active_slabs: it.next(),
        total_slabs: it.next(),
        partial_slabs: it.next(),
        alloc_fast: it.next(),
        alloc_slow: it.next(),
        free_fast: it.next(),
        free_slow: it.next(),
        slabs_allocated: it.next(),
        refills: it.next(),
        deactivations: it.next(),
        cmpxchg_fails: it.next(),
    }
}

fn memory(it: &mut Numbers) -> Memory {
    Memory {
        objects: it.next(),
        parked: it.next(),
        free_in_slabs: it.next(),
        empty_slabs: it.next(),
        around_objects: it.next(),
        blocks: it.next(),
        page_cache: it.next(),
        withheld: it.next(),
        page_lists: it.next(),
        free_dirty: it.next(),
        free_zero: it.next(),
        mappings: it.next(),
        mappings_cached: it.next(),
        metadata_other: it.next(),
        metadata_sheaves: it.next(),
        ..Memory::default()
    }
}

/// A record with a correct checksum over arbitrary contents.
fn record(names: &[String], mut it: Numbers) -> Vec<u8> {
    let mut words = Words(vec![0; RECORD_WORDS]);
    let mut draft = Draft::new(&mut words);
    draft.memory(&memory(&mut it));
    let budget =
        Budget { limit: it.next(), used: it.next(), available: it.next(), ..Budget::default() };
    draft.budget(&budget);
    (0..events::names().count()).for_each(|_| draft.event(it.next()));
    for name in names {
        let name = Name::new(name);
        draft.cache(&cache(name, &mut it));
        draft.lock(&LockRow {
            name,
            locks: it.next(),
            acquisitions: it.next(),
            contentions: it.next(),
            hold_samples: it.next(),
            hold_ns: it.next(),
            wait_ns: it.next(),
        });
        let zone =
            ZoneRow { node: it.short(), free: it.short(), low: it.short(), ..ZoneRow::default() };
        draft.zone(&ZoneRow { free_blocks: [[it.short(); 4]; 11], ..zone });
        draft.list(&ListRow { slot: it.short(), count: it.short(), ..ListRow::default() });
    }
    let name = Name::new(names.first().map_or("", |name| name.as_str()));
    let about =
        About { quarry: name, slab: name, pages: name, flags: it.next(), ..About::default() };
    let sum = draft.finish(about);
    words.0[Head::MAGIC_AT] = MAGIC;
    words.0[Head::VERSION_AT] = u64::from(VERSION) | (RECORD_WORDS as u64) << 32;
    let owner = Owner { generation: 1, pid: it.short().max(1) };
    words.0[Head::OWNER_AT] = owner.to_word();
    words.0[Head::SEQUENCE_AT] = Sequence { generation: 1, count: 2 }.to_word();
    words.0[Head::PUBLISHED_AT] = it.next();
    words.0[Head::SUM_AT] = Head::sum_for(owner, sum);
    words.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn exported(level: Level, of: &[Snapshot], format: Format) -> String {
    Exporter::new(level, PathBuf::new()).text(of, format)
}

/// Every text that a reader prints.
fn texts(snapshot: &Snapshot) -> Vec<String> {
    vec![
        snapshot.heading(),
        slabinfo::text(snapshot),
        activity::table("", &snapshot.caches),
        buddyinfo::text(snapshot),
        zoneinfo::text(snapshot),
        vmstat::text(snapshot),
        lockstat::text(snapshot),
        exported(Level::All, std::slice::from_ref(snapshot), Format::OpenMetrics),
        exported(Level::All, &[snapshot.clone(), snapshot.clone()], Format::Text),
        exported(Level::Essential, &[snapshot.clone(), snapshot.clone()], Format::Text),
        farewell::of_one(snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_record_breaks_a_reader(
        names in prop::collection::vec(any::<String>(), 0..70),
        all in prop::collection::vec(
            prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()],
            1..300,
        ),
        now_ns: u64,
    ) {
        let bytes = record(&names, Numbers { all, next: 0 });
        let record = Record::parse(&bytes).expect("its sum is right");
        let name = Label::from(names.first().map_or("", |name| name.as_str()));
        let mut snapshot = Snapshot::of_record(&record, 7, name, now_ns);
        activity::most_active_first(&mut snapshot.caches);
        let both = total::of(&[snapshot.clone(), snapshot.clone()]);
        for text in texts(&snapshot).into_iter().chain(texts(&both)) {
            prop_assert!(text.len() < 400_000, "{} bytes", text.len());
            prop_assert!(text.lines().all(|line| line.len() < 400));
            let is_plain = |it: char| matches!(it, ' '..='~' | '\n');
            prop_assert!(text.chars().all(is_plain), "{text:?}");
        }
        let lines: Vec<&str> = both.json.lines().collect();
        prop_assert_eq!(lines.len(), 2);
        let value: serde_json::Value = serde_json::from_str(lines[0]).expect("it is JSON");
        prop_assert_eq!(value["caches"].as_array().map(Vec::len), Some(snapshot.caches.len()));
        prop_assert_eq!(slabinfo::text(&snapshot).lines().count(), 2 + snapshot.caches.len());
    }

    /// A record of which up to 19 bytes were replaced.
    #[test]
    fn other_bytes_are_refused_or_read(
        changes in prop::collection::vec((0..RECORD_BYTES, any::<u8>()), 0..20),
    ) {
        let numbers = Numbers { all: vec![3, 5, 8], next: 0 };
        let mut bytes = record(&["malloc-64".to_owned()], numbers);
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Ok(record) = Record::parse(&bytes) {
            let snapshot = Snapshot::of_record(&record, 7, Label::default(), 0);
            prop_assert!(!texts(&snapshot).is_empty());
        }
    }
}
