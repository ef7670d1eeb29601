//! A statistics page that a hostile process has written: whatever it holds, the reader says what is
//! wrong or prints it, and what it prints as JSON is JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_live::metrics::{Exporter, Format, Level};
use quarry_live::{Label, buddyinfo, lockstat, slabinfo, total, vmstat, zoneinfo};
use quarry_record::{RECORD_BYTES, Snapshot, record_of, records};

fuzz_target!(|bytes: &[u8]| {
    let _ = record_of(bytes, 1, 0);
    assert!(records(bytes).all(|record| record.len() == RECORD_BYTES));
    // The part that an input leaves out is zero, so that inputs are short.
    let mut record = bytes[..bytes.len().min(RECORD_BYTES)].to_vec();
    record.resize(RECORD_BYTES, 0);
    // With `cfg(fuzzing)` the sum of a record may be wrong.
    match Snapshot::parse(&record) {
        Ok(snapshot) => print(&snapshot),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn print(record: &Snapshot<'_>) {
    let one = quarry_live::Snapshot::of_record(record, 1, Label::new(b"fuzz"), u64::MAX / 2);
    serde_json::from_str::<serde_json::Value>(&one.json).expect("it is JSON");
    let both = total::of(&[one.clone(), one]);
    let texts = [slabinfo::text, buddyinfo::text, lockstat::text, vmstat::text, zoneinfo::text];
    for text in texts {
        assert!(text(&both).chars().all(|it| it == '\n' || !it.is_control()));
    }
    for format in [Format::OpenMetrics, Format::Text] {
        let mut metrics = Exporter::new(Level::All, "/nowhere".into());
        assert!(metrics.text(std::slice::from_ref(&both), format).is_ascii());
    }
}
