//! `quarry lab report`: the page as readers see it.

use crate::support::lab;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Recorded runs: a comparison of allocators, a sweep over tasks with counters, memory over time.
const RUNS: [&str; 3] = ["patterns", "udp", "idle"];

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs").join(name)
}

/// A copy of a recorded run with some text replaced everywhere.
fn changed(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let place = folder.join(name);
    fs::create_dir(&place).unwrap();
    let mut is_there = false;
    for file in ["meta.json", "samples.jsonl"] {
        let text = fs::read_to_string(recorded(name).join(file)).unwrap();
        is_there |= text.contains(from);
        fs::write(place.join(file), text.replace(from, to)).unwrap();
    }
    assert!(is_there, "{name} has no {from}");
    place
}

fn report(runs: &[PathBuf], output: &Path) -> String {
    lab().args(["report", "-o"]).arg(output).args(runs).assert().success();
    fs::read_to_string(output).unwrap()
}

fn all(folder: &Path) -> String {
    report(&RUNS.map(recorded), &folder.join("report.html"))
}

#[test]
fn a_report_has_every_kind_of_picture_and_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let page = all(folder.path());
    for text in [
        "Verdicts on everything that was measured",
        "At a glance",
        "Intervals",
        "Medians and verdicts",
        "Samples",
        "Scaling",
        "Memory over time",
        "Speed against memory",
        "Counters",
        "Where it was measured",
        "quote ratios, with an A/A copy beside them",
        "prefers-color-scheme",
        "@media print",
        "href=\"data:text/csv;charset=utf-8,round,",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    for text in ["http:", "https:", "url(", "@import", "<link", "<img", "<iframe", " src="] {
        assert!(!page.contains(text), "{text} refers to something outside");
    }
}

#[test]
fn the_page_says_what_the_tables_say() {
    let folder = tempfile::tempdir().unwrap();
    let page = all(folder.path());
    for name in RUNS {
        let output = lab().args(["compare"]).arg(recorded(name)).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows.len() > 5, "{table}");
        for cell in rows.iter().flat_map(|row| row.split('|')).map(str::trim) {
            assert!(page.contains(&format!(">{cell}<")), "{name}: {cell} is missing");
        }
    }
}

/// The text of a number as tables write it.
fn written(value: &Value) -> String {
    let value = value.as_f64().unwrap();
    if (0.1..10.0).contains(&value) {
        return format!("{value:.3}");
    }
    let decimals = if value < 0.0995 { 3 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}")
}

#[test]
fn table_json_and_page_state_the_same_centre_and_interval() {
    let folder = tempfile::tempdir().unwrap();
    let page = all(folder.path());
    let mut checked = 0;
    for name in ["patterns", "udp"] {
        let compare = |style: &str| {
            let mut command = lab();
            command.args(["compare", style]).arg(recorded(name));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let table = compare("--style=modern");
        let json: Value = serde_json::from_str(&compare("--style=json")).unwrap();
        for judgement in json["judgements"].as_array().unwrap() {
            let variant = judgement["variant"].as_str().unwrap();
            let (centre, interval) = (written(&judgement["ratio"]), &judgement["interval"]);
            let ends = [0, 1].map(|end| written(&interval[end]));
            let said = format!("{centre} [{}, {}]", ends[0], ends[1]);
            let verdict = judgement["verdict"].as_str().unwrap();
            // The workload's name stands in the first of its rows only.
            let is_row =
                |line: &&str| line.contains(&said) && line.contains(&format!("| {variant}"));
            let row = table.lines().find(is_row).unwrap_or_else(|| panic!("{judgement}\n{table}"));
            assert!(page.contains(&format!(">{said}</td>")), "{said} is missing in the table");
            assert!(page.contains(&format!(": {said}\">{centre}")), "{said} at a glance");
            if !variant.ends_with("A/A") {
                assert!(row.contains(&format!("| {verdict}")), "{row}");
                let hint = format!("title=\"{verdict}: {said}\"");
                assert!(page.contains(&hint), "{hint} is missing");
            }
            // The forest plot says the same.
            let word = if variant.ends_with("A/A") { "noise" } else { verdict };
            assert!(page.contains(&format!(">{said} {word}</text>")), "{said} {word} as interval");
            checked += 1;
        }
    }
    assert_eq!(checked, 5 * 4 + 3 * 3, "four and two workloads and their means");
}

/// Leaves out style, script and version, which change more often than the rest of the page.
/// `QUARRY_BLESS=1` records the new page.
#[test]
fn equal_runs_give_equal_pages() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    assert_eq!(report(&RUNS.map(recorded), &place("1")), report(&RUNS.map(recorded), &place("2")));
    let page = report(&[recorded("udp")], &place("udp.html"));
    let said = without(&without(&without(&page, "style"), "script"), "footer");
    let said = said.replace("><", ">\n<") + "\n";
    let snapshot = recorded("udp.html");
    if std::env::var_os("QUARRY_BLESS").is_some() {
        fs::write(&snapshot, &said).unwrap();
    }
    let expected = fs::read_to_string(&snapshot).unwrap();
    let lines = said.lines().zip(expected.lines()).enumerate();
    for (number, (line, expected)) in lines {
        assert_eq!(line, expected, "line {}; QUARRY_BLESS=1 records a new page", number + 1);
    }
    assert_eq!(said.lines().count(), expected.lines().count());
}

/// The page without this element and its content.
fn without(page: &str, element: &str) -> String {
    let (before, rest) = page.split_once(&format!("<{element}>")).unwrap();
    let (_, after) = rest.split_once(&format!("</{element}>")).unwrap();
    format!("{before}{after}")
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.html");
    fs::write(&output, "precious").unwrap();
    let command = || {
        let mut command = lab();
        command.args(["report", "-o"]).arg(&output).arg(recorded("udp"));
        command
    };
    command().assert().code(2).stderr(contains("there already; it is replaced only with --force"));
    assert_eq!(fs::read_to_string(&output).unwrap(), "precious");
    command().arg("--force").assert().success().stdout(contains("report.html"));
    assert!(fs::read_to_string(&output).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn damage_is_named_with_file_and_line_and_leaves_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = changed(folder.path(), "udp", "\"round\":2,", "\"round\":two,");
    let output = folder.path().join("report.html");
    let mut command = lab();
    command.args(["report", "-o"]).arg(&output).args([&recorded("idle"), &run]);
    command.assert().code(1).stderr(contains("udp/samples.jsonl:"));
    assert!(!output.exists());
    let mut command = lab();
    command.args(["report", "-o"]).arg(&output).arg(folder.path());
    command.assert().code(2).stderr(contains("meta.json: no such file"));
}

/// A command for Debian's Chromium. If there is none, prints a line that says so.
fn chromium() -> Option<Command> {
    let names = ["chromium", "chromium-browser"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&paths)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .filter(|place| place.is_file());
    if let Some(place) = places.next() {
        return Some(Command::new(place));
    }
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    // Writes to stderr itself, because the test harness hides the output of tests that pass.
    writeln!(std::io::stderr(), "SKIPPED: {test}: no chromium").expect("it is open");
    None
}

/// A page with the tested page in a frame. It shows the facts that the tested page sends.
const FRAME: &str = r#"<body style="margin:0"><script>
addEventListener("message", (event) => {
  const facts = document.createElement("pre");
  facts.id = "facts";
  facts.textContent = event.data;
  document.body.append(facts);
});
</script><iframe src="page.html" style="border:0;width:WIDTHpx;height:800px"></iframe>"#;

/// Opens a page in a frame of this width, and returns the facts that `layout.js` collects there.
fn layout(page: &str, width: u32, is_dark: bool) -> Option<Value> {
    let mut chromium = chromium()?;
    let folder = tempfile::tempdir().unwrap();
    let (head, end) = page.rsplit_once("</body>").unwrap();
    let place = folder.path().join("page.html");
    let script = include_str!("layout.js");
    fs::write(&place, format!("{head}<script>{script}</script></body>{end}")).unwrap();
    // A window is never as narrow as a phone, but a frame can be.
    let frame = folder.path().join("frame.html");
    let text = FRAME.replace("WIDTH", &width.to_string());
    fs::write(&frame, text).unwrap();
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]);
    if is_dark {
        chromium.arg("--blink-settings=preferredColorScheme=0");
    }
    chromium.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    chromium.arg("--window-size=1500,900").arg(format!("file://{}", frame.display()));
    let output = chromium.output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let facts =
        dom.split_once("<pre id=\"facts\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (facts, _) = facts.unwrap_or_else(|| {
        panic!("no facts: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
    });
    let facts = facts.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&facts).unwrap())
}

/// Checks that hold at every width.
fn check(facts: &Value, width: u32) {
    assert_eq!(facts["innerWidth"], width, "{facts}");
    let scroll = facts["scrollWidth"].as_u64().unwrap();
    assert!(scroll <= facts["clientWidth"].as_u64().unwrap(), "it scrolls sideways: {facts}");
    assert_eq!(facts["faults"], Value::Array(Vec::new()));
    let none = Value::Array(Vec::new());
    assert_eq!(facts["faint"], none, "words are hard to read");
    if width < 600 {
        assert_eq!(facts["cut"], none, "out of sight on a phone");
    }
    assert_eq!(facts["unnamed"], 0, "pictures and tables without a name: {facts}");
    let place = |name: &str| facts[name].as_i64().unwrap();
    let (intervals, boxes) = (place("intervals"), place("boxes"));
    assert!(intervals >= 0 && (boxes < 0 || intervals < boxes), "intervals come first: {facts}");
    assert_eq!(facts["images"], 0, "{facts}");
    assert!(facts["smallest"].as_f64().unwrap() > 9.5, "letters are too small: {facts}");
    assert!(facts["contrast"].as_f64().unwrap() > 7.0, "{facts}");
    assert_eq!(facts["pictures"], facts["downloads"], "{facts}");
    assert_eq!(facts["toggled"], true, "a variant that is switched off is gone: {facts}");
}

#[test]
fn phones_and_screens_show_every_picture_without_overlaps() {
    let folder = tempfile::tempdir().unwrap();
    let page = all(folder.path());
    for (width, is_dark) in [(400, false), (400, true), (1400, false), (1400, true)] {
        let Some(facts) = layout(&page, width, is_dark) else { return };
        check(&facts, width);
        // Intervals: 3 metrics * 5 + 2 * 3 + 2 * 3. Box plots: 4 + 2 + 2. Scaling: 1. Memory: 2.
        // Trade-offs: 1 + 4. Counters: 2 + 2.
        assert_eq!(facts["pictures"], 47, "{facts}");
        let samples = 4 * 5 * 8 + 2 * 4 * 8 + 2 * 5;
        assert_eq!(facts["dots"], samples, "every sample is a dot: {facts}");
        assert_eq!(facts["dark"], is_dark, "{facts}");
    }
}

#[test]
fn names_from_files_are_only_text_however_long_they_are() {
    let name = "<img src=x onerror=alert(1)></title><b>&amp; a policy with quite a long name";
    let folder = tempfile::tempdir().unwrap();
    let run = changed(folder.path(), "udp", "sheaf+v6.7", name);
    let page = report(&[run], &folder.path().join("report.html"));
    assert!(!page.contains("<img") && !page.contains("<b>&amp; a policy"));
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    let Some(facts) = layout(&page, 400, false) else { return };
    check(&facts, 400);
}

/// A comparison as bad as it gets: a long command with markup, twelve allocators with long names,
/// of which one has a single sample, one failed, and one has figures beyond all others.
fn hostile(folder: &Path) -> PathBuf {
    let place = folder.join("hostile");
    fs::create_dir(&place).unwrap();
    let read = |file: &str| fs::read_to_string(recorded("patterns").join(file)).unwrap();
    let mut meta: Value = serde_json::from_str(&read("meta.json")).unwrap();
    let names: Vec<String> = (0..12)
        .map(|number| format!("allocator-{number}:{}=<b>&\"x\"</b>", "OPTION".repeat(number)))
        .collect();
    let variant = |name: &String| serde_json::json!({ "name": name, "description": "" });
    let copy = serde_json::json!({
        "name": format!("{} A/A", names[0]), "description": "", "copy_of": names[0],
    });
    meta["variants"] = names.iter().map(variant).chain([copy.clone()]).collect();
    meta["baseline"] = names[0].clone().into();
    meta["strict"] = true.into();
    let workload = meta["workloads"][0].clone();
    meta["workloads"] = Value::Array(vec![workload.clone()]);
    meta["origin"] = serde_json::json!({
        "began": 1_795_369_445,
        "command": ["quarry", "compare", "--", "sh", "-c", HOSTILE_COMMAND],
        "program": ["sh", "-c", HOSTILE_COMMAND],
        "stdin": { "kind": "file", "name": "<in>.sql", "bytes": 7 },
    });
    let samples = read("samples.jsonl");
    let pattern: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
    let mut lines = String::new();
    let all = names.iter().map(String::as_str).chain(copy["name"].as_str());
    for (number, name) in all.enumerate() {
        for round in 1..=if number == 3 { 1 } else { 8 } {
            let mut sample = pattern.clone();
            sample["variant"] = name.into();
            sample["workload"] = workload["name"].clone();
            sample["round"] = round.into();
            let times = 1.0 + (number % 12) as f64 * 0.1 + f64::from(round % 3) * 0.01;
            let ns = sample["measurement"]["time_ns"].as_f64().unwrap() * times;
            sample["measurement"]["time_ns"] = (ns as u64).into();
            if number == 5 {
                sample["measurement"]["counters"] = serde_json::json!({});
                sample["measurement"]["time_ns"] = u64::MAX.into();
            }
            if number == 4 && round == 2 {
                sample.as_object_mut().unwrap().remove("measurement");
                sample["failure"] = "signal 11 <script>alert(2)</script>".into();
            }
            lines += &format!("{sample}\n");
        }
    }
    fs::write(place.join("meta.json"), meta.to_string()).unwrap();
    fs::write(place.join("samples.jsonl"), lines).unwrap();
    place
}

const HOSTILE_COMMAND: &str = "echo '</title><script>alert(1)</script>' `id` | tr a b; \
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn a_hostile_comparison_is_shown_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let run = hostile(folder.path());
    let page = report(&[run], &folder.path().join("report.html"));
    assert_eq!(page.matches("<script>").count(), 1, "the page's own");
    assert!(page.contains("2026-11-22 17:44:05 UTC") && page.contains("&lt;in&gt;.sql, 7 bytes"));
    for (width, is_dark) in [(400, false), (1280, true)] {
        let Some(facts) = layout(&page, width, is_dark) else { return };
        check(&facts, width);
        let text = |name: &str| facts[name].as_str().unwrap().to_owned();
        assert!(text("heading").contains("</title><script>alert(1)</script>"), "{facts}");
        assert!(
            text("title").contains("Nothing is known to be better than allocator-0:"),
            "{facts}"
        );
        assert!(text("title").contains("allocator-4:"), "who failed is named: {facts}");
        let copies = facts["copies"].as_array().unwrap();
        assert_eq!(copies.len(), 2, "the command and Markdown: {facts}");
        assert!(copies[0].as_str().unwrap().ends_with(" < '<in>.sql'"), "{facts}");
        assert!(copies[1].as_str().unwrap().contains("| variant | time, "), "{facts}");
    }
}

#[test]
fn an_allocator_has_the_same_colour_on_every_page() {
    let folder = tempfile::tempdir().unwrap();
    let colours = |run: &str, is_dark| {
        let page = report(&[recorded(run)], &folder.path().join(format!("{run}{is_dark}.html")));
        Some(layout(&page, 1280, is_dark)?["colours"].clone())
    };
    for is_dark in [false, true] {
        let (Some(one), Some(two)) = (colours("patterns", is_dark), colours("idle", is_dark))
        else {
            return;
        };
        for name in ["glibc", "jemalloc", "quarry"] {
            assert!(one[name].as_str().unwrap().starts_with('#'), "{one}");
            assert_eq!(one[name], two[name], "{name}, which has another place on each page");
        }
        assert_ne!(one["glibc"], one["jemalloc"]);
    }
}

/// The output of `quarry` on a terminal of 80 columns.
fn on_a_terminal(arguments: &str) -> String {
    let quarry = lab().get_program().to_str().unwrap().to_owned();
    let command = format!("stty cols 80 rows 24; {quarry} {arguments}");
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn tables_fit_into_a_terminal() {
    for name in RUNS {
        let run = recorded(name);
        let text = on_a_terminal(&format!("compare {}", run.display()));
        let is_row = |line: &&str| line.starts_with('|');
        let widest = text.lines().filter(is_row).map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest}: {text}");
        let output = lab().args(["compare"]).arg(&run).output().unwrap();
        let whole = String::from_utf8(output.stdout).unwrap();
        // A long word at the head of a column goes on in the next line; numbers do not.
        let numbers = whole.lines().filter(is_row).skip(2).flat_map(|row| row.split('|').skip(3));
        for cell in numbers.map(str::trim) {
            assert!(text.contains(&format!("{cell} ")), "{cell} is missing: {text}");
        }
    }
}
