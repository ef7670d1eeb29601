//! The experiments, one file each, and their registry.
//!
//! An experiment is a type whose fields are its options ([`Plan`](plan::Plan)). It turns the
//! options into an [`Experiment`](quarry_harness::experiment::Experiment), and prints the tables of
//! a run. A new experiment needs a file and a line in [`OWN`].
//!
//! The smallest experiment is `Doubling` in the tests below. An experiment with sample processes of
//! its own also implements `Work`. The replay of a kernel path needs only a table in the folder of
//! its document (`lab/documents`).

mod cast;
mod churn;
mod containment;
mod empty;
mod fleet;
mod growth;
mod idle_return;
mod kernel;
mod malloc_patterns;
mod one_budget;
mod peers;
mod plan;
mod programs;
mod real_programs;
mod replay;
mod scaling;
mod start_up;

use anyhow::Result;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use kernel::Kernel;
pub(crate) use kernel::finding as kernel_counts;
use plan::{Entry, Lab, Plan, Ready, Staged};
use quarry_compare::FindLibrary;
use quarry_harness::launch::WorkKind;
use quarry_harness::table::{Table, words};
use std::io::Write;
use std::sync::LazyLock;

/// The experiments that are not a document's.
const OWN: &[Entry] = &[
    Entry::of::<malloc_patterns::MallocPatterns>("~12 s"),
    Entry::of::<fleet::Fleet>("~2 s"),
    Entry::of::<peers::Peers>("~40 s"),
    Entry::of::<real_programs::RealPrograms>("~15 s"),
    Entry::of::<programs::Programs>("~10 min"),
    Entry::of::<idle_return::IdleReturn>("~50 s"),
    Entry::of::<growth::Growth>("~2 s"),
    Entry::of::<start_up::StartUp>("~1 s"),
    Entry::of::<churn::Churn>("~2 s"),
    Entry::of::<kernel::Kernel>("~6 s"),
    Entry::of::<containment::Containment>("~4 min"),
    Entry::of::<scaling::Scaling>("~6 s"),
    Entry::of::<one_budget::OneBudget>("~2 s"),
    Entry::of::<empty::Empty>("~1 s"),
];

/// All experiments.
static REGISTRY: LazyLock<Vec<Entry>> =
    LazyLock::new(|| OWN.iter().copied().chain(replay::entries()).collect());

/// An experiment that the user has chosen, with its options.
pub struct Chosen(Ready);

impl Chosen {
    pub(crate) fn run(self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        (self.0)(&mut Lab { find_library, out })
    }

    fn among(registry: &'static [Entry], matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, options) = matches.subcommand().expect("clap asks for a subcommand");
        let entry = registry.iter().find(|entry| entry.name == name);
        let entry = entry.expect("clap accepts no other subcommand");
        let (name, is_replay) = (entry.name, !OWN.iter().any(|own| own.name == entry.name));
        if is_replay && Kernel::is_among(options) {
            let options = options.clone();
            return Ok(Self(Staged::ready(move |lab| {
                Kernel::in_place_of(name, &options)?.stage(lab).map(Some)
            })));
        }
        Ok(Self((entry.parse)(name, options)?))
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::among(&REGISTRY, matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Chosen {
    fn augment_subcommands(command: Command) -> Command {
        // Deferred until this subcommand is parsed. Other commands, above all sample processes,
        // need not build the options of all experiments.
        command.defer(|command| with_entries(command, &REGISTRY))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        REGISTRY.iter().any(|entry| entry.name == name)
    }
}

fn with_entries(command: Command, registry: &[Entry]) -> Command {
    let command = command.subcommand_required(true).arg_required_else_help(true);
    registry.iter().fold(command, |command, entry| command.subcommand(entry.command()))
}

pub(crate) fn list() -> String {
    let row = |entry: &Entry| {
        let about = entry.command().get_about().map(ToString::to_string).unwrap_or_default();
        vec![words(entry.name), words(entry.quick), words(about)]
    };
    let head = ["experiment", "--quick", "about"].map(words).into();
    format!("{}\n", Table { head, rows: REGISTRY.iter().map(row).collect() }.plain())
}

pub(crate) fn works() -> impl Iterator<Item = WorkKind> {
    // Each sample process comes here, so this reads no document.
    OWN.iter().filter_map(|entry| entry.work).chain([replay::WORK])
}

#[cfg(test)]
mod tests {
    use super::plan::{Plan, Staged};
    use super::*;
    use anyhow::Context;
    use clap::Args;
    use quarry_harness::options::{Common, Defaults};
    use quarry_harness::results::{Measurement, Variant, Verify, Workload};
    use quarry_harness::sampler::SampleKey;

    #[test]
    fn every_experiment_says_what_it_is() {
        let text = list();
        assert!(text.contains("malloc-patterns") && text.contains("~50 s    The memory"), "{text}");
        assert!(text.lines().all(|line| line.len() > 15), "{text}");
        assert!(REGISTRY.iter().all(|it| it.quick.starts_with('~')), "{text}");
    }

    #[test]
    fn names_are_unique() {
        for (index, entry) in REGISTRY.iter().enumerate() {
            assert!(REGISTRY[..index].iter().all(|it| it.name != entry.name), "{}", entry.name);
        }
    }

    /// Compares a number with its double: the smallest complete experiment.
    #[derive(Args)]
    struct Doubling {
        #[command(flatten)]
        common: Common<Doubling>,
        #[arg(long, default_value = "21")]
        number: u64,
    }

    impl Defaults for Doubling {
        const VARIANTS: &'static str = "once,twice";
        const SAMPLES: &'static str = "3";
        const QUICK_SAMPLES: &'static str = "1";
    }

    impl Plan for Doubling {
        const NAME: &'static str = "doubling";

        fn stage(self, _: &mut Lab<'_>) -> Result<Staged> {
            let variants = self.common.variants.iter().map(|name| Variant::new(name, "")).collect();
            let workloads = vec![Workload::new("number", Verify::Exactly(1))];
            let number = self.number;
            let sampler = move |key: SampleKey| {
                let ns = number * (key.variant as u64 + 1);
                Ok(Measurement { verified: 1, ..Measurement::of_window(1, ns, ns, 0, "x") }.into())
            };
            let plan = self.common.experiment(Self::NAME, variants, "once", workloads, sampler)?;
            Ok(Staged::new(plan, |run, out| Ok(writeln!(out, "{} samples", run.samples.len())?)))
        }
    }

    const ONE_LINE: &[Entry] = &[Entry::of::<Doubling>("~0 s")];

    #[test]
    fn a_new_experiment_is_one_line() {
        let command = with_entries(Command::new("run"), ONE_LINE);
        assert!(command.clone().try_get_matches_from(["run", "tripling"]).is_err());
        let matches = command.try_get_matches_from(["run", "doubling", "--number=4", "--quick"]);
        let chosen = Chosen::among(ONE_LINE, &matches.unwrap()).unwrap();
        let mut out = Vec::new();
        chosen.run(&|| None.context("no library"), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1 sample of each, ") && text.ends_with("4 samples\n"), "{text}");
    }
}
