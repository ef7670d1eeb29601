//! `quarry lab run fragmentation`: simulated hours of a memory, and their pictures.

use crate::runs::{results, samples};
use crate::support::lab;
use predicates::str::contains;
use serde_json::Value;

fn hours(seed: &str) -> Vec<Value> {
    let (folder, place) = results();
    lab()
        .args(["run", "fragmentation", "--quick", "--samples=2", seed])
        .args(["--variants=v6.18,one-type,contained", "--svg"])
        .arg(folder.path())
        .arg("--out")
        .arg(&place)
        .assert()
        .success()
        .stdout(contains("| free in order 9+ |"))
        .stdout(contains("| contained |"));
    for order in [3, 4, 9] {
        let picture = folder.path().join(format!("fragmentation-{order}.svg"));
        let picture = std::fs::read_to_string(picture).expect("there is a picture");
        assert!(picture.contains("one-type") && picture.contains("</svg>"), "{picture}");
    }
    let mut samples = samples(&place);
    samples.sort_by_key(|it| (it["round"].as_u64(), it["variant"].as_str().map(str::to_owned)));
    samples
}

/// A round's result depends only on the round, not on the order in which the variants run.
#[test]
fn rounds_are_the_same_in_every_run() {
    let courses = |samples: &[Value]| -> Vec<Value> {
        samples.iter().map(|sample| sample["measurement"]["series"].clone()).collect()
    };
    let (first, second) = (hours("--seed=1"), hours("--seed=2"));
    assert_eq!(courses(&first), courses(&second));
    assert!(first.len() >= 6, "{} samples", first.len());
    for sample in &first {
        let measurement = &sample["measurement"];
        assert_eq!(measurement["verified"], measurement["operations"], "{sample}");
        assert_eq!(measurement["series"]["course of order 9"].as_array().unwrap().len(), 60);
    }
}
