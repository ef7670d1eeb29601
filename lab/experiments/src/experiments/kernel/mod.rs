//! `kernel`: the running kernel's counts of a workload, compared with those of Quarry's stack.
//!
//! ```text
//! variants  the running kernel and the stacks
//! counts    what is counted in both, under one name
//! rows      the workloads
//! table     the tables
//! ```

mod counts;
mod rows;
mod table;
mod variants;

use super::plan::*;
use super::replay::beside::{Beside, Terms};
use super::replay::place;
use crate::witness::guest::{self, Clock, Guest};
use crate::witness::knob::Folder;
use crate::witness::readings;
use crate::witness::sample::KernelSample;
use crate::witness::tracepoints::{Events, Scope, TRACEPOINTS};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use quarry_harness::doctor::{Finding, Severity};
use quarry_replay::crew::Place;
use quarry_replay::stack::Machine;
use rows::Row;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::env;
use std::path::{Path, PathBuf};
use variants::{Contender, KERNEL, Setting};

/// Bytes of the file system that is made in a file if `--folder` is not given.
const IMAGE_BYTES: u64 = 1 << 30;

/// The running kernel as a variant: its tracepoints, compared with the counts of Quarry's stack.
///
/// Each workload runs as system calls in a process of its own. Counters of the kernel's tracepoints
/// (perf_event_open) count in that process and its threads only, so other programs are left out.
/// Work that the kernel defers, by RCU or for writeback, is counted only where it interrupts this
/// process. The table also has the counts of the same kernel path replayed on Quarry's stack, whose
/// formulas assume this machine, and the figures of the document.
///
/// `kernel-uncounted` runs without counters and so shows what counting costs. `kernel-fraction-8`
/// sets vm.percpu_pagelist_high_fraction to 8 during its samples, for the whole machine; the old
/// value is restored, even if the run is killed. `kernel-cpu-partial-N`, `kernel-min-partial-N` and
/// `kernel-order-N` do the same with settings of the slab caches, and `kernel-mglru-N` with the
/// multi-generational LRU, if the kernel lets them be written.
///
/// `linux-RELEASE` is the kernel of a folder of --guests, run in qemu. Its samples are the same,
/// and it also counts the instructions of each operation. scripts/witness-kernels.sh makes the
/// folders.
///
/// The kernel lets root count, and other users if perf_event_paranoid is at most 1 and they may
/// read tracefs. If the kernel refuses, a line says what is missing, and the other variants run.
#[derive(Args)]
pub(super) struct Kernel {
    #[command(flatten)]
    common: Common<Kernel>,
    /// Only rows whose names begin with one of these, such as faults, udp or delete.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// CPUs of a sender and its receiver, in the kernel and on the stack.
    #[arg(long, default_value = "next", value_parser = place())]
    place: Place,
    /// The processes whose events count: `tree` is the sample's own, `machine` all of the machine.
    #[arg(long, default_value = "tree", value_parser = scope())]
    scope: Scope,
    /// Folder of the kernel's events [default: /sys/kernel/tracing or below /sys/kernel/debug].
    #[arg(long, value_name = "DIR")]
    tracefs: Option<PathBuf>,
    /// Folders with kernels for `linux-RELEASE`: RELEASE/vmlinuz and RELEASE/initrd.
    #[arg(long, value_name = "DIR")]
    guests: Option<PathBuf>,
    /// Folder for files on a disk [default: an ext4 file system in a file among temporary files if
    /// it can be mounted, else the folder for temporary files].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Folder for files in memory.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory_folder: PathBuf,
    /// Length of a sample of the stack in milliseconds, where its work is not fixed.
    #[arg(long, default_value = "200", default_value_if("quick", "true", Some("20")),
          value_parser = clap::value_parser!(u64).range(1..=30_000))]
    millis: u64,
}

/// Options of replays that have no meaning where system calls are counted.
const OF_REPLAYS: [&str; 8] =
    ["amount", "calibrate", "declared_cpus", "declared_memory", "json", "nodes", "only", "wide"];
/// Options that replays and this experiment have.
const OF_BOTH: [&str; 8] =
    ["baseline", "millis", "out", "place", "samples", "seed", "shard", "tasks"];

impl Kernel {
    /// True if one of the chosen variants is the running kernel.
    pub(super) fn is_among(options: &ArgMatches) -> bool {
        let mut variants = options.get_many::<String>("variants").into_iter().flatten();
        variants.any(|name| name.split('-').next() == Some(KERNEL))
    }

    /// This experiment in place of the replay `experiment`: with its rows, and the user's options.
    pub(super) fn in_place_of(experiment: &str, options: &ArgMatches) -> Result<Self> {
        let is_given = |id: &str| options.value_source(id) == Some(ValueSource::CommandLine);
        if let Some(id) = OF_REPLAYS.into_iter().find(|id| is_given(id)) {
            let id = id.replace('_', "-");
            bail!(Usage(format!("--{id}: nothing to choose with --variants {KERNEL}")));
        }
        let all = Row::all();
        let rows: Vec<&str> = all
            .iter()
            .filter(|row| row.experiment() == experiment)
            .map(|row| row.name.as_str())
            .collect();
        if rows.is_empty() {
            let mut known: Vec<&str> = all.iter().map(|row| row.experiment()).collect();
            known.dedup();
            let known = known.join(", ");
            bail!(Usage(format!(
                "--variants {KERNEL}: no system calls of `lab run {KERNEL}` take the path of \
                 {experiment}; accepted with {known}"
            )));
        }
        let mut words = vec![KERNEL.to_owned(), format!("--only={}", rows.join(","))];
        words.extend(options.get_flag("quick").then(|| "--quick".to_owned()));
        for id in OF_BOTH.into_iter().filter(|id| is_given(id)).chain(["variants"]) {
            let raw = options.get_raw(id).into_iter().flatten();
            let values: Vec<_> = raw.map(|value| value.to_string_lossy()).collect();
            words.push(format!("--{id}={}", values.join(",")));
        }
        let command = Self::augment_args(Command::new(KERNEL));
        Ok(Self::from_arg_matches(&command.try_get_matches_from(words)?)?)
    }
}

impl Defaults for Kernel {
    const VARIANTS: &'static str = "kernel,kernel-uncounted,sheaf-6.18+v6.18+splice";
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 64;
}

/// The doctor's finding on whether the column `kernel` is available.
pub(crate) fn finding() -> Finding {
    let (seen, mend) = match Events::find(None, Scope::Tree) {
        Ok(events) => {
            let (present, all) = (events.present(), TRACEPOINTS.len());
            (format!("available, {present} of {all} tracepoints"), String::new())
        }
        Err(refusal) => (format!("not available: {}", refusal.missing), refusal.remedy),
    };
    Finding {
        about: "counts of the running kernel".to_owned(),
        severity: Severity::Note,
        seen,
        why: "`quarry lab run kernel` has its column `kernel` from them".to_owned(),
        mend,
    }
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(["tree", "machine"])
        .map(|name| if name == "machine" { Scope::Machine } else { Scope::Tree })
}

impl Plan for Kernel {
    const NAME: &'static str = "kernel";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<KernelSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let events = Events::find(self.tracefs.as_deref(), self.scope);
        let (mut left_out, guests) = (Vec::new(), self.guests.as_deref());
        let found = variants::find(&self.common.variants, &events, guests, &mut left_out)?;
        // Usually a wrong option is the only error; but if no variant is left, these lines say why.
        let why = if found.is_empty() { &left_out[..] } else { &[] };
        lab.out.write_all(why)?;
        let (variants, contenders) = Variants::with_copy(&self.common, found, KERNEL)?;
        let rows = options::named(Row::all(), &self.only, "row --only", |_| true)?;
        self.common.check_early()?;
        lab.out.write_all(&left_out)?;
        let workloads = workloads(&rows);
        let sampling = self.sampling(&rows, contenders, events.ok(), lab.out)?;
        let sampler = move |key: SampleKey| match &sampling.contenders[key.variant] {
            // Booting is a guest's warm-up.
            Contender::Guest { .. } if key.round == 0 => Err(NoSample::LeftOut),
            _ => Ok(sampling.sample(key)?.into()),
        };
        let place = Place::ALL.iter().find(|(_, place)| *place == self.place);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("a fresh process (`--place={}`).", place.map_or("", |it| it.0));
        plan.meta.metrics = metrics();
        let plan = plan.option("millis", self.millis).option("scope", format!("{:?}", self.scope));
        Ok(Staged::new(plan, move |run, out| table::print(run, &rows, out)))
    }
}

fn metrics() -> Vec<Metric> {
    let mut metrics = vec![Metric::rate("operations/s").primary()];
    metrics.extend(counts::COUNTS.iter().map(counts::metric));
    metrics.push(Metric::new(readings::HIGH, "pages", Direction::None, readings::HIGH).digits(0));
    metrics
}

struct Sampling {
    rows: Vec<(&'static Row, Beside)>,
    contenders: Vec<Contender>,
    events: Option<Events>,
    cpus: Vec<usize>,
    folders: [PathBuf; 2],
    _image: Option<Folder>,
    terms: Terms,
    quick: bool,
    /// The guests that have been booted.
    guests: RefCell<BTreeMap<(PathBuf, Clock), Guest>>,
}

impl Kernel {
    fn sampling(
        &self,
        rows: &[&'static Row],
        contenders: Vec<Contender>,
        events: Option<Events>,
        out: &mut dyn Write,
    ) -> Result<Sampling> {
        let disk = self.folder.clone().unwrap_or_else(env::temp_dir);
        let mut folders = [disk, self.memory_folder.clone()];
        for folder in rows.iter().filter_map(|row| row.calls.folder(&folders)) {
            if !folder.is_dir() {
                bail!(Usage(format!("{}: no folder for files", folder.display())));
            }
        }
        let is_here = |it: &Contender| matches!(it, Contender::Kernel { .. });
        let on_disk = |row: &&Row| row.calls.folder(&folders) == Some(&folders[0]);
        let mut image = None;
        if self.folder.is_none() && contenders.iter().any(is_here) && rows.iter().any(on_disk) {
            match Folder::in_image(&folders[0], IMAGE_BYTES) {
                Ok(made) => {
                    folders[0] = made.path().to_owned();
                    image = Some(made);
                }
                Err(error) => writeln!(out, "no file system in a file: {error:#}")?,
            }
        }
        let cpus = affinity::choose(&affinity::allowed(), Self::MOST_TASKS as usize);
        let is_guest = |it: &Contender| matches!(it, Contender::Guest { .. });
        let all_are_guests = contenders.iter().any(is_guest) && !contenders.iter().any(is_here);
        let (memory, nodes) = if all_are_guests { (guest::MEMORY, 1) } else { readings::machine() };
        let machine = Machine { cpus: cpus.len().max(1) as u32, memory, nodes, budget: 0 };
        let terms = Terms { machine, tasks: 1, millis: self.millis, place: self.place };
        let with_replay = |row: &&'static Row| Ok((*row, row.replay()?));
        let rows = rows.iter().map(with_replay).collect::<Result<_>>()?;
        let (quick, guests) = (self.common.quick, RefCell::default());
        Ok(Sampling {
            rows,
            contenders,
            events,
            cpus,
            folders,
            _image: image,
            terms,
            quick,
            guests,
        })
    }
}

impl Sampling {
    fn sample(&self, key: SampleKey) -> Result<Measurement> {
        let (row, replay) = &self.rows[key.workload];
        match &self.contenders[key.variant] {
            Contender::Stack(policies) => {
                let terms = Terms { tasks: key.tasks, ..self.terms };
                Ok(counts::named(replay.measure(policies, terms)?, false))
            }
            Contender::Kernel { counted, setting } => {
                let make = |place: &PathBuf| Folder::within(place);
                let folder = row.calls.folder(&self.folders).map(make).transpose()?;
                let sample = KernelSample {
                    folder: folder.as_ref().map(|it| it.path().to_owned()),
                    events: self.events.clone().filter(|_| *counted),
                    ..self.order(row, key, setting)
                };
                Ok(counts::named(launch::sample(&sample.order(), None, &[])?, true))
            }
            Contender::Guest { folder, setting } => {
                let places = guest::FOLDERS.map(|place| Path::new(place).join(guest::FOLDER));
                let ask = |clock: Clock, events| {
                    let sample = KernelSample {
                        folder: row.calls.folder(&places).cloned(),
                        cpus: clock.cpus(),
                        events,
                        ..self.order(row, key, setting)
                    };
                    self.ask(folder, clock, sample)
                };
                let instructions = ask(Clock::Instructions, None)?.wall_ns;
                let counted = ask(Clock::Host, Some(Events::of_guest()))?;
                let counted = counted.with(&[(counts::INSTRUCTIONS, instructions)]);
                Ok(counts::named(counted, true))
            }
        }
    }

    /// Takes a sample in the guest of `folder`, and boots the guest if it does not run yet.
    fn ask(&self, folder: &Path, clock: Clock, sample: KernelSample) -> Result<Measurement> {
        let mut guests = self.guests.borrow_mut();
        let guest = match guests.entry((folder.to_owned(), clock)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Guest::boot(folder, clock)?),
        };
        guest.sample(&sample.order())
    }

    fn order(&self, row: &Row, key: SampleKey, setting: &Option<Setting>) -> KernelSample {
        KernelSample {
            calls: row.calls,
            tasks: key.tasks,
            operations: if self.quick { row.quick } else { row.operations },
            cpus: self.cpus.clone(),
            place: self.terms.place,
            folder: None,
            events: None,
            setting: setting.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_replay() {
        let rows = Row::all();
        for row in &rows {
            row.replay().unwrap();
            assert!(row.quick <= row.operations && row.quick > 0, "{row}");
        }
        let documented = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            row.replay().unwrap().documented(1).len()
        };
        assert_eq!((documented("faults"), documented("delete-sparse")), (4, 2));
    }
}
