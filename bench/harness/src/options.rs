//! The options of every experiment, with defaults of each experiment, and their values.

use crate::experiment::Experiment;
use crate::results::{self, Variant, Workload};
use crate::sampler::Sampler;
use crate::shard::Shard;
use crate::usage::Usage;
use crate::{destination, nearest};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

/// The usual `--samples`: enough to tell a difference of 3 % from average noise.
pub const USUAL_SAMPLES: &str = "50";

/// The defaults of an experiment, as a user would write them.
pub trait Defaults: Send + Sync + 'static {
    /// `--variants`.
    const VARIANTS: &'static str;
    /// `--tasks`.
    const TASKS: &'static str = "1";
    /// `--tasks` with `--quick`.
    const QUICK_TASKS: &'static str = Self::TASKS;
    /// `--samples`.
    const SAMPLES: &'static str;
    /// `--samples` with `--quick`.
    const QUICK_SAMPLES: &'static str;
    /// Maximum number of concurrent tasks that the experiment can run.
    const MOST_TASKS: u32 = 1;
}

/// Options of every experiment.
#[derive(Args)]
pub struct Common<D: Defaults> {
    /// The variants that are compared, in the order of tables.
    #[arg(long, value_delimiter = ',', value_name = "A,B", default_value = D::VARIANTS)]
    pub variants: Vec<String>,
    /// The variant that the others are compared with [default: quarry, else the first].
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Numbers of tasks that run the workload at once; they are measured in turn.
    #[arg(long, value_delimiter = ',', value_name = "N,M", default_value = D::TASKS,
          default_value_if("quick", "true", Some(D::QUICK_TASKS)),
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub tasks: Vec<u32>,
    /// Samples of each variant, besides a warm-up; below 6 there are no intervals.
    #[arg(long, value_name = "N", default_value = D::SAMPLES,
          default_value_if("quick", "true", Some(D::QUICK_SAMPLES)),
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub samples: u32,
    /// Results directory for every raw sample and the facts about the machine. It must be new or
    /// empty. Without it only tables are printed.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// A short run as a trial, with smaller numbers wherever none are given.
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Take only this part of the run, such as 2/8, into a directory of its own in --out; `quarry
    /// lab merge` joins the parts.
    #[arg(long, value_name = "K/N", requires_all = ["seed", "out"])]
    pub shard: Option<Shard>,
    #[arg(skip)]
    defaults: PhantomData<D>,
}

impl<D: Defaults> Common<D> {
    /// Returns the baseline among the variants `present`: the named one, else `usual`, else the
    /// first.
    ///
    /// # Errors
    /// If the named variant is not present, or no variant is.
    pub fn baseline<'a>(&self, present: &[&'a str], usual: &str) -> Result<&'a str> {
        let named = |wanted: &str| present.iter().copied().find(|name| *name == wanted);
        if let Some(name) = &self.baseline {
            return named(name)
                .ok_or_else(|| nearest::unknown("variant --baseline", name, present));
        }
        let found = named(usual).or_else(|| present.first().copied());
        found.context("--variants: none of them is there")
    }

    /// Makes an experiment from these options, with a warm-up round and time per operation.
    ///
    /// # Errors
    /// A number of tasks that the experiment cannot run.
    pub fn experiment(
        &self,
        name: &str,
        variants: Vec<Variant>,
        baseline: &str,
        workloads: Vec<Workload>,
        sampler: impl Sampler + 'static,
    ) -> Result<Experiment> {
        let mut experiment = Experiment::new(name, variants, workloads, sampler);
        let meta = &mut experiment.meta;
        meta.baseline = baseline.to_owned();
        meta.tasks = self.tasks()?;
        meta.rounds = self.samples;
        meta.seed = self.seed.unwrap_or(meta.seed);
        Ok(Experiment { shard: self.shard, out: self.out.clone(), ..experiment })
    }

    /// Checks options that matter only after programs have been made ready, which takes a while.
    ///
    /// # Errors
    /// A number of tasks that the experiment cannot run, or an unusable results directory.
    pub fn check_early(&self) -> Result<()> {
        self.tasks()?;
        match (&self.out, self.shard) {
            (None, _) => Ok(()),
            (Some(place), None) => results::prepare(place),
            (Some(place), Some(_)) => destination::folder("--out", place),
        }
    }

    /// The numbers of tasks without repetitions.
    ///
    /// # Errors
    /// A number that the experiment cannot run.
    pub fn tasks(&self) -> Result<Vec<u32>> {
        let most = D::MOST_TASKS;
        if let Some(number) = self.tasks.iter().find(|it| **it > most) {
            bail!(Usage(format!("--tasks {number}: this experiment runs at most {most}")));
        }
        let is_first = |(at, number): &(usize, &u32)| !self.tasks[..*at].contains(number);
        Ok(self.tasks.iter().enumerate().filter(is_first).map(|(_, number)| *number).collect())
    }
}

/// Parses a length of time with its unit, above 0; the error names the accepted form.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("accepted: a number with its unit, such as 500ms, 30s or 5m".to_owned()),
    }
}

/// Checks that the `index`th of the chosen variants was not chosen before.
///
/// # Errors
/// A usage error: it is named twice.
pub fn check_once(variants: &[String], index: usize) -> Result<()> {
    let name = &variants[index];
    if variants[..index].contains(name) {
        bail!(Usage(format!("--variants: {name} is named twice")));
    }
    Ok(())
}

/// Selects those of `all` whose names begin with a prefix; without prefixes, the usual ones.
///
/// Fails on a prefix with which no name begins; the message uses `what` as the word for a name.
pub fn named<T: ToString>(
    all: Vec<T>,
    prefixes: &[String],
    what: &str,
    is_usual: impl Fn(&T) -> bool,
) -> Result<Vec<T>> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    for prefix in prefixes {
        if !names.iter().any(|name| name.starts_with(prefix)) {
            return Err(nearest::unknown(what, prefix, &names));
        }
    }
    let is_wanted = |(it, name): &(T, String)| match prefixes {
        [] => is_usual(it),
        prefixes => prefixes.iter().any(|prefix| name.starts_with(prefix)),
    };
    Ok(all.into_iter().zip(names).filter(is_wanted).map(|(it, _)| it).collect())
}

/// Selects the names in `all` that are in `chosen`; all names if `chosen` is empty.
///
/// Fails on an unknown name; the message uses `what` as the word for a name.
pub fn exactly<'a>(all: &[&'a str], chosen: &[String], what: &str) -> Result<Vec<&'a str>> {
    if let Some(name) = chosen.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(nearest::unknown(what, name, all));
    }
    let is_chosen = |name: &&str| chosen.is_empty() || chosen.iter().any(|it| it == name);
    Ok(all.iter().copied().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    struct Two;

    impl Defaults for Two {
        const VARIANTS: &'static str = "a,b";
        const SAMPLES: &'static str = "20";
        const QUICK_SAMPLES: &'static str = "3";
        const MOST_TASKS: u32 = 4;
    }

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        common: Common<Two>,
    }

    fn parse(arguments: &[&str]) -> Common<Two> {
        Cli::try_parse_from([&["x"], arguments].concat()).unwrap().common
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn quick_changes_only_what_is_not_said() {
        assert_eq!((parse(&[]).samples, parse(&[]).variants), (20, owned(&["a", "b"])));
        assert_eq!(parse(&["--quick"]).samples, 3);
        assert_eq!(parse(&["--quick", "--samples=9"]).samples, 9);
        assert!(Cli::try_parse_from(["x", "--samples=0"]).is_err());
    }

    #[test]
    fn the_baseline_is_what_was_named_or_usual_or_first() {
        assert_eq!(parse(&[]).baseline(&["a", "b"], "b").unwrap(), "b");
        assert_eq!(parse(&[]).baseline(&["a", "b"], "c").unwrap(), "a");
        assert_eq!(parse(&["--baseline=b"]).baseline(&["a", "b"], "a").unwrap(), "b");
        let error = parse(&["--baseline=sheet"]).baseline(&["sheaf", "b"], "b").unwrap_err();
        let expected = "no variant --baseline sheet; did you mean sheaf? accepted: sheaf, b";
        assert_eq!(error.to_string(), expected);
        assert!(parse(&[]).baseline(&[], "b").is_err());
    }

    #[test]
    fn names_are_chosen_by_their_beginnings() {
        let of = |prefixes: &[&str]| {
            named(vec!["ab", "ac", "b"], &owned(prefixes), "letter", |it| *it != "ac")
        };
        assert_eq!(of(&[]).unwrap(), ["ab", "b"]);
        assert_eq!(of(&["b", "a"]).unwrap(), ["ab", "ac", "b"]);
        let error = of(&["a", "bc"]).unwrap_err().to_string();
        assert!(error.starts_with("no letter bc; ") && error.ends_with("accepted: ab, ac, b"));
    }

    #[test]
    fn names_are_chosen_exactly() {
        let of = |chosen: &[&str]| exactly(&["ab", "b"], &owned(chosen), "letter");
        assert_eq!(of(&[]).unwrap(), ["ab", "b"]);
        assert_eq!(of(&["b"]).unwrap(), ["b"]);
        assert!(of(&["a"]).unwrap_err().to_string().starts_with("no letter a; "));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        for text in ["", "30", "0s", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tasks_are_what_the_experiment_can_run() {
        assert_eq!(parse(&["--tasks=1,4,1"]).tasks().unwrap(), [1, 4]);
        let error = parse(&["--tasks=8"]).tasks().unwrap_err().to_string();
        assert_eq!(error, "--tasks 8: this experiment runs at most 4");
    }
}
