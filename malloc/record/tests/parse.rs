//! Reading records: what was written is read back, and nothing else is accepted as a record.

use proptest::prelude::*;
use quarry_record::{
    About, Budget, CacheRow, Draft, Head, ListRow, LockRow, MAGIC, Memory, Name, Owner,
    RECORD_BYTES, RECORD_WORDS, RecordError, Sequence, Sink, Snapshot, VERSION, ZoneRow, body,
    events, sum,
};

/// A record in memory.
struct Words(Vec<u64>);

impl Sink for Words {
    fn put(&mut self, at: usize, word: u64) {
        assert!((body::START..RECORD_WORDS).contains(&at), "{at} is not in the body");
        self.0[at] = word;
    }
}

impl Words {
    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

fn cache(number: usize) -> CacheRow {
    CacheRow {
        name: Name::new(&format!("malloc-{}", 16 * number)),
        stride: 16 * number as u32,
        active_objects: 1000 + number as u64,
        parked_objects: number as u64,
        alloc_fast: 99,
        alloc_slow: 1,
        ..CacheRow::default()
    }
}

/// Number of rows written to each table.
#[derive(Clone, Copy, Debug)]
struct Rows {
    caches: usize,
    zones: usize,
    lists: usize,
    locks: usize,
}

const OWNER: Owner = Owner { generation: 3, pid: 4711 };

fn record_over(words: Vec<u64>, rows: Rows) -> Words {
    let mut words = Words(words);
    let mut draft = Draft::new(&mut words);
    draft.memory(&Memory { objects: 17, mappings_cached: 4, slots_held: 5, ..Memory::default() });
    draft.budget(&Budget { limit: u64::MAX, pressure: 2, ..Budget::default() });
    (0..events::names().count()).for_each(|event| draft.event(7 * event as u64));
    (0..rows.caches).for_each(|number| draft.cache(&cache(number)));
    for node in 0..rows.zones as u32 {
        let mut free_blocks = [[node; 4]; 11];
        free_blocks[10][3] = 12;
        draft.zone(&ZoneRow { node, free: 100 + node, free_blocks, ..ZoneRow::default() });
    }
    (0..rows.lists as u32).for_each(|slot| draft.list(&ListRow { slot, ..ListRow::default() }));
    for number in 0..rows.locks as u64 {
        let name = Name::new(&format!("lock-{number}"));
        draft.lock(&LockRow { name, acquisitions: number, wait_ns: 1, ..LockRow::default() });
    }
    let sum = draft.finish(About { slab: Name::new("sheaf"), cpus: 2, ..About::default() });
    words.0[Head::MAGIC_AT] = MAGIC;
    words.0[Head::VERSION_AT] = u64::from(VERSION) | (RECORD_WORDS as u64) << 32;
    words.0[Head::OWNER_AT] = OWNER.to_word();
    words.0[Head::SEQUENCE_AT] = Sequence { generation: 3, count: 8 }.to_word();
    words.0[Head::PUBLISHED_AT] = 5_000_000_000;
    words.0[Head::SUM_AT] = Head::sum_for(OWNER, sum);
    words
}

fn record(rows: Rows) -> Words {
    record_over(vec![0; RECORD_WORDS], rows)
}

const SOME: Rows = Rows { caches: 5, zones: 1, lists: 2, locks: 3 };

fn error_of(words: &Words) -> RecordError {
    Snapshot::parse(&words.bytes()).expect_err("this is no publication")
}

proptest! {
    /// Any number of rows is read back as far as the table has room. The sums over tables are
    /// right, whatever the record contained before.
    #[test]
    fn what_was_written_is_read(
        caches in 0..3 * body::CACHES,
        zones in 0..2 * body::ZONES,
        lists in 0..2 * body::LISTS,
        locks in 0..2 * body::LOCKS,
        before in any::<u64>(),
    ) {
        let bytes =
            record_over(vec![before; RECORD_WORDS], Rows { caches, zones, lists, locks }).bytes();
        let snapshot = Snapshot::parse(&bytes).expect("a publication");
        prop_assert_eq!(snapshot.owner(), OWNER);
        prop_assert_eq!(snapshot.published_ns(), 5_000_000_000);
        let about = snapshot.about();
        prop_assert_eq!((about.slab.as_str(), about.cpus), ("sheaf", 2));
        prop_assert_eq!(snapshot.memory().slots_held, 5);
        prop_assert_eq!((snapshot.budget().limit, snapshot.budget().pressure), (u64::MAX, 2));
        let written = events::names().zip((0..).step_by(7));
        prop_assert!(snapshot.events().eq(written));
        prop_assert_eq!(snapshot.event("nr_dirty"), Some(28));
        prop_assert_eq!(snapshot.event("nr_nothing"), None);

        let rows: Vec<CacheRow> = snapshot.caches().collect();
        let fitting = caches.min(body::CACHES - 1);
        prop_assert!((0..fitting).all(|number| rows[number] == cache(number)));
        prop_assert_eq!(about.caches_beyond as usize, caches - fitting);
        prop_assert_eq!(rows.len(), fitting + usize::from(caches > fitting));
        let live = |of: &[CacheRow]| of.iter().map(CacheRow::live_objects).sum::<u64>();
        let written: Vec<CacheRow> = (0..caches).map(cache).collect();
        prop_assert_eq!(live(&rows), live(&written));

        prop_assert_eq!(snapshot.zones().count(), zones.min(body::ZONES));
        prop_assert_eq!(about.zones_beyond as usize, zones.saturating_sub(body::ZONES));
        prop_assert!(snapshot.zones().all(|row| row.free_blocks[10][3] == 12));
        prop_assert_eq!(snapshot.lists().count(), lists.min(body::LISTS));
        prop_assert_eq!(about.lists_beyond as usize, lists.saturating_sub(body::LISTS));
        let acquisitions: u64 = snapshot.locks().map(|row| row.acquisitions).sum();
        prop_assert_eq!(acquisitions, (0..locks as u64).sum::<u64>());
    }

    /// Random bytes, with a head that passes most checks, are refused without a panic.
    #[test]
    fn random_bytes_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..RECORD_BYTES + 100),
        has_head in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if has_head {
            bytes.resize(RECORD_BYTES, 0xa5);
            let head = record(SOME).bytes();
            bytes[..8 * Head::WORDS].copy_from_slice(&head[..8 * Head::WORDS]);
        }
        prop_assert!(Snapshot::parse(&bytes).is_err());
    }

    /// A body with one changed word is refused without a panic, unless no reader uses the word.
    #[test]
    fn a_changed_word_is_found(at in 0..RECORD_WORDS, value in any::<u64>()) {
        let intact = record(SOME);
        let before = intact.bytes();
        let mut changed = Words(intact.0.clone());
        changed.0[at] = value;
        let bytes = changed.bytes();
        let Ok(snapshot) = Snapshot::parse(&bytes) else { return Ok(()) };
        let original = Snapshot::parse(&before).expect("a publication");
        prop_assert_eq!(snapshot.about(), original.about());
        prop_assert_eq!(snapshot.memory(), original.memory());
        prop_assert_eq!(snapshot.budget(), original.budget());
        prop_assert!(snapshot.events().eq(original.events()));
        prop_assert!(snapshot.caches().eq(original.caches()));
        prop_assert!(snapshot.zones().eq(original.zones()));
        prop_assert!(snapshot.lists().eq(original.lists()));
        prop_assert!(snapshot.locks().eq(original.locks()));
    }

    /// A record with random counts and names, and a sum that matches, is read without a panic.
    #[test]
    fn a_forged_body_is_read_without_a_panic(
        forged in proptest::collection::vec((body::START..RECORD_WORDS, any::<u64>()), 1..40),
    ) {
        let mut words = record(SOME);
        for (at, word) in forged {
            let old = std::mem::replace(&mut words.0[at], word);
            let before = words.0[Head::SUM_AT];
            words.0[Head::SUM_AT] =
                before.wrapping_sub(sum::part(at, old)).wrapping_add(sum::part(at, word));
        }
        let bytes = words.bytes();
        if let Ok(snapshot) = Snapshot::parse(&bytes) {
            assert!(snapshot.caches().count() <= body::CACHES);
            assert!(snapshot.locks().all(|row| !row.name.as_str().contains(char::is_control)));
            let _: Vec<u64> = snapshot.caches().map(|row| row.allocs() + row.frees() / 2).collect();
        }
    }
}

#[test]
fn each_state_of_a_record_has_its_error() {
    assert_eq!(Snapshot::parse(&[]).err(), Some(RecordError::Short));
    assert_eq!(Snapshot::parse(&[0; RECORD_BYTES]).err(), Some(RecordError::Blank));
    let with = |at: usize, word: u64| {
        let mut words = record(SOME);
        words.0[at] = word;
        error_of(&words)
    };
    let sequence = |generation, count| Sequence { generation, count }.to_word();
    assert_eq!(with(Head::MAGIC_AT, 0), RecordError::NotARecord);
    let newer = u64::from(VERSION + 1) | (RECORD_WORDS as u64) << 32;
    assert_eq!(with(Head::VERSION_AT, newer), RecordError::OtherVersion { version: VERSION + 1 });
    assert_eq!(with(Head::OWNER_AT, 0), RecordError::Free);
    let unpublished = RecordError::Unpublished { owner: OWNER };
    assert_eq!(with(Head::SEQUENCE_AT, sequence(3, 0)), unpublished);
    assert_eq!(with(Head::SEQUENCE_AT, sequence(2, 8)), unpublished, "an earlier owner's");
    let odd = sequence(3, 9);
    assert_eq!(with(Head::SEQUENCE_AT, odd), RecordError::BeingWritten { owner: OWNER });
    assert_eq!(with(Head::SUM_AT, 1), RecordError::Torn);
    for error in [unpublished, RecordError::OtherVersion { version: 9 }] {
        let text = error.to_string();
        assert!(text.contains("4711") || text.contains('9'), "{text}");
    }
}

#[test]
fn json_has_every_field() {
    let bytes = record(SOME).bytes();
    let snapshot = Snapshot::parse(&bytes).expect("a publication");
    let mut text = String::new();
    snapshot.write_json(&[("program", "a \"b\"\n")], &mut text).expect("a string takes all");
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&json["layout"], &json["program"]), (&VERSION.into(), &"a \"b\"\n".into()));
    assert_eq!((&json["pid"], &json["about"]["slab"]), (&4711.into(), &"sheaf".into()));
    assert_eq!(json["memory"]["objects"], 17);
    assert!(json["budget"]["limit"].is_null(), "there is none");
    assert_eq!(json["events"].as_object().map(|it| it.len()), Some(events::names().count()));
    let rows = |name: &str| json[name].as_array().expect("a table").clone();
    assert_eq!((rows("caches").len(), rows("locks").len()), (SOME.caches, SOME.locks));
    assert_eq!(rows("zones")[0]["free_blocks"][10][3], 12);
    assert_eq!(rows("caches")[2]["name"], "malloc-32");
}
