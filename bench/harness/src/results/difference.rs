//! Finds differences that keep two shards from being parts of one run.

use super::Meta;
use serde_json::{Value, json};

impl Meta {
    /// Returns the differences that keep samples of `self` and `other` from being parts of one run:
    /// for each such field of `meta.json` a line with both values. Every field is compared, even
    /// one added later, except the shard's number, the time, the load and the doctor's findings. Of
    /// the list of usable CPUs only the number is compared.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("", &self.of_all_shards(), &other.of_all_shards(), &mut found);
        found
    }

    /// The description without the fields that may differ between shards.
    fn of_all_shards(&self) -> Value {
        let mut meta = self.clone();
        meta.environment.load.clear();
        meta.environment.findings.clear();
        if let Some(origin) = &mut meta.origin {
            origin.began = 0;
        }
        let shards = meta.part.map(|part| part.shard.of());
        // The description has only numbers, texts and maps with texts as keys, so this cannot fail.
        let mut value = serde_json::to_value(&meta).unwrap_or_default();
        value["environment"]["cpus"] = json!(meta.environment.cpus.len());
        if let Some(shards) = shards {
            value["part"]["shard"] = json!(format!("one of {shards}"));
        }
        value
    }
}

/// Adds a line for each leaf in which two values differ; `path` leads to the values.
fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let only_there = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(only_there) {
                let at = |it: &serde_json::Map<_, _>| it.get(key).cloned().unwrap_or_default();
                compare(&below(key), &at(one), &at(other), found);
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && one.iter().all(Value::is_object) =>
        {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                let name = one["name"].as_str().map_or(index.to_string(), str::to_owned);
                compare(&below(&name), one, other, found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{path} {}, not {}", said(one), said(other))),
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(Value::is_string) => {
            values.iter().map(said).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::results::examples::run;
    use crate::results::{Meta, Origin};
    use crate::shard::{Part, Shard};

    fn of(number: u32, of: u32) -> Meta {
        let mut meta = run("a", &[("a", &[Some(1.0)]), ("b", &[Some(1.0)])]).meta;
        let shard = Shard::new(number, of).unwrap();
        meta.part = Some(Part { shard, warm_up: true });
        meta.origin = Some(Origin::now());
        meta
    }

    #[test]
    fn shards_of_one_run_may_be_taken_at_any_time() {
        let (one, mut two) = (of(1, 2), of(2, 2));
        two.origin.as_mut().unwrap().began += 99;
        two.environment.load = "7 7 7".to_owned();
        two.environment.findings.push("a neighbour".to_owned());
        two.environment.cpus.iter_mut().for_each(|cpu| *cpu += 64);
        assert_eq!(one.differences(&two), [""; 0]);
    }

    #[test]
    fn each_field_is_named_with_both_values() {
        type Change = fn(&mut Meta);
        let changes: [(Change, &str); 12] = [
            (|it| it.environment.kernel = "9.9".to_owned(), "environment.kernel 9.9, not "),
            (|it| it.environment.cpu = "Z80".to_owned(), "environment.cpu Z80, not "),
            (|it| it.environment.cpus.push(999), "environment.cpus "),
            (
                |it| it.environment.governor = Some("slow".to_owned()),
                "environment.governor slow, not ",
            ),
            (|it| it.environment.quarry = "0.0.1".to_owned(), "environment.quarry 0.0.1, not "),
            (|it| it.seed = 9, "seed 9, not 1"),
            (|it| it.rounds = 9, "rounds 9, not 1"),
            (|it| it.schema = "quarry-lab/9".to_owned(), "schema quarry-lab/9, not quarry-lab/"),
            (
                |it| it.variants[1].description = "b.so, b 2".to_owned(),
                "variants.b.description b.so, b 2, not none",
            ),
            (
                |it| drop(it.options.insert("millis".to_owned(), "7".to_owned())),
                "options.millis 7, not none",
            ),
            (|it| it.tasks.push(2), "tasks [1,2], not [1]"),
            (|it| it.part = of(1, 3).part, "part.shard one of 3, not one of 2"),
        ];
        let whole = of(1, 2);
        for (change, expected) in changes {
            let mut other = of(2, 2);
            change(&mut other);
            let found = other.differences(&whole);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}: {expected}");
            let back = whole.differences(&other);
            assert_eq!(back.len(), 1, "{back:?}");
        }
    }

    #[test]
    fn a_variant_that_only_one_has_is_a_difference() {
        let mut more = of(1, 2);
        more.variants.push(more.variants[0].copy());
        let found = more.differences(&of(2, 2));
        assert!(found.len() == 1 && found[0].starts_with("variants [{"), "{found:?}");
    }
}
