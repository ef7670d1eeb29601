//! `one-budget`: a heap that grows and shrinks beside readers and writers of the page cache.

use super::plan::*;
use quarry_compare::companion;
use quarry_harness::launch::end_of;
use serde_json::{Map, Value};
use std::path::Path;
use std::process::Command;

/// The program that takes samples; the file is beside the command `quarry`.
const NAME: &str = "quarry-sqlite-load";
const WORK: &str = "breathe";
/// The names by which the program knows the divisions; the first is the usual baseline.
const DIVISIONS: [(&str, &str); 2] = [
    ("one", "heap and page cache in one budget"),
    ("split", "half of the same memory for each: a group of the cache that never gives way"),
];

/// A heap that grows and shrinks beside readers and writers of the page cache.
///
/// Each sample is a fresh process with a limit. Threads read pages at random from a device with
/// four times as many pages as fit; every second thread alters one page in four. Meanwhile the heap
/// grows, by blocks of 1 MiB and of 100 bytes, to three quarters of the memory or until a block is
/// refused; then it shrinks to nothing and begins again. For every read of a page the thread spins
/// for 50 us. Each page's number is checked. An operation is a look-up of a page.
#[derive(Args)]
pub(crate) struct OneBudget {
    #[command(flatten)]
    common: Common<OneBudget>,
    /// The memory of heap and page cache together, in MiB.
    #[arg(long, default_value = "256", default_value_if("quick", "true", Some("32")),
          value_parser = clap::value_parser!(u64).range(16..))]
    mib: u64,
    /// Length of a sample in milliseconds.
    #[arg(long, default_value = "5000", default_value_if("quick", "true", Some("200")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    /// Time of a read of a page, in microseconds.
    #[arg(long, default_value = "50")]
    latency: u64,
}

impl Defaults for OneBudget {
    const VARIANTS: &'static str = "one,split";
    const TASKS: &'static str = "2,8";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 256;
}

impl Plan for OneBudget {
    const NAME: &'static str = "one-budget";

    fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
        self.common.check_early()?;
        let (variants, divisions) = lineup(&self.common)?;
        let program = companion::find(NAME, "QUARRY_SQLITE_LOAD")?;
        let Self { mib, millis, latency, .. } = self;
        let sampler = move |key: SampleKey| {
            let options = [
                format!("--budget={}", mib << 20),
                format!("--readers={}", key.tasks.div_ceil(2)),
                format!("--writers={}", key.tasks / 2),
                format!("--millis={millis}"),
                format!("--latency-us={latency}"),
            ];
            Ok(breathe(&program, &divisions[key.variant], &options)?.into())
        };
        let workloads = workloads([WORK]);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{mib} MiB for heap and cache, {latency} us for each page read.");
        plan.meta.metrics = metrics();
        plan.warm_up = false;
        let plan = plan.option("mib", mib).option("millis", millis).option("latency", latency);
        Ok(Staged::new(plan, |run, out| print(run, out)))
    }
}

fn metrics() -> Vec<Metric> {
    let count = |name: &str, figure: &str| lower(name, "", figure).digits(0);
    vec![
        Metric::rate("look-ups per second").digits(0).primary(),
        Metric::counted("pages read", "page_reads"),
        count("reads refused", "lookups_refused"),
        Metric::new("1 MiB blocks", "", Direction::Higher, "large").digits(0),
        count("of them refused", "large_refused"),
        micros("1 MiB p99.9, us", "large_p999_ns"),
        micros("1 MiB longest, us", "large_longest_ns"),
        count("100 bytes refused", "small_refused"),
        micros("100 bytes p99.9, us", "small_p999_ns"),
        micros("100 bytes longest, us", "small_longest_ns"),
    ]
}

/// The divisions that the user has chosen.
fn lineup<D: Defaults>(of: &Common<D>) -> Result<(Variants, Vec<String>)> {
    let names = DIVISIONS.map(|(name, _)| name);
    let find = |name: &String| match DIVISIONS.iter().find(|(known, _)| known == name) {
        Some((_, what)) => Ok((name.clone(), Variant::new(name, what))),
        None => Err(nearest::unknown("variant", name, &names)),
    };
    Variants::with_copy(of, of.variants.iter().map(find).collect::<Result<_>>()?, names[0])
}

/// Prints a table of the variants for each number of threads.
fn print(run: &Run, out: &mut dyn Write) -> Result<()> {
    let mut one = run.clone();
    for &tasks in &run.meta.tasks {
        one.meta.tasks = vec![tasks];
        let table = by_variant(&one, WORK, "memory").text();
        writeln!(out, "Medians, {}:\n\n{table}\n", counted(tasks, "thread"))?;
    }
    Ok(())
}

/// Grows and shrinks a heap beside a page cache.
fn breathe(program: &Path, division: &str, options: &[String]) -> Result<Measurement> {
    let mut command = Command::new(program);
    launch::preload_into(&mut command, None);
    command.arg("breathe").arg(division).args(options);
    let output = command.output().with_context(|| program.display().to_string())?;
    if !output.status.success() {
        bail!(end_of(&output));
    }
    let figures = serde_json::from_slice(&output.stdout).context("unreadable figures")?;
    measurement(&figures, division)
}

fn number(figures: &Map<String, Value>, name: &str) -> Result<u64> {
    figures.get(name).and_then(Value::as_u64).with_context(|| format!("no figure {name}"))
}

/// Reads the program's figures.
fn measurement(figures: &Map<String, Value>, division: &str) -> Result<Measurement> {
    let ns = number(figures, "ns")?;
    let served_by = format!("{NAME} {division}");
    let mut all = Measurement::of_window(number(figures, "lookups")?, ns, ns, 0, &served_by);
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
        let measurement = measurement(&figures, "one").unwrap();
        assert_eq!((measurement.operations, measurement.wall_ns, measurement.verified), (5, 20, 5));
        assert_eq!(measurement.figure("per_second"), Some(2.5));
        assert_eq!(measurement.figure("checksum"), Some(7.0));
        assert!(super::measurement(&Map::new(), "one").is_err());
    }

    struct Any;

    impl Defaults for Any {
        const VARIANTS: &'static str = "";
        const SAMPLES: &'static str = "1";
        const QUICK_SAMPLES: &'static str = "1";
    }

    #[test]
    fn an_unknown_division_is_told() {
        let lineup = |variants: &str| {
            let command = Common::<Any>::augment_args(Command::new("any"));
            let matches = command.get_matches_from(["any", "--variants", variants]);
            super::lineup(&Common::<Any>::from_arg_matches(&matches).unwrap())
        };
        let (Variants { all, baseline }, subjects) = lineup("split,one").unwrap();
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["split", "one", "one A/A"]);
        assert_eq!((baseline.as_str(), subjects[2].as_str()), ("one", "one"));
        assert!(lineup("spilt").is_err());
    }
}
