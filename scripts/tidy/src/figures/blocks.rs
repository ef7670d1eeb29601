//! The text of each marked block of a page, written from the recorded runs.

use super::number::{Figure, geometric_mean, short};
use super::record::{Run, Table, with_records};
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// The recorded runs.
pub struct Records {
    peers: Run,
    /// The memory that allocators hold after everything was freed.
    idle: Run,
}

impl Records {
    /// Reads the runs from the pages below `root`.
    ///
    /// # Errors
    /// A page that cannot be read, or that holds no such run.
    pub fn read(root: &Path) -> Result<Self, String> {
        let run = |page: &str, command: &str| {
            let of_page = |error: &dyn Display| format!("{page}: {error}");
            let path = root.join(page);
            let text = fs::read_to_string(&path).map_err(|error| of_page(&error))?;
            let text = with_records(&text, path.parent().unwrap_or(root))?;
            Run::parse(&text, command).map_err(|error| of_page(&error))
        };
        Ok(Self {
            peers: run("docs/results/peers.md", "quarry lab run peers")?,
            idle: run("docs/memory.md", "quarry lab run idle-return")?,
        })
    }
}

/// Columns of the peers' run, with the usual names of the allocators. The run of a machine on which
/// one was not built lacks it.
const PEERS: [(&str, &str); 8] = [
    ("glibc", "glibc"),
    ("jemalloc-new", "jemalloc"),
    ("tcmalloc", "gperftools"),
    ("google-tcmalloc", "google/tcmalloc"),
    ("mimalloc2", "mimalloc"),
    ("mimalloc3", "mimalloc"),
    ("snmalloc", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
];

/// The second copy of Quarry; its difference from the first copy is the noise.
const COPY: &str = "quarry A/A";

/// Lines of README.md: the title, the table, and the groups whose mean the line shows.
const SUMMARY: [(&str, &str, &[&str]); 4] = [
    (
        "pairs and batches, time",
        "time / quarry",
        &["pairs (mean)", "pairs in other forms (mean)", "batches of 1,000 (mean)"],
    ),
    (
        "threads, time",
        "time / quarry",
        &["producer / consumer (mean)", "servers and mixed stress (mean)", "phases"],
    ),
    ("real programs, CPU time", "CPU / quarry", &["programs (mean)"]),
    ("peak memory", "peak RSS / quarry", &["all (mean)"]),
];

/// Lines of docs/performance.md: the title, the table, the row.
const GROUPS: [(&str, &str, &str); 14] = [
    ("one `malloc`, then its `free`", "time / quarry", "pairs (mean)"),
    ("`malloc` and `free` in other forms", "time / quarry", "pairs in other forms (mean)"),
    ("batches of 1,000 objects", "time / quarry", "batches of 1,000 (mean)"),
    ("replacing one of 10,000 objects", "time / quarry", "working set of 10,000 (mean)"),
    ("one thread allocates, another frees", "time / quarry", "producer / consumer (mean)"),
    ("servers and mixed stress", "time / quarry", "servers and mixed stress (mean)"),
    ("threads whose traffic changes", "time / quarry", "phases"),
    ("`realloc` that grows", "time / quarry", "realloc (mean)"),
    ("`calloc`", "time / quarry", "calloc (mean)"),
    ("large blocks", "time / quarry", "large blocks (mean)"),
    ("a short-lived thread", "time / quarry", "thread"),
    ("starting `true`, bash, python3", "time / quarry", "start of a small process (mean)"),
    ("real programs", "CPU / quarry", "programs (mean)"),
    ("peak memory of all the work", "peak RSS / quarry", "all (mean)"),
];

/// Maximum number of characters in a line of prose, as in all documents.
const COLUMNS: usize = 120;

/// Number of slowest workloads that docs/performance.md names.
const SLOWEST: usize = 10;

/// The text of the block `name`.
///
/// # Errors
/// An unknown name, or a record without what the block needs.
pub fn write(name: &str, records: &Records) -> Result<String, String> {
    let Records { peers, idle } = records;
    match name {
        "source" => Ok(format!("`make peers`, then {}", source(peers))),
        "summary" => summary(peers),
        "idle" => idle_return(idle),
        "groups" => groups(peers),
        "sides" => sides(peers),
        "targets" => targets(peers),
        "slowest" => slowest(peers),
        "held" => held(peers),
        _ => Err(format!("no block is called '{name}'")),
    }
}

fn source(run: &Run) -> String {
    format!("`{}`: {}, {}.", run.command, run.machine, run.date)
}

/// The words of `text`; a code span is one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_span = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(span) if in_span => *span += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
        in_span ^= word.matches('`').count() % 2 == 1;
    }
    words
}

/// `text` in lines of at most [`COLUMNS`], all but the first one after `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            *line += &word;
        } else if line.chars().count() + 1 + word.chars().count() <= COLUMNS {
            *line += &format!(" {word}");
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n") + "\n"
}

fn figure(run: &Run, table: &str, row: &str, column: &str) -> Result<Figure, String> {
    let cell = run.cell(table, row, column)?;
    Figure::parse(cell).ok_or_else(|| format!("no figure: {cell}"))
}

/// The usual name of the column `allocator`, with its version.
fn named(run: &Run, allocator: &str) -> Result<String, String> {
    let version = run.version(allocator).ok_or_else(|| format!("no version of {allocator}"))?;
    let known = PEERS.iter().find(|(column, _)| *column == allocator);
    Ok(format!("{} {version}", known.map_or(allocator, |(_, name)| name)))
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let body: String = rows.iter().map(|row| line(row)).collect();
    line(head) + &rule + &body
}

/// The head of a table with a column for each of `peers`, and one after them.
fn head(run: &Run, first: &str, peers: &[&str], last: &str) -> Result<Vec<String>, String> {
    let mut cells = vec![first.to_owned()];
    for peer in peers {
        cells.push(named(run, peer)?);
    }
    cells.push(last.to_owned());
    Ok(cells)
}

fn columns(run: &Run) -> Vec<&'static str> {
    let there = PEERS.iter().filter(|(column, _)| run.version(column).is_some());
    there.map(|(column, _)| *column).collect()
}

fn summary(run: &Run) -> Result<String, String> {
    // mimalloc 3 stands for mimalloc 2 too, so that the table is no wider than a screen.
    let peers: Vec<&str> = columns(run).into_iter().filter(|peer| *peer != "mimalloc2").collect();
    let mut rows = Vec::new();
    for (title, from, groups) in SUMMARY {
        let mut cells = vec![title.to_owned()];
        for column in peers.iter().chain([&COPY]) {
            let figures = groups.iter().map(|row| figure(run, from, row, column));
            let centres = figures.map(|figure| Ok(figure?.inverse().centre));
            cells.push(short(geometric_mean(&centres.collect::<Result<Vec<_>, String>>()?)));
        }
        rows.push(cells);
    }
    Ok(table(&head(run, "Quarry / peer", &peers, "a copy of Quarry")?, &rows))
}

fn groups(run: &Run) -> Result<String, String> {
    let peers = columns(run);
    let mut rows = Vec::new();
    for (title, from, row) in GROUPS {
        let mut cells = vec![title.to_owned()];
        for peer in &peers {
            cells.push(short(figure(run, from, row, peer)?.inverse().centre));
        }
        cells.push(figure(run, from, row, COPY)?.inverse().shown());
        rows.push(cells);
    }
    Ok(table(&head(run, "Quarry / peer", &peers, "a copy of Quarry [95 %]")?, &rows))
}

/// The groups in which whole intervals say that Quarry is below every peer, or a peer below Quarry.
fn sides(run: &Run) -> Result<String, String> {
    let (mut better, mut worse) = (Vec::new(), Vec::new());
    for (title, from, row) in GROUPS {
        let figures: Result<Vec<_>, _> =
            columns(run).into_iter().map(|peer| figure(run, from, row, peer)).collect();
        let figures = figures?;
        if figures.iter().all(|figure| figure.low > 1.0) {
            better.push(title);
        } else if figures.iter().any(|figure| figure.high < 1.0) {
            worse.push(title);
        }
    }
    let better = format!("* Quarry is below every peer: {}", better.join("; "));
    let worse = format!("* At least one peer is below Quarry: {}", worse.join("; "));
    Ok(wrapped(&better, "  ") + &wrapped(&worse, "  "))
}

/// The paragraph on freed memory; its amount and its time come from the title of the table.
fn idle_return(run: &Run) -> Result<String, String> {
    const COLUMN: &str = "resident above live";
    let all_freed = |table: &&Table| table.title.contains("all freed");
    let held = run.tables.iter().find(all_freed).ok_or("no table of what was all freed")?;
    let (amount, _) = held.title.split_once(" of objects").ok_or("no amount")?;
    let later = held.title.split("held ").nth(1).and_then(|rest| rest.split(" after").next());
    let later = later.ok_or("no time after the last free")?;
    let of = |row| held.cell(row, COLUMN).ok_or_else(|| format!("nothing held by {row}"));
    let tuned = run.allocators.iter().find(|(name, _)| name == "jemalloc tuned");
    let options = tuned.and_then(|(_, is)| is.split("MALLOC_CONF=").nth(1)).ok_or("not tuned")?;
    let on = |row, name| {
        let version = run.version(row).ok_or_else(|| format!("no version of {row}"))?;
        Ok::<_, String>(format!("{} on {name} {version}", of(row)?))
    };
    let text = format!(
        "**Memory goes back.** A program allocates {amount}, frees all of it in random order, and \
         then does nothing. After {later} it holds **{} MiB** more than before on Quarry, {}, {} \
         ({} with `{options}`), {}, {} and {}. {}",
        of("quarry")?,
        on("glibc", "glibc")?,
        on("jemalloc-new", "jemalloc")?,
        of("jemalloc tuned")?,
        on("tcmalloc", "gperftools")?,
        on("google-tcmalloc", "google/tcmalloc")?,
        on("mimalloc3", "mimalloc")?,
        source(run),
    );
    Ok(wrapped(&text, ""))
}

/// The usual name of a peer in the table of targets.
fn known(peer: &str) -> String {
    PEERS.iter().find(|(column, _)| *column == peer).map_or_else(
        || peer.to_owned(),
        |(column, name)| match column.strip_prefix(name) {
            Some(generation) if generation.starts_with(char::is_numeric) => {
                format!("{name} {generation}")
            }
            _ => (*name).to_owned(),
        },
    )
}

fn targets(run: &Run) -> Result<String, String> {
    let all = run.table("work")?;
    let mut rows = Vec::new();
    let mut counts = Vec::new();
    for verdict in ["met", "missed", "unclear"] {
        let before = rows.len();
        // A verdict can have a reason behind it: "unclear: 64 of 66 workloads".
        let is_so = |row: &&Vec<String>| {
            all.cell(&row[0], "verdict").is_some_and(|it| it.starts_with(verdict))
        };
        for row in all.rows.iter().filter(is_so) {
            let of = |column| all.cell(&row[0], column).unwrap_or_default().to_owned();
            let peer = known(&of("peer"));
            let peer = match of("against").as_str() {
                "each" => format!("{peer}, the nearest"),
                "the best" if peer.starts_with("best") => "the best of each".to_owned(),
                "the best" => format!("{peer}, the best"),
                _ => peer,
            };
            rows.push(vec![
                row[0].clone(),
                of("quarry / peer [95 %]"),
                peer,
                of("at most"),
                of("verdict"),
            ]);
        }
        counts.push(format!("{} {verdict}", rows.len() - before));
    }
    let head = ["work", "Quarry / peer [95 %]", "peer", "aim", "verdict"].map(str::to_owned);
    Ok(format!(
        "**{} targets were set beforehand: {}.**\n\n{}",
        rows.len(),
        counts.join(", "),
        table(&head, &rows)
    ))
}

fn slowest(run: &Run) -> Result<String, String> {
    let mut found = Vec::new();
    for from in ["time / quarry", "CPU / quarry"] {
        for row in run.table(from)?.rows.iter().filter(|row| !row[0].ends_with("(mean)")) {
            for peer in columns(run) {
                found.push((figure(run, from, &row[0], peer)?, row[0].clone(), peer));
            }
        }
    }
    found.sort_by(|one, other| one.0.centre.total_cmp(&other.0.centre));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (figure, row, peer) in found {
        if rows.len() < SLOWEST && rows.iter().all(|kept| kept[0] != row) {
            rows.push(vec![row, known(peer), figure.inverse().shown()]);
        }
    }
    let head = ["work", "the fastest peer", "Quarry / peer [95 %]"].map(str::to_owned);
    Ok(table(&head, &rows))
}

/// Resident memory of `sleep` on each allocator. [`idle_return`] writes what is held after frees.
fn held(run: &Run) -> Result<String, String> {
    let peers = columns(run);
    let mut cells = vec!["`sleep`, KiB".to_owned()];
    for column in peers.iter().chain([&"quarry"]) {
        let cell = run.cell("Resident memory of `sleep`", "small-process", column)?;
        cells.push(cell.to_owned());
    }
    Ok(table(&head(run, "resident memory", &peers, "Quarry")?, &[cells]))
}
