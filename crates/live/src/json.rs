//! Figures as JSON.

use crate::snapshot::Snapshot;
use serde_json::{Map, Value, json};

/// Parts that every text has, whatever was asked for.
const ALWAYS: [&str; 3] = ["process", "age_ms", "is_last"];

/// The figures as one JSON object on several lines. It has the process, the age and the named
/// `parts`, which are the fields of [`Snapshot`]; all of them for an empty list. O(figures).
#[must_use]
pub fn text(snapshot: &Snapshot, parts: &[&str]) -> String {
    let object = object(snapshot, parts);
    serde_json::to_string_pretty(&object).unwrap_or_else(|_| json!({}).to_string())
}

fn object(snapshot: &Snapshot, parts: &[&str]) -> Value {
    let Ok(Value::Object(all)) = serde_json::to_value(snapshot) else { return Value::Null };
    let is_wanted =
        |name: &str| parts.is_empty() || parts.contains(&name) || ALWAYS.contains(&name);
    let wanted: Map<String, Value> = all.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    Value::Object(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parts_that_are_asked_for_are_there() {
        let snapshot = Snapshot { age_ms: Some(7), ..Snapshot::default() };
        let names = |parts: &[&str]| -> Vec<String> {
            let value: Value = serde_json::from_str(&text(&snapshot, parts)).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(&["zones"]), ["age_ms", "is_last", "process", "zones"]);
        assert!(names(&[]).len() > 8);
        let value: Value = serde_json::from_str(&text(&snapshot, &["caches"])).unwrap();
        assert_eq!((&value["age_ms"], &value["caches"]), (&json!(7), &json!([])));
    }
}
