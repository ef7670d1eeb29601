//! Every figure of README.md, and of the pages it leads to, comes from a recorded run.

use quarry_tidy::figures::blocks::Records;
use quarry_tidy::figures::number::{Figure, geometric_mean, short};
use quarry_tidy::figures::record::Run;
use quarry_tidy::figures::{PAGES, fill, loose};
use quarry_tidy::workspace::root;
use quarry_tidy::{Breach, expect_none};
use std::fs;

/// As much as a stranger reads before leaving.
const README_LINES_MAX: usize = 100;

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn records() -> Records {
    Records::read(&root()).expect("both runs are recorded")
}

#[test]
fn blocks_hold_what_was_recorded() {
    let records = records();
    let mut breaches = Vec::new();
    for path in PAGES {
        let text = page(path);
        match fill(&text, &records) {
            Ok(filled) if filled == text => {}
            Ok(filled) => {
                let differs =
                    filled.lines().zip(text.lines()).position(|(one, other)| one != other);
                let line = differs.map_or(0, |index| index + 1);
                let message = "not what was recorded: run 'make figures'";
                breaches.push(Breach::new(path, line, message));
            }
            Err(error) => breaches.push(Breach::new(path, 0, error)),
        }
    }
    expect_none("figures", &breaches);
}

#[test]
fn no_figure_stands_outside_marks() {
    let mut breaches = Vec::new();
    for path in PAGES {
        for (line, figure) in loose::figures(&page(path)) {
            let message = format!("'{figure}' stands outside <!-- figures: NAME -->");
            breaches.push(Breach::new(path, line, message));
        }
    }
    expect_none("figures", &breaches);
}

#[test]
fn the_readme_is_short() {
    let lines = page("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines; at most {README_LINES_MAX}");
}

/// Sentences that README.md and docs/performance.md had when each figure was typed by hand.
#[test]
fn figures_are_found() {
    let found = |text: &str| -> Vec<String> {
        loose::figures(text).into_iter().map(|(_, figure)| figure).collect()
    };
    let start = "a start of `true` takes 1.26 [1.23, 1.28] of glibc's time";
    assert_eq!(found(start), ["1.26", "1.23", "1.28"]);
    assert_eq!(found("`sleep`\nhas 900 KiB more, of which"), ["900 KiB"]);
    assert_eq!(found("**0.8 MiB** on Quarry, 66 on glibc"), ["0.8 MiB"]);
    assert_eq!(found("| pairs | 0.45 |"), ["0.45"]);
    assert_eq!(found("905 KiB [680, 1180]"), ["905 KiB", "680"]);
    assert_eq!(found("the whole 95 % interval, 12x, 30%"), ["95 %", "12x", "30%"]);
    assert_eq!(loose::figures("one\ntwo takes 721\nns a step"), [(2, "721 ns".to_owned())]);
}

#[test]
fn versions_names_and_marked_blocks_are_no_figures() {
    let text = "Version 0.1, Linux 4.18 and glibc 2.35, stable 1.88; [21 programs](a-1.5.md) on \
                x86-64, documents 000 to 004, `QUARRY_LIMIT=64M` and `0.5 ms`.\n\
                ```sh\nquarry --seconds 10 --millis 0.5\n```\n\
                <!-- figures: source -->\n1.26 and 3 ms\n<!-- end -->\n\
                <!-- times -->\n12 minutes\n<!-- end -->\n";
    assert_eq!(loose::figures(text), []);
}

#[test]
fn a_block_that_does_not_end_hides_nothing() {
    let another = "<!-- figures: source -->\n<!-- end -->\n";
    for rest in ["b\n", another] {
        let text = &format!("a\n<!-- times -->\n{rest}");
        assert_eq!(loose::figures(text), [(2, "a block without <!-- end -->".to_owned())]);
    }
}

#[test]
fn a_recorded_run_is_read() {
    let page = "before\n\
        <!-- run: quarry lab run x --out $RUNS/x -->\n\
        `quarry lab run x --out $RUNS/x`, 2026-01-02:\n\n\
        2 CPUs (A, family 1, virtual machine), Linux 6.1, glibc 2.36, load 0.1\n\
        * mimalloc: libmimalloc.so.2.0, libmimalloc2.0 2.0.9+ds-2\n\
        2 samples.\n\n\
        | ns   | mimalloc |\n|------|----------|\n| pair |      8.9 |\n\n\
        Held later:\n\n\
        | MiB   | mimalloc |\n|-------|----------|\n| burst |       66 |\n\
        <!-- end -->\n";
    let run = Run::parse(page, "quarry lab run x").expect("a run");
    assert_eq!(run.command, "quarry lab run x");
    assert_eq!(
        (run.date.as_str(), run.machine.as_str()),
        ("2026-01-02", "2 CPUs (A, family 1, virtual machine)")
    );
    assert_eq!(run.version("mimalloc").as_deref(), Some("2.0.9"));
    assert_eq!(run.version("glibc").as_deref(), Some("2.36"));
    assert_eq!(run.cell("ns", "pair", "mimalloc"), Ok("8.9"));
    assert_eq!(run.cell("Held later", "burst", "mimalloc"), Ok("66"));
    assert!(run.cell("ns", "burst", "mimalloc").is_err());
    assert!(Run::parse(page, "quarry lab run y").is_err());
}

#[test]
fn blocks_are_filled_with_their_indent_and_need_an_end() {
    let records = records();
    let filled = fill("* a\n  <!-- figures: source -->\n  <!-- end -->\nb\n", &records).unwrap();
    let lines: Vec<&str> = filled.lines().collect();
    assert!(lines[2].starts_with("  `make peers`, then `quarry lab run peers`: "), "{filled}");
    assert_eq!(lines[3..], ["  <!-- end -->", "b"]);
    assert!(fill("<!-- figures: source -->\n", &records).is_err());
    assert!(fill("<!-- figures: nothing -->\n<!-- end -->\n", &records).is_err());
}

#[test]
fn numbers_are_read_inverted_and_shown() {
    let figure = Figure::parse("2.000 [1.600, 4.00] *").expect("a figure");
    assert_eq!(figure.inverse(), Figure { centre: 0.5, low: 0.25, high: 0.625 });
    assert_eq!(figure.inverse().shown(), "0.50 [0.25, 0.62]");
    let alone = Figure::parse("2.000").expect("a figure of too few samples");
    assert_eq!(alone.inverse(), Figure { centre: 0.5, low: 0.0, high: f64::INFINITY });
    assert_eq!(alone.shown(), "2.00");
    assert_eq!(Figure::parse("no ratio"), None);
    let shown = [127.4, 12.94, 1.0, 0.445, 0.0612, 0.00787].map(short);
    assert_eq!(shown, ["127", "12.9", "1.00", "0.45", "0.061", "0.0079"]);
    assert!((geometric_mean(&[2.0, 16.0, 16.0]) - 8.0).abs() < 1e-9);
}
