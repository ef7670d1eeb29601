//! SQLite with its own page cache, and with Quarry's: the program `quarry-sqlite-load`, where it
//! is, and how its output is read.
//!
//! ```text
//! budget      many databases under one budget, and the bytes that make all processes equally large
//! hot         one database that fits into the cache
//! truncate    a million cached pages that are freed at once
//! one_budget  a heap that breathes beside the page cache, without SQLite
//! ```

pub(super) mod budget;
pub(super) mod hot;
pub(super) mod one_budget;
pub(super) mod truncate;

use super::plan::*;
use quarry_compare::companion;
use quarry_harness::launch::end_of;
use quarry_harness::results::{Against, Over, Relation, Target};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program's name; the file is beside the command `quarry`.
const NAME: &str = "quarry-sqlite-load";
/// The program's name for Quarry's page cache.
const QUARRY: &str = "quarry";

/// The program's page caches, with descriptions.
const CACHES: [(&str, &str); 7] = [
    (QUARRY, "Quarry's page cache and heap; SQLite without SQLITE_ENABLE_MEMORY_MANAGEMENT"),
    ("separate", "SQLite's own, a cache for each connection; without that flag"),
    (
        "shared",
        "SQLite's own, one group over SQLITE_CONFIG_PAGECACHE, with a mutex; with that flag",
    ),
    ("shared-single", "the same group without a mutex, for one thread; without that flag"),
    ("soft-limit", "SQLite's own, one group under sqlite3_soft_heap_limit64; with that flag"),
    (
        "managed",
        "SQLite's own, a cache for each connection; with that flag, as rusqlite's `bundled`",
    ),
    ("default", "SQLite's own, 2,000 KiB for each connection; without that flag"),
];

/// The variants that the user has chosen among `known`; the first of `known` is the usual baseline.
fn lineup<D: Defaults>(of: &Common<D>, known: &[(&str, &str)]) -> Result<(Variants, Vec<String>)> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let find = |name: &String| match known.iter().find(|(known, _)| known == name) {
        Some((_, what)) => Ok((name.clone(), Variant::new(name, what))),
        None => Err(nearest::unknown("variant", name, &names)),
    };
    Variants::with_copy(of, of.variants.iter().map(find).collect::<Result<_>>()?, names[0])
}

/// The metric of the targets.
const TIME: &str = "time";

/// Quarry's time in relation to that of one of the other page caches.
fn target(what: &str, workload: &str, peer: &str, at_most: f64) -> Target {
    Target {
        work: what.to_owned(),
        workloads: vec![workload.to_owned()],
        metric: TIME.to_owned(),
        against: Against::Each(vec![peer.to_owned()]),
        over: Over::EachWorkload,
        relation: Relation::Ratio,
        at_most,
    }
}

/// Prints a table of the variants for each number of threads.
fn print_by_threads(run: &Run, workload: &str, variants: &str, out: &mut dyn Write) -> Result<()> {
    let mut one = run.clone();
    for &tasks in &run.meta.tasks {
        one.meta.tasks = vec![tasks];
        let table = by_variant(&one, workload, variants).text();
        writeln!(out, "Medians, {}:\n\n{table}\n", counted(tasks, "thread"))?;
    }
    Ok(())
}

struct LoadProgram {
    file: PathBuf,
    /// Checksums of earlier look-ups, by the options of these look-ups.
    checksums: RefCell<BTreeMap<String, u64>>,
}

impl LoadProgram {
    /// Finds the program: the file that QUARRY_SQLITE_LOAD names, or the file beside this
    /// executable.
    fn find() -> Result<Self> {
        let file = companion::find(NAME, "QUARRY_SQLITE_LOAD")?;
        Ok(Self { file, checksums: RefCell::default() })
    }

    /// Creates the databases, unless they exist.
    fn create(&self, folder: &Path, databases: u64, bytes: u64) -> Result<()> {
        let options = [format!("--databases={databases}"), format!("--bytes={bytes}")];
        let mut command = self.command("create");
        self.output(command.arg(folder).args(options)).map(drop)
    }

    /// Looks rows up, and compares the checksum with that of earlier equal look-ups.
    fn lookups(
        &self,
        cache: &str,
        folder: &Path,
        budget: u64,
        options: &[String],
    ) -> Result<Measurement> {
        let mut command = self.command("lookups");
        command.arg(cache).arg(folder).arg(format!("--budget={budget}")).args(options);
        let figures = self.figures(&mut command)?;
        let checksum = number(&figures, "checksum")?;
        let mut known = self.checksums.borrow_mut();
        let first = *known.entry(options.join(" ")).or_insert(checksum);
        if checksum != first {
            bail!("a wrong result: the bytes looked up differ from those of the first sample");
        }
        measurement(&figures, "lookups", cache)
    }

    /// Fills a cache with `pages` pages, and removes them in this way while another thread works.
    fn truncate(&self, cache: &str, way: &str, pages: u64) -> Result<Measurement> {
        let mut command = self.command("truncate");
        let figures = self.figures(command.arg(cache).arg(way).arg(format!("--pages={pages}")))?;
        measurement(&figures, "pages", cache)
    }

    /// Grows and shrinks a heap beside a page cache.
    fn breathe(&self, division: &str, options: &[String]) -> Result<Measurement> {
        let figures = self.figures(self.command("breathe").arg(division).args(options))?;
        measurement(&figures, "lookups", division)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.file);
        launch::preload_into(&mut command, None);
        command.arg(verb);
        command
    }

    fn output(&self, command: &mut Command) -> Result<Output> {
        let output = command.output().with_context(|| self.file.display().to_string())?;
        if !output.status.success() {
            bail!(end_of(&output));
        }
        Ok(output)
    }

    fn figures(&self, command: &mut Command) -> Result<Map<String, Value>> {
        let output = self.output(command)?;
        serde_json::from_slice(&output.stdout).context("unreadable figures")
    }
}

fn number(figures: &Map<String, Value>, name: &str) -> Result<u64> {
    figures.get(name).and_then(Value::as_u64).with_context(|| format!("no figure {name}"))
}

/// Reads the program's figures; `operations` names the figure that counts operations.
fn measurement(figures: &Map<String, Value>, operations: &str, cache: &str) -> Result<Measurement> {
    let ns = number(figures, "ns")?;
    let served_by = format!("{NAME} {cache}");
    let mut all = Measurement::of_window(number(figures, operations)?, ns, ns, 0, &served_by);
    all.verified = number(figures, "verified")?;
    for (name, value) in figures {
        match (value.as_u64(), value.as_f64()) {
            (Some(count), _) => drop(all.counters.insert(name.clone(), count)),
            (None, Some(figure)) => drop(all.figures.insert(name.clone(), figure)),
            (None, None) => {}
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn figures_become_a_measurement() {
        let text = r#"{"lookups":5,"ns":20,"verified":5,"per_second":2.5,"checksum":7}"#;
        let figures: Map<String, Value> = serde_json::from_str(text).unwrap();
        let measurement = measurement(&figures, "lookups", QUARRY).unwrap();
        assert_eq!((measurement.operations, measurement.wall_ns, measurement.verified), (5, 20, 5));
        assert_eq!(measurement.figure("per_second"), Some(2.5));
        assert_eq!(measurement.figure("checksum"), Some(7.0));
        assert!(super::measurement(&figures, "pages", QUARRY).is_err());
    }

    struct Any;

    impl Defaults for Any {
        const VARIANTS: &'static str = "";
        const SAMPLES: &'static str = "1";
        const QUICK_SAMPLES: &'static str = "1";
    }

    #[test]
    fn an_unknown_page_cache_is_told() {
        let lineup = |variants: &str| {
            let command = Common::<Any>::augment_args(Command::new("any"));
            let matches = command.get_matches_from(["any", "--variants", variants]);
            super::lineup(&Common::<Any>::from_arg_matches(&matches).unwrap(), &CACHES)
        };
        let (Variants { all, baseline }, subjects) = lineup("shared,quarry").unwrap();
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["shared", "quarry", "quarry A/A"]);
        assert_eq!((baseline.as_str(), subjects[2].as_str()), (QUARRY, QUARRY));
        assert!(lineup("seperate").is_err());
    }
}
