//! `quarry lab run` with the experiments that replay kernel paths.

use crate::runs::{meta, results, samples};
use crate::support::{lab, lab_on_one_cpu};
use assert_cmd::Command;
use predicates::str::contains;
use quarry_replay::documents::DOCUMENTS;
use serde_json::Value;

/// Mean of a counter per operation over all samples of a variant.
fn per_operation(samples: &[Value], variant: &str, counter: &str) -> f64 {
    let of_variant = samples.iter().filter(|sample| sample["variant"] == variant);
    let (mut count, mut operations) = (0, 0);
    for sample in of_variant {
        let measurement = &sample["measurement"];
        assert_eq!(measurement["served_by"], variant.trim_end_matches(" A/A"), "{sample}");
        count += measurement["counters"][counter].as_u64().unwrap();
        operations += measurement["operations"].as_u64().unwrap();
    }
    count as f64 / operations as f64
}

/// The name of each document's experiment, and whether its rows are loads of file systems.
fn experiments() -> impl Iterator<Item = (String, bool)> {
    DOCUMENTS.iter().flat_map(|document| {
        let file: toml::Table = document.read(|it| it.experiments);
        let all = file["experiment"].as_array().expect("a list").clone();
        all.into_iter().map(|experiment| {
            let name = experiment["name"].as_str().expect("a text").to_owned();
            let by = experiment.get("explained_by").and_then(toml::Value::as_str);
            (name, by == Some("files"))
        })
    })
}

/// Checks that every sample was taken, and that all messages arrived.
fn check(samples: &[Value]) {
    assert!(!samples.is_empty());
    for sample in samples {
        let measurement = &sample["measurement"];
        assert!(measurement["operations"].as_u64().unwrap() > 0, "{sample}");
        assert_eq!(measurement["verified"], measurement["operations"], "{sample}");
        let served_by = sample["variant"].as_str().unwrap().trim_end_matches(" A/A");
        assert_eq!(measurement["served_by"], served_by, "{sample}");
    }
}

#[test]
fn every_replay_runs_and_loses_no_message() {
    let mut count = 0;
    for (experiment, _) in experiments() {
        count += 1;
        let (_folder, place) = results();
        let run = lab()
            .args(["run", &experiment, "--quick", "--millis=5", "--seed=1", "--out"])
            .arg(&place)
            .assert()
            .success()
            .stdout(contains("\nDocument 00"));
        check_answer(&String::from_utf8_lossy(&run.get_output().stdout));
        let samples = samples(&place);
        check(&samples);
        assert_eq!(meta(&place)["experiment"], experiment);
    }
    assert!(count >= 18, "{count} experiments");
}

/// Checks the first lines: a sentence whose counts are those of the table below it, a sentence of
/// the rates, and a table of at most 8 columns in lines of at most 100 letters.
fn check_answer(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let [counts, rates, "", ref table @ ..] = lines[..] else { panic!("{text}") };
    assert!(counts.starts_with("Each ") && counts.ends_with(")."), "{counts}");
    assert!(rates.contains(" beside ") && rates.contains("; A/A "), "{rates}");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    assert!(rows.clone().all(|line| line.chars().count() <= 100), "{text}");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let table = table.iter().take_while(|line| !line.is_empty()).map(|line| cells(line));
    let table: Vec<Vec<String>> = table.collect();
    assert!(table.iter().all(|line| (5..=8).contains(&line.len())), "{text}");
    // The row that the sentence names, and its lines up to the next row.
    let (claims, place) = counts.rsplit_once(" (").unwrap();
    let place = place.trim_end_matches(").").split(';').next().unwrap();
    let at = table.iter().position(|line| line[0] == place).expect(text);
    let of_row = table[at + 1..].iter().take_while(|line| !line[1].is_empty());
    let mut checked = 0;
    for line in of_row.filter(|line| !line[0].ends_with(" A/A")) {
        let policies = &line[0];
        for (which, claim) in claims.split(", and ").enumerate() {
            let words = |end: &str| claim.split_once(&format!(" {policies}{end}"));
            let end = claim.strip_suffix(&*format!(" {policies}")).map(|before| (before, ""));
            let (before, _) = words(",").or_else(|| words(" ")).or(end).expect(counts);
            let (before, _) = before.rsplit_once("under").expect(counts);
            let figure = &line[4 + which];
            let often = match &**figure {
                "1.00" => "once",
                "2.00" => "twice",
                figure => &format!("{figure} times"),
            };
            let seldom = figure.as_str() <= "0.010" && {
                let most = before.trim().strip_suffix(" times)").and_then(|it| it.rsplit_once(' '));
                most.is_some_and(|(_, most)| *most >= **figure)
                    || figure == "0.000" && before.trim().ends_with("never")
            };
            let is_said = seldom || before.trim().ends_with(&format!(" {often}"));
            assert!(is_said, "{policies}: {figure}: {text}");
            checked += 1;
        }
    }
    assert!(checked >= 2, "{text}");
}

/// A document's number stands for its experiment; all figures stand in a wide table.
#[test]
fn numbers_of_documents_are_experiments() {
    let options = ["--quick", "--millis=5", "--tasks=1", "--wide", "--seed=1"];
    lab()
        .args(["run", "003"])
        .args(options)
        .assert()
        .success()
        .stdout(contains("| zone allocs "))
        .stdout(contains("Document 003: "));
}

#[test]
fn help_says_what_is_modelled_and_what_is_not() {
    for (experiment, is_of_files) in experiments() {
        let limits = match is_of_files {
            false => "only the CPUs of this machine run",
            true => "no journal and no path lookup",
        };
        lab()
            .args(["run", &experiment, "--help"])
            .assert()
            .success()
            .stdout(contains("Models "))
            .stdout(contains("A task is a "))
            .stdout(contains("interrupts off"))
            .stdout(contains(limits));
    }
}

#[test]
fn one_cpu_and_more_tasks_than_cpus_are_enough() {
    for experiment in ["udp-u-4k", "tcp-rr", "hackbench", "page-fault1"] {
        let (_folder, place) = results();
        let run = lab_on_one_cpu()
            .args(["run", experiment, "--quick"])
            .args(["--tasks=3", "--millis=5", "--variants=slub+order0,sheaf+v6.18", "--out"])
            .arg(&place)
            .output()
            .expect("taskset is part of every distribution");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        check(&samples(&place));
    }
}

/// Runs an experiment into a results directory; returns the samples and what was printed.
fn run(experiment: &str, options: &[&str]) -> (Vec<Value>, String) {
    run_by(lab(), experiment, options)
}

/// Like `run`, by the given command.
fn run_by(mut command: Command, experiment: &str, options: &[&str]) -> (Vec<Value>, String) {
    let (_folder, place) = results();
    command.args(["run", experiment, "--seed=1"]).args(options).arg("--out").arg(&place);
    let answer = command.assert().success().get_output().stdout.clone();
    let samples = samples(&place);
    check(&samples);
    (samples, String::from_utf8(answer).expect("tables are text"))
}

/// The last two columns of a cache's line in the first `slabinfo -AD` of the output.
fn fast(text: &str, cache: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.trim_start().starts_with(cache)).expect(cache);
    let columns: Vec<u64> = line.split_whitespace().skip(1).map(|it| it.parse().unwrap()).collect();
    let [objects, allocs, frees, alloc, free] = columns[..] else { panic!("{line}") };
    assert!(objects > 0 && allocs >= frees, "{line}");
    (alloc, free)
}

/// Each packet allocates and frees a buffer that SLUB of 2.6.29 passes through to the page
/// allocator. The buffer's order has no list, so this takes the zone's lock twice. With a cache or
/// a list for the buffer, the lock is hardly ever taken, wherever client and server run. If both
/// run on one CPU, packets' heads are allocated and freed on the fast path.
#[test]
fn the_finding_of_document_003_is_there() {
    let passing = "slub-2.6.29";
    let sparing = ["slqb", "slub-4.9+v2016", "sheaf"];
    // By default both run on one CPU, as in the document.
    for place in ["", "--place=next", "--place=unbound"] {
        let options = ["--samples=2", "--millis=40", "--tasks=1", place];
        let options = if place.is_empty() { &options[..3] } else { &options };
        let (samples, text) = run("udp-u-4k", options);
        for variant in [passing, "slub-2.6.29 A/A"] {
            let locks = per_operation(&samples, variant, "zone_lock");
            assert!((1.98..2.05).contains(&locks), "{place}, {variant}: {locks} zone locks");
            for half in ["zone_allocs", "zone_frees"] {
                let calls = per_operation(&samples, variant, half);
                assert!((0.98..1.03).contains(&calls), "{place}, {variant}: {calls} {half}");
            }
        }
        for variant in sparing {
            let locks = per_operation(&samples, variant, "zone_lock");
            assert!(locks < 0.05, "{place}, {variant}: {locks} zone locks per packet");
        }
        if place.is_empty() {
            assert!(text.contains(":0000256 = skbuff_head_cache\n"), "{text}");
            let (alloc, free) = fast(&text, ":0000256");
            assert!(alloc >= 99 && free >= 99, "{text}");
        }
        assert!(text.contains("declared_cpus 16") && text.contains("    Name   "), "{text}");
        let blocks = text.lines().find(|line| line.contains("> kfree > __free_pages_ok: passed"));
        let blocks: Vec<&str> = blocks.expect(&text).split('|').map(str::trim).collect();
        let (slub, slqb): (f64, f64) = (blocks[2].parse().unwrap(), blocks[3].parse().unwrap());
        assert!((0.97..1.03).contains(&slub) && slqb < 0.05, "a buffer a packet: {blocks:?}");
        let function = text.lines().find(|line| line.starts_with("| __free_pages_ok "));
        assert!(function.is_some_and(|line| line.contains(" 12.37 |")), "{text}");
        assert!(
            text.contains(":0004096                  1471   114918   113490  99  97"),
            "{text}"
        );
    }
}

/// The finding of document 006: without slabs of the CPU below the sheaves, a CPU of a node without
/// memory takes a list's lock for each object. Neither Linux 6.19 nor Quarry's own policies do so.
#[test]
fn the_finding_of_document_006_is_there() {
    let (samples, text) = run("ublk-null", &["--samples=2", "--millis=40"]);
    let locks = |variant| per_operation(&samples, variant, "list_lock");
    let there = locks("sheaf-7.0+v6.18+memoryless");
    assert!((0.95..2.1).contains(&there), "{there} locks of lists where a node has no memory");
    let with_memory = locks("sheaf-7.0");
    assert!((0.02..0.6).contains(&with_memory), "{with_memory} where each node has memory");
    for variant in ["slub-4.9+v6.18+memoryless", "slam", "sheaf"] {
        assert!(locks(variant) < 0.1, "{variant}: {} locks of lists", locks(variant));
    }
    assert!(text.starts_with("Each request takes the lock of a list of slabs "), "{text}");
    let (samples, _) = run(
        "ublk-null",
        &["--samples=1", "--millis=40", "--nodes=1", "--variants=sheaf-7.0,sheaf-6.18"],
    );
    for variant in ["sheaf-7.0", "sheaf-6.18"] {
        let [lists, barns] =
            ["list_lock", "barn_lock"].map(|it| per_operation(&samples, variant, it));
        assert!(lists < 0.02 && (0.03..0.2).contains(&barns), "{variant}: {lists}, {barns}");
    }
}

/// The finding of document 008: what another node's CPU frees goes past the sheaves to its slab;
/// what is sent home enters a sheaf.
#[test]
fn the_finding_of_document_008_is_there() {
    let of_row = |row: &str| {
        let only = format!("--only={row}");
        run("udp-u-4k-home", &["--samples=1", "--millis=40", "--variants=sheaf-7.0,sheaf", &only]).0
    };
    let (there, home) = (of_row("there-64"), of_row("home-32"));
    let frees = |samples: &[Value]| per_operation(samples, "sheaf-7.0", "slow_frees");
    assert!(frees(&there) > 1.9, "head and data go past the sheaves: {}", frees(&there));
    assert!(frees(&home) < 0.2, "both enter sheaves: {}", frees(&home));
    let locks = |samples: &[Value], variant| per_operation(samples, variant, "list_lock");
    assert!(locks(&there, "sheaf-7.0") > 10.0 * locks(&home, "sheaf-7.0"));
    assert!(locks(&there, "sheaf") < 0.02);
}

/// The columns of the JSON file have the names that the table's columns have.
#[test]
fn a_file_for_programs_has_the_columns_of_the_table() {
    let (_folder, place) = results();
    let (folder, _) = results();
    let file = folder.path().join("table.json");
    lab()
        .args(["run", "udp-u-4k", "--quick", "--seed=1", "--tasks=1", "--place=same"])
        .args(["--variants=slub-2.6.29,slqb", "--samples=2", "--out"])
        .arg(&place)
        .arg("--json")
        .arg(&file)
        .assert()
        .success();
    let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let lines = json["lines"].as_array().unwrap();
    let policies: Vec<_> = lines.iter().map(|line| line["policies"].as_str().unwrap()).collect();
    assert_eq!(policies, ["slub-2.6.29", "slqb", "slub-2.6.29 A/A"]);
    assert_eq!((&lines[0]["row"], &lines[0]["tasks"]), (&"stream".into(), &1.into()));
    let locks: Vec<f64> = lines.iter().map(|line| line["zone locks"].as_f64().unwrap()).collect();
    assert!(locks[0] > 1.98 && locks[1] < 0.05 && locks[2] > 1.98, "{locks:?}");
    assert!(lines[0]["rate"].as_f64().unwrap() > 0.0);
    assert_eq!(json["units"]["zone locks"], "per operation");
    lab()
        .args(["run", "udp-u-4k", "--quick", "--json=/no/such/folder/x"])
        .assert()
        .code(2)
        .stderr(contains("--json /no/such/folder/x: No such file"));
}

/// Document 001: each policy spares more than nine tenths of one kind of critical section that the
/// policy before it takes. A file has 1,024 pages, which are 74 batches of 14.
#[test]
fn each_rung_of_document_001_spares_what_it_should() {
    let options = ["--samples=1", "--amount=8"];
    // On one CPU, because a task that moves to another CPU can leave pages of the last file that it
    // has read in the first CPU's add batch, and they stay there when it unlinks that file.
    let (samples, text) = run_by(lab_on_one_cpu(), "sparsetruncate-tiny", &options);
    let per_file = |variant: &str, counter: &str| per_operation(&samples, variant, counter);
    for variant in ["vanilla", "jan", "oneirq", "mel"] {
        assert_eq!(per_file(variant, "pages_truncated"), 1024.0, "{variant}");
    }
    assert!(per_file("vanilla", "index_lock") >= 1024.0, "a hold of the index for each page");
    assert!(per_file("vanilla", "page_sections") >= 1024.0, "a section for each page");
    for (variant, counter, before) in [
        ("jan", "index_lock", "vanilla"),
        ("oneirq", "page_sections", "jan"),
        ("mel", "drains", "oneirq"),
    ] {
        let (spared, from) = (per_file(variant, counter), per_file(before, counter));
        assert!(10.0 * spared < from, "{variant}: {spared} {counter}, {before} has {from}");
    }
    assert!(text.starts_with("Each freed page needs a critical section"), "{text}");
}

/// The statistics are those of single files, in the layout of document 001; document 001's own
/// table is below.
#[test]
fn a_run_of_sparsetruncate_prints_the_table_of_document_001() {
    let (_folder, place) = results();
    let options = ["--quick", "--samples=2", "--amount=4", "--variants=jan,oneirq", "--seed=1"];
    let mut command = lab();
    command.args(["run", "sparsetruncate-tiny"]).args(options).arg("--out").arg(&place);
    command.assert().success();
    for sample in samples(&place) {
        let each = sample["measurement"]["series"]["each_us"].as_array().unwrap();
        assert_eq!(each.len(), 4, "a value for each file");
        assert!(each.iter().all(Value::is_u64), "in whole microseconds");
    }
    let answer = lab().args(["compare", "--style", "mmtests"]).arg(&place).output();
    let text = String::from_utf8(answer.unwrap().stdout).unwrap();
    let (ours, documents) = text.split_once("As document 001 has it").expect(&text);
    let names = |table: &str| -> Vec<String> {
        let lines = table.lines().filter(|line| line.contains(" Time "));
        lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!((names(ours), names(ours).len()), (names(documents), 17), "{text}");
    assert!(documents.contains("      149.00 (   0.00%)      141.00 (   5.37%)"), "{text}");
}

/// Files of twice the memory: reclaim evicts pages, and each of them was clean or had been written.
#[test]
fn files_of_twice_the_memory_are_evicted_and_found_again() {
    for experiment in ["sparsetruncate-large", "bonnie"] {
        let (samples, _) = run(experiment, &["--quick", "--variants=jan,mel"]);
        let dropped =
            |sample: &Value| sample["measurement"]["counters"]["pages_truncated"].as_u64().unwrap();
        let deletes = |sample: &&Value| {
            let row = sample["workload"].as_str().unwrap();
            row == "Time" || row.ends_with(" del")
        };
        for sample in samples.iter().filter(deletes) {
            let pages = if experiment == "bonnie" { 64 } else { 1024 };
            let files = sample["measurement"]["operations"].as_u64().unwrap();
            assert!(dropped(sample) < files * pages * 3 / 4, "the rest was evicted: {sample}");
        }
    }
}

/// Document 004: a batch ten times as large takes the zone's lock a tenth as often. Sentinels
/// appear only under policies that have them. Locks without counters report 0.
#[test]
fn the_kernels_of_document_004_differ_in_their_locks() {
    let variants = "--variants=slub+order0+single,slub+order0-310+batched,\
                    slub+order0-310+splice+add56,slub+order0-310+splice+uncounted";
    let options = ["--samples=1", "--millis=10", "--tasks=1", "--amount=4096", variants];
    let (samples, text) = run("page-fault1", &options);
    let (single, batched) = ("slub+order0+single", "slub+order0-310+batched");
    let of = |variant: &str, counter: &str| per_operation(&samples, variant, counter);
    assert!(8.0 * of(batched, "zone_lock") < of(single, "zone_lock"), "{text}");
    assert_eq!(of(single, "sentinels"), 0.0);
    let met = of(batched, "sentinels") / of(batched, "lru_removed");
    assert!((0.1..0.3).contains(&met), "2 of 14 pages are sentinels: {met}");
    assert_eq!(of("slub+order0-310+splice+uncounted", "lru_lock"), 0.0);
    assert!(of("slub+order0-310+splice+add56", "lru_lock") > 0.0);
    // Batches spare lru_lock; the locks of batches, which spread its load, are counted apart.
    assert_eq!(of(single, "batch_lock"), 0.0);
    let (before, after) = (of(single, "lru_lock"), of(batched, "lru_lock"));
    assert!(0.0 < after && after < before, "lru_lock {before}, then {after} a fault");
    assert!(of(batched, "batch_lock") > 0.0);
    for variant in [single, batched] {
        assert!((0.999..1.001).contains(&of(variant, "lru_removed")), "every page was on a list");
    }
    assert!(text.contains("nodes 2"), "{text}");
}

/// A packet of 1 KiB is served from caches by every policy.
#[test]
fn small_packets_are_not_passed_through() {
    let (samples, _) =
        run("udp-u-1k", &["--samples=1", "--millis=40", "--tasks=1", "--place=same"]);
    for variant in ["slub-2.6.29", "slqb", "slub-4.9+v2016", "sheaf"] {
        let locks = per_operation(&samples, variant, "zone_lock");
        assert!(locks < 0.2, "{variant}: {locks} zone locks per packet");
    }
}

/// The runs of document 000's author: sockets hold two or three packets, and each packet arrives.
/// If the packet's kmalloc is passed through, at 8 KiB, it calls the zone twice; a smaller one
/// hardly ever does.
#[test]
fn datagrams_of_document_000_call_the_zone_where_they_are_passed_through() {
    let only = "--only=send-64,send-8192,default-64,remote-64";
    let options = ["--samples=1", "--millis=60", "--wide", only];
    let (samples, text) = run("netperf-udp-stream", &options);
    let of = |row: &str| -> Vec<Value> {
        samples.iter().filter(|sample| sample["workload"] == row).cloned().collect()
    };
    let zone = |row: &str, variant: &str| per_operation(&of(row), variant, "zone_lock");
    let passed_through = zone("send-8192", "slub-4.9");
    assert!((1.95..2.1).contains(&passed_through), "{passed_through} zone locks");
    // Threads that move between CPUs fill the lists of each of these CPUs.
    for variant in ["slub-4.9+v2016", "slab", "sheaf"] {
        let spared = zone("send-8192", variant);
        assert!(passed_through > 10.0 * spared, "{variant}: {spared} of {passed_through}");
    }
    for row in ["send-64", "default-64", "remote-64"] {
        let locks = zone(row, "slub-4.9");
        assert!(locks < 0.15, "{row}: {locks} zone locks");
    }
    for sample in of("send-8192") {
        let measurement = &sample["measurement"];
        assert_eq!(measurement["verified"], measurement["operations"], "a sender waits for room");
    }
    assert!(text.contains("\"At small packet sizes on localhost"), "{text}");
    assert!(text.contains("44042b449872") && text.contains("| mainline 5.14 |"), "{text}");
    assert!(text.contains("| CoeffVar, % |") && text.contains("| on lists, KiB |"), "{text}");
}

/// Document 002 compares the gain of the lockless slow paths with their cost in bytes per page.
#[test]
fn the_metadata_of_a_policy_stands_beside_its_rate() {
    let machine = ["--declared-memory=64G", "--nodes=4"];
    let options = ["--samples=1", "--millis=20", "--tasks=2", "--wide", machine[0], machine[1]];
    let (samples, text) = run("tcp-rr", &options);
    assert!(text.contains("nodes 4"), "{text}");
    assert!(text.contains("| metadata, B/page | measured, B/page |"), "{text}");
    let bytes = |variant: &str| {
        let sample = samples.iter().find(|sample| sample["variant"] == variant).unwrap();
        sample["measurement"]["counters"]["policy_bytes_per_frame"].as_u64().unwrap()
    };
    // The kernel's struct page grew by 8 bytes, with its alignment; Quarry's descriptor is packed.
    assert_eq!(bytes("slub-3.1"), bytes("slub-3.0") + 4);
    let bits = |variant| per_operation(&samples, variant, "lock_bits");
    assert!(bits("slub-3.0") > 1.0, "the slow paths of 3.0 lock a slab");
    assert_eq!(bits("slub-3.1"), 0.0, "those of 3.1 do not");
    let locks = |variant| per_operation(&samples, variant, "slab_lock");
    let alien = locks("slab");
    assert!(
        alien > 1.0,
        "a free of another node's object takes the lock of an alien array: {alien}"
    );
    assert!(locks("slqb") > 0.0, "remote lists have locks");
}

#[test]
fn wrong_policies_are_named_with_what_is_accepted() {
    lab()
        .args(["run", "udp-u-4k", "--variants=slob+order0"])
        .assert()
        .code(2)
        .stderr(contains("no slab policy slob; did you mean "));
}

#[test]
fn wrong_rows_and_amounts_are_named() {
    lab()
        .args(["run", "netperf-udp-stream", "--only=send-65"])
        .assert()
        .code(2)
        .stderr(contains("no row send-65; did you mean send-"));
    lab()
        .args(["run", "page-fault1", "--place=same"])
        .assert()
        .code(2)
        .stderr(contains("--place: nothing to choose in page-fault1"));
    lab()
        .args(["run", "udp-u-4k", "--place=near"])
        .assert()
        .code(2)
        .stderr(contains(": accepted: same, next, unbound"));
    lab()
        .args(["run", "tcp-rr", "--amount=5"])
        .assert()
        .code(2)
        .stderr(contains("--amount: nothing to choose in tcp-rr"));
    lab()
        .args(["run", "list-free", "--variants=slub+order0+twice"])
        .assert()
        .code(2)
        .stderr(contains("no part twice; did you mean splice? accepted: per_page, one_section, "));
    lab()
        .args(["run", "bonnie", "--calibrate"])
        .assert()
        .code(2)
        .stderr(contains("--calibrate: bonnie has no stand-in for work"));
}

#[test]
fn a_calibration_prints_the_share_of_the_page_allocator() {
    let calibrate = ["run", "udp-u-4k", "--calibrate", "--samples=5", "--millis=40"];
    let answer = lab().args(calibrate).output().expect("quarry runs");
    let text = String::from_utf8_lossy(&answer.stdout);
    if answer.status.success() {
        assert!(text.contains("| share in document 003 |") && text.contains(" 23.9 % |"), "{text}");
        for walkers in [" one thread |", " 1 task |", " 2 tasks |"] {
            assert!(text.contains(walkers), "{text}");
        }
    } else {
        // The calibration subtracts two times, and warns if other tests keep the CPUs busy.
        let errors = String::from_utf8_lossy(&answer.stderr);
        assert!(errors.contains("the machine is too busy to calibrate"), "{errors}");
    }
}
