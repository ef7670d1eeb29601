//! The tables of `docs` that list the fields of JSON files name all fields that are written.

use crate::compare::{ALLOCATES, LITTLE, allocator_that_spins, compare, json, shared_object};
use crate::support::Workshop;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The fields that a page lists, by the path of their object; that of the whole is empty.
fn documented(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(page).unwrap();
    let rows = text.lines().skip_while(|line| *line != "| object | fields |").skip(2);
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let mut fields = BTreeMap::new();
    for row in rows.take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let objects: Vec<String> = words(cells[1]);
        let objects = if objects.is_empty() { vec![String::new()] } else { objects };
        objects
            .into_iter()
            .for_each(|it| _ = fields.insert(it, words(cells[2]).into_iter().collect()));
    }
    fields
}

/// Checks each object whose path has a row; the keys of an object without one are names of the
/// user's choice, or of a part that has a page of its own.
fn expect_documented(
    value: &Value,
    path: &str,
    fields: &BTreeMap<String, BTreeSet<String>>,
    seen: &mut BTreeSet<String>,
) {
    match value {
        Value::Array(all) => {
            all.iter().for_each(|it| expect_documented(it, &format!("{path}[]"), fields, seen));
        }
        Value::Object(all) => {
            if let Some(known) = fields.get(path) {
                seen.insert(path.to_owned());
                for key in all.keys() {
                    assert!(known.contains(key), "{path}: the page has no field {key}");
                }
            }
            for (key, value) in all {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                expect_documented(value, &path, fields, seen);
            }
        }
        _ => {}
    }
}

/// Checks that a page names every field of a file, and that the file has every object of the page.
pub(crate) fn expect_page(value: &Value, page: &str, schema: &str) {
    assert_eq!(value["schema"], schema);
    let fields = documented(page);
    let mut seen = BTreeSet::new();
    expect_documented(value, "", &fields, &mut seen);
    let rows: BTreeSet<String> = fields.into_keys().collect();
    assert_eq!(seen, rows, "{page}: every object is written");
}

#[test]
fn each_field_of_json_has_its_place_on_the_page() {
    let shop = Workshop::new();
    let program = shop.compile("allocates", ALLOCATES, &["-O0", LITTLE[0], LITTLE[1]]);
    let file = shop.path("run.json");
    let slow = shared_object(&shop, "slow", &allocator_that_spins(5000));
    compare(&["--runs=6", &format!("--allocators=glibc,{slow}"), "-L", "n", "1", "--json"])
        .arg(&file)
        .args(["--metric", "(?<did>[0-9,.]+) units", "--"])
        .arg(&program)
        .arg("{n}")
        .assert()
        .success();
    expect_page(&json(&file), "compare.md", "quarry-compare/1");
}
