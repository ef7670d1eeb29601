//! `quarry lab run cache-hit`: the program that takes its samples, and what is said without it.

use crate::runs::{meta, results, samples};
use crate::support::{Workshop, lab};
use predicates::prelude::*;
use predicates::str::contains;

/// Stands in for the program: lists what the real one lists, and prints results that are fixed.
const STAND_IN: &str = r#"#!/bin/sh
if [ "$1" = list ]; then
    cat "$(dirname "$0")/list.json"
    exit
fi
case $3 in
    *'"variant":"lru"'*)
        echo '{"operations":100,"time_ns":0,"wall_ns":0,"cpu_ns":0,"verified":100,' \
            '"served_by":"lru","counters":{"hits":60,"misses":40}}' ;;
    *'"variant":"quarry"'*)
        echo '{"operations":100,"time_ns":900,"wall_ns":900,"cpu_ns":0,"verified":100,' \
            '"served_by":"quarry","counters":{"hits":61,"misses":39,"lookup_ns":900,' \
            '"hit_ns":700,"overhead_ns":200,"resident_bytes":4194304}}' ;;
    *)
        echo '{"operations":100,"time_ns":900,"wall_ns":900,"cpu_ns":0,"verified":99,' \
            '"served_by":"moka"}' ;;
esac
"#;

const VARIANTS: [&str; 10] = [
    "quarry",
    "quick_cache",
    "moka",
    "foyer",
    "vmcache",
    "vmcache-shared",
    "swizzle",
    "lru",
    "s3-fifo",
    "active-inactive",
];
const WORKLOADS: [&str; 7] =
    ["hot-4-mib", "hot-uniform", "hot-zipf-0.9", "zipf-0.9", "scan", "loop", "twice"];

fn list() -> String {
    let variants = VARIANTS.map(|name| {
        let is_simulator = ["lru", "s3-fifo", "active-inactive"].contains(&name);
        serde_json::json!({ "name": name, "about": "a cache", "is_simulator": is_simulator })
    });
    let workloads = WORKLOADS.map(|name| {
        let fits = name.starts_with("hot");
        serde_json::json!({ "name": name, "about": "lookups", "fits": fits })
    });
    serde_json::json!({ "variants": variants, "workloads": workloads }).to_string()
}

#[test]
fn samples_come_from_the_program_and_wrong_ones_fail() {
    let shop = Workshop::new();
    shop.script("cache-hit", STAND_IN);
    std::fs::write(shop.path("list.json"), list()).unwrap();
    let (_folder, place) = results();
    lab()
        .env("QUARRY_PEERS", shop.path(""))
        .args(["run", "cache-hit", "--quick", "--tasks=1", "--samples=6"])
        .args(["--variants=quarry,moka,lru", "--only=zipf"])
        .arg("--out")
        .arg(&place)
        .assert()
        .failure()
        .stdout(contains("misses, zipf-0.9").and(contains("| lru").and(contains("| met "))))
        .stderr(contains("verified 99 of 100"));
    assert_eq!(meta(&place)["options"]["latency us"], "10");
    for sample in samples(&place) {
        let is_wrong = sample["variant"] == "moka";
        assert_eq!(sample["measurement"].is_null(), is_wrong, "{sample}");
        let served_by = &sample["measurement"]["served_by"];
        assert!(
            is_wrong
                || sample["variant"].as_str().unwrap().starts_with(served_by.as_str().unwrap())
        );
    }
}

#[test]
fn without_the_program_it_is_said_what_builds_it() {
    let shop = Workshop::new();
    let run = |folder: &str| {
        let mut command = lab();
        command.env("QUARRY_PEERS", shop.path(folder)).args(["run", "cache-hit", "--quick"]);
        command.assert().code(1)
    };
    run("none").stderr(contains("`make caches` builds it"));
    shop.script("cache-hit", "#!/bin/sh\necho '{}'\n");
    run("").stderr(contains("is of another version; `make caches`"));
}
