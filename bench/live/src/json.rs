//! Records as JSON: a line for each process, with the age of its figures in front of the members
//! that a program prints under `QUARRY_STATS_FORMAT=json`.

use crate::label::Label;
use quarry_record::Snapshot;

/// The line of a record. The first member is `age_ms`, `null` for an unknown age. O(rows).
#[must_use]
pub(crate) fn line(record: &Snapshot<'_>, name: &Label, age_ms: Option<u64>) -> String {
    let head = [("quarry", record.about().quarry.as_str()), ("program", name.as_str())];
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = record.write_json(&head, &mut line);
    let age = age_ms.map_or("null".to_owned(), |age| age.to_string());
    with_age(&line, &age)
}

fn with_age(line: &str, age: &str) -> String {
    format!("{{\"age_ms\":{age},{}", line.strip_prefix('{').unwrap_or(line))
}

/// Adds the member `resident_bytes` after `age_ms`.
pub(crate) fn add_resident(line: &mut String, bytes: u64) {
    if let Some(end) = line.find(',') {
        line.insert_str(end, &format!(",\"resident_bytes\":{bytes}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_the_first_member() {
        let mut line = with_age("{\"layout\":1}\n", "7");
        assert_eq!(line, "{\"age_ms\":7,\"layout\":1}\n");
        add_resident(&mut line, 4096);
        assert_eq!(line, "{\"age_ms\":7,\"resident_bytes\":4096,\"layout\":1}\n");
    }
}
