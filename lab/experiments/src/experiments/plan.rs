//! The interface between the registry and an experiment: options, preparation, and run. Experiments
//! import all of this file, which also re-exports the types that most of them need.

pub(crate) use anyhow::{Context, Result, bail, ensure};
pub(crate) use clap::Args;
use clap::{ArgMatches, Command};
pub(crate) use quarry_compare::allocators::QUARRY;
pub(crate) use quarry_compare::contenders;
pub(crate) use quarry_compare::contenders::{Contender, OwnWork};
use quarry_compare::{FindLibrary, Interrupt};
use quarry_eras::slab::{slab_names, slab_policy};
pub(crate) use quarry_harness::experiment::Experiment;
pub(crate) use quarry_harness::launch::{Work, WorkKind};
pub(crate) use quarry_harness::options::{Common, Defaults};
pub(crate) use quarry_harness::results::{
    Cell, Direction, Measurement, Metric, Run, Variant, Verify, Workload,
};
pub(crate) use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
pub(crate) use quarry_harness::table::counted;
pub(crate) use quarry_harness::tables::{Group, Matrix, by_variant, targets_of};
pub(crate) use quarry_harness::usage::Usage;
pub(crate) use quarry_harness::{affinity, launch, nearest, options};
pub(crate) use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::{env, fs};

/// The options of an experiment. The doc comment of the type is the experiment's help.
pub(crate) trait Plan: Args + Defaults {
    const NAME: &'static str;
    /// The work of the experiment's sample processes, if they run this executable.
    const WORK: Option<WorkKind> = None;

    /// Makes the experiment ready.
    ///
    /// # Errors
    /// A fault of the options, or the reason why nothing can be measured.
    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged>;
}

pub(crate) struct Lab<'a> {
    pub(crate) find_library: FindLibrary<'a>,
    /// Output for the tables, and for lines on absent variants.
    pub(crate) out: &'a mut dyn Write,
}

impl Lab<'_> {
    /// The present allocators of `--variants`. Prints the names of the absent ones.
    ///
    /// # Errors
    /// A name is unknown, or no allocator is present.
    pub(crate) fn contenders<D: Defaults>(&mut self, of: &Common<D>) -> Result<Vec<Contender>> {
        contenders::find(&of.variants, self.find_library, self.out)
    }

    /// [`contenders`](Self::contenders) with an A/A copy of the baseline. The baseline is `usual`
    /// unless the user names another.
    ///
    /// # Errors
    /// Same as for `contenders`, or the baseline is not among them.
    pub(crate) fn contenders_with_copy<D: Defaults>(
        &mut self,
        of: &Common<D>,
        usual: &str,
    ) -> Result<(Variants, Vec<Contender>)> {
        Variants::of_contenders(of, self.contenders(of)?, usual)
    }
}

/// The variants of a run. An experiment keeps the subject of each, in the same order.
pub(crate) struct Variants {
    pub(crate) all: Vec<Variant>,
    pub(crate) baseline: String,
}

impl Variants {
    /// The baseline is `usual` unless the user names another.
    pub(crate) fn new<D: Defaults>(of: &Common<D>, all: Vec<Variant>, usual: &str) -> Result<Self> {
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        let baseline = of.baseline(&names, usual)?.to_owned();
        Ok(Self { all, baseline })
    }

    /// [`new`](Self::new) with an A/A copy of the baseline at the end.
    pub(crate) fn with_copy<D: Defaults, T: Clone>(
        of: &Common<D>,
        found: Vec<(T, Variant)>,
        usual: &str,
    ) -> Result<(Self, Vec<T>)> {
        let (mut subjects, all): (Vec<T>, _) = found.into_iter().unzip();
        let mut variants = Self::new(of, all, usual)?;
        let is_original = |it: &Variant| it.name == variants.baseline;
        let original = variants.all.iter().position(is_original).unwrap_or(0);
        variants.all.push(variants.all[original].copy());
        subjects.push(subjects[original].clone());
        Ok((variants, subjects))
    }

    /// [`with_copy`](Self::with_copy) for allocators.
    pub(crate) fn of_contenders<D: Defaults>(
        of: &Common<D>,
        mut contenders: Vec<Contender>,
        usual: &str,
    ) -> Result<(Self, Vec<Contender>)> {
        let Self { baseline, .. } = Self::new(of, contenders::variants(&contenders), usual)?;
        contenders::add_copy(&mut contenders, &baseline);
        Ok((Self { all: contenders::variants(&contenders), baseline }, contenders))
    }
}

/// Looks up each of the chosen variants, none of which may be chosen twice.
pub(crate) fn each_once<T>(
    names: &[String],
    mut find: impl FnMut(&str) -> Result<T>,
) -> Result<Vec<T>> {
    let find = |(index, name): (usize, &String)| {
        options::check_once(names, index)?;
        find(name)
    };
    names.iter().enumerate().map(find).collect()
}

/// The chosen slab policies as variants.
pub(crate) fn slab_policies<D: Defaults>(of: &Common<D>, usual: &str) -> Result<Variants> {
    let all = each_once(&of.variants, |name| {
        let known = slab_policy(name).ok_or_else(|| {
            nearest::unknown("variant --variants", name, &slab_names().collect::<Vec<_>>())
        })?;
        Ok(Variant::new(name, known.about))
    })?;
    Variants::new(of, all, usual)
}

/// Makes an experiment from the options that every experiment has.
pub(crate) fn experiment<P: Plan>(
    options: &Common<P>,
    Variants { all, baseline }: Variants,
    workloads: Vec<Workload>,
    sampler: impl Sampler + 'static,
) -> Result<Experiment> {
    options.experiment(P::NAME, all, &baseline, workloads, sampler)
}

/// One group of the workloads, or none if there are no workloads.
pub(crate) fn group(name: &str, workloads: Vec<String>) -> Vec<Group> {
    let group = Group { name: name.to_owned(), workloads };
    if group.workloads.is_empty() { Vec::new() } else { vec![group] }
}

/// One group of all workloads of a run.
pub(crate) fn group_of_all(name: &str, run: &Run) -> Vec<Group> {
    group(name, run.meta.workloads.iter().map(|workload| workload.name.clone()).collect())
}

/// Workloads whose samples verify each operation.
pub(crate) fn workloads(names: impl IntoIterator<Item = impl ToString>) -> Vec<Workload> {
    let workload = |name: String| Workload::new(&name, Verify::PerOperation(1));
    names.into_iter().map(|name| workload(name.to_string())).collect()
}

pub(crate) const MIB: f64 = (1 << 20) as f64;

/// A metric of which less is better.
pub(crate) fn lower(name: &str, unit: &str, figure: &str) -> Metric {
    Metric::new(name, unit, Direction::Lower, figure)
}

/// [`lower`], for a figure in bytes.
pub(crate) fn mib(name: &str, figure: &str) -> Metric {
    lower(name, "MiB", figure).times(1.0 / MIB).digits(1)
}

/// [`lower`], for a figure in nanoseconds.
pub(crate) fn micros(name: &str, figure: &str) -> Metric {
    lower(name, "us", figure).times(1e-3).digits(1)
}

type Print = Box<dyn FnOnce(&Run, &mut dyn Write) -> Result<()>>;

pub(crate) struct Staged {
    experiment: Experiment,
    /// Prints what stands above the machine and the variants.
    first: Option<Print>,
    print: Print,
    interrupt: Option<Rc<Interrupt>>,
    /// Requested programs that fail before any comparison.
    broken: Vec<String>,
    /// Variants whose crashes are findings about them, and do not fail the run.
    pub(crate) peers: Vec<String>,
}

impl Staged {
    pub(crate) fn new(
        experiment: Experiment,
        print: impl FnOnce(&Run, &mut dyn Write) -> Result<()> + 'static,
    ) -> Self {
        let (broken, peers) = (Vec::new(), Vec::new());
        let print = Box::new(print);
        Self { experiment, first: None, print, interrupt: None, broken, peers }
    }

    /// Adds what is printed above the machine and the variants.
    pub(crate) fn first(
        self,
        print: impl FnOnce(&Run, &mut dyn Write) -> Result<()> + 'static,
    ) -> Self {
        Self { first: Some(Box::new(print)), ..self }
    }

    /// Adds the interrupt and the broken programs of an experiment with programs.
    pub(crate) fn of_programs(self, interrupt: Rc<Interrupt>, broken: Vec<String>) -> Self {
        Self { interrupt: Some(interrupt), broken, ..self }
    }

    /// The remaining steps of a command whose options have been parsed. Makes an experiment ready
    /// by `stage` and, if there is anything to measure, runs it.
    pub(crate) fn ready(
        stage: impl FnOnce(&mut Lab<'_>) -> Result<Option<Self>> + 'static,
    ) -> Ready {
        Box::new(|lab| match stage(lab)? {
            Some(staged) if staged.experiment.shard.is_some() => {
                staged.identified(lab)?.conduct(lab.out)
            }
            Some(staged) => staged.conduct(lab.out),
            None => Ok(()),
        })
    }

    /// Records size and checksum of the executed files, which tell builds of one version apart.
    /// Shards of different builds cannot be parts of one run.
    fn identified(mut self, lab: &Lab<'_>) -> Result<Self> {
        let this = env::current_exe().context("the file of this command")?;
        let mut add = |what: &str, file: &Path| -> Result<()> {
            let bytes = fs::read(file).with_context(|| file.display().to_string())?;
            let sum = crc32fast::hash(&bytes);
            let text = format!("{} bytes, CRC-32 {sum:08x}", bytes.len());
            self.experiment.meta.options.insert(format!("file of {what}"), text);
            Ok(())
        };
        add("the command", &this)?;
        // An experiment without the library runs even if the library is not found.
        if let Ok(library) = (lab.find_library)() {
            add("the library", &library)?;
        }
        Ok(self)
    }

    /// Takes samples, prints tables, then fails on a signal, a broken program or a failed sample.
    fn conduct(self, out: &mut dyn Write) -> Result<()> {
        let about = self.experiment.about.clone();
        let mut run = self.experiment.conduct()?;
        if let (Some(first), None) = (self.first, run.meta.part) {
            first(&run, out)?;
        }
        writeln!(out, "{}", run.head(&about))?;
        for warning in &run.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        let samples = counted(run.samples.len(), "sample");
        match run.meta.part {
            // A shard's tables would have gaps where the other shards have samples.
            Some(part) => writeln!(out, "shard {}: {samples}", part.shard)?,
            None => (self.print)(&run, out)?,
        }
        let crashes = run.samples.extract_if(.., |it| {
            let is_crash = it.failure.as_ref().is_some_and(|why| why.contains("ended by signal "));
            is_crash && self.peers.contains(&it.variant)
        });
        let samples = crashes.collect();
        for crash in (Run { samples, ..run.clone() }).failures() {
            writeln!(out, "\na peer has crashed: {crash}")?;
        }
        if self.interrupt.is_some_and(|it| it.signal().is_some()) {
            bail!("interrupted: {} of {}", run.rounds(), counted(run.meta.rounds, "round"));
        }
        let broken = self.broken.join("\n");
        ensure!(broken.is_empty(), "left out, because they fail before any comparison:\n{broken}");
        run.expect_no_failures()
    }
}

pub(crate) type Ready = Box<dyn FnOnce(&mut Lab<'_>) -> Result<()>>;

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// The time of a run with `--quick`, roughly, such as `~2 s`.
    pub(crate) quick: &'static str,
    pub(crate) work: Option<WorkKind>,
    /// Adds the options and the help to a command; the first argument is the experiment's name.
    pub(crate) augment: fn(&'static str, Command) -> Command,
    pub(crate) parse: fn(&'static str, &ArgMatches) -> Result<Ready, clap::Error>,
}

impl Entry {
    pub(crate) const fn of<P: Plan>(quick: &'static str) -> Self {
        Self {
            name: P::NAME,
            quick,
            work: P::WORK,
            augment: |_, command| P::augment_args(command),
            parse: |_, options| {
                let plan = P::from_arg_matches(options)?;
                Ok(Staged::ready(|lab| plan.stage(lab).map(Some)))
            },
        }
    }

    pub(crate) fn command(&self) -> Command {
        (self.augment)(self.name, Command::new(self.name))
    }
}
