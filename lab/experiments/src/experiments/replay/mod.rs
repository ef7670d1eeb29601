//! Experiments that replay the kernel paths of the documents, with common options, measurement and
//! tables.

mod answer;
pub(super) mod beside;
mod calibrate;
mod documents;
mod profile;
mod row;
mod sample;
mod spec;
mod tables;

pub(super) use answer::rates;

use super::plan::*;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use quarry_harness::destination::{Destination, Present};
use quarry_mm::frame::MAX_NODES;
use quarry_mm::heap::options::parse_bytes;
use quarry_replay::crew::Place;
use quarry_replay::policies::{Policies, UnknownPolicy};
use quarry_replay::stack::Machine;
use row::Row;
use sample::ReplaySample;
use spec::{Amount, Spec};
use std::path::PathBuf;

/// Defaults of all replays. A replay's own variants and tasks replace them.
struct Usual;

impl Defaults for Usual {
    const VARIANTS: &'static str = "";
    const SAMPLES: &'static str = "10";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 1024;
}

// This type has no doc comment, because clap would use it as the help text.
#[derive(Args)]
struct Options {
    #[command(flatten)]
    common: Common<Usual>,
    /// CPUs that the kernel's formulas assume [default: those of the document's machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    declared_cpus: Option<u32>,
    /// Memory that the formulas assume, such as 64G; 0 = as much as the stack has [default: that of
    /// the document's machine, if the document states it].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    declared_memory: Option<u64>,
    /// NUMA nodes, to which the CPUs are assigned in turn [default: those of the document's
    /// machine].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=MAX_NODES as i64))]
    nodes: Option<u8>,
    /// CPUs of a sender and its receiver [default: the row's own place].
    #[arg(long, value_parser = place())]
    place: Option<Place>,
    /// Run only these rows.
    #[arg(long, value_delimiter = ',', value_name = "ROW,ROW")]
    only: Vec<String>,
    /// Amount of work at a time; the text above names the unit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    amount: Option<u32>,
    /// Length of a sample in milliseconds where the work is not fixed; a warm-up of a quarter of it
    /// precedes.
    #[arg(long, default_value = "200", default_value_if("quick", "true", Some("20")),
          value_parser = clap::value_parser!(u64).range(1..=30_000))]
    millis: u64,
    /// Only print the cost of the baseline's message: here with and without the computing that
    /// stands for other work, and in the document.
    #[arg(long)]
    calibrate: bool,
    /// Print all figures, in lines of up to 600 letters.
    #[arg(long)]
    wide: bool,
    /// Also write the table to this file as JSON: medians by the names of the columns.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).ok_or("accepted: bytes, with K, M, G or T")?;
    Ok(bytes as u64)
}

/// The work of all replays.
pub(super) const WORK: WorkKind = WorkKind::of::<ReplaySample>();

/// The documents' experiments.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
    Spec::all().map(|spec| Entry {
        name: &spec.name,
        quick: &spec.quick_takes,
        work: Some(WORK),
        augment,
        parse: |name, matches| {
            let replaying = parse(name, matches)?;
            Ok(Staged::ready(|lab| replaying.stage(lab)))
        },
    })
}

fn spec_of(name: &str) -> &'static Spec {
    Spec::find(name).expect("a test looks for every entry")
}

fn augment(name: &str, command: Command) -> Command {
    let spec = spec_of(name);
    let command = Options::augment_args(command).about(&*spec.about).long_about(spec.help());
    let command = match spec.answer.of_document {
        true => command.visible_alias(&*spec.document.number),
        false => command,
    };
    let command = command.mut_arg("variants", |arg| arg.default_value(&*spec.variants));
    command.mut_arg("tasks", |arg| arg.default_value(&*spec.tasks))
}

fn parse(name: &str, matches: &ArgMatches) -> Result<Replaying, clap::Error> {
    let mut options = Options::from_arg_matches(matches)?;
    let spec = spec_of(name);
    if matches.value_source("tasks") == Some(ValueSource::DefaultValue) {
        let tasks = if options.common.quick { &spec.quick_tasks } else { &spec.tasks };
        let numbers = tasks.split(',').map(|number| number.parse().expect("a number of tasks"));
        options.common.tasks = numbers.collect();
    }
    Ok(Replaying { spec, options })
}

struct Replaying {
    spec: &'static Spec,
    options: Options,
}

impl Replaying {
    fn stage(self, lab: &mut Lab<'_>) -> Result<Option<Staged>> {
        let Self { spec, ref options } = self;
        if options.amount.is_some() && spec.amount.is_none() {
            bail!(Usage(format!("--amount: nothing to choose in {}", spec.name)));
        }
        let names = &options.common.variants;
        let found = names.iter().map(|name| variant_of(name)).collect::<Result<_>>()?;
        let (Variants { all, baseline }, policies) =
            Variants::with_copy(&options.common, found, &names[0])?;
        let rows = self.rows()?;
        if options.place.is_some() && !rows.iter().all(|row| row.has_senders(self.amount())) {
            bail!(Usage(format!("--place: nothing to choose in {}", spec.name)));
        }
        if options.calibrate {
            let of = |row: &Row| {
                let Some(scenario) = row.scenario(self.amount(), None) else {
                    bail!(Usage(format!("--calibrate: {} has no stand-in for work", spec.name)));
                };
                let of_baseline = policies.last().expect("the copy of the baseline");
                Ok((self.path(row, of_baseline), scenario))
            };
            let rows = rows.iter().map(of).collect::<Result<Vec<_>>>()?;
            let Common { tasks, samples, .. } = &options.common;
            calibrate::print(&spec.document.number, &rows, tasks, *samples, lab.out)?;
            return Ok(None);
        }
        let open = |place: &PathBuf| Destination::open("--json", place, Present::Replaced);
        let json = options.json.as_ref().map(open).transpose()?;
        let workloads = workloads(rows.iter().map(|row| &row.name));
        let on_each = |row| policies.iter().map(|policies| self.path(row, policies)).collect();
        let paths: Vec<Vec<ReplaySample>> = rows.iter().map(on_each).collect();
        let sampler = move |key: SampleKey| {
            let path = paths[key.workload][key.variant].clone();
            let amount = spec.amount_of_each(path.amount, key.tasks);
            Ok(ReplaySample { tasks: key.tasks, amount, ..path }.take()?.into())
        };
        let plan = options.common.experiment(&spec.name, all, &baseline, workloads, sampler)?;
        let mut plan =
            plan.option("declared_cpus", self.machine(None).cpus).option("millis", options.millis);
        plan.meta.metrics = spec.metrics();
        let Machine { memory, nodes, .. } = self.machine(None);
        if memory > 0 {
            plan = plan.option("declared_memory", memory);
        }
        if nodes > 1 {
            plan = plan.option("nodes", nodes);
        }
        if let Some(place) = options.place {
            plan = plan.option("place", format!("{place:?}").to_lowercase());
        }
        if spec.amount.is_some() {
            plan = plan.option("amount", self.amount());
        }
        let settings = plan.meta.options.iter().map(|(name, value)| format!("{name} {value}"));
        let settings = settings.collect::<Vec<_>>().join(", ");
        plan.about = format!("a fresh process; {settings}.");
        let all = options.wide;
        let staged = Staged::new(plan, move |run, out| {
            if let Some(destination) = json {
                destination.write(tables::json(run).to_string().as_bytes())?;
            }
            tables::print(run, spec, out)
        });
        Ok(Some(staged.first(move |run, out| answer::print(run, spec, all, out))))
    }

    fn rows(&self) -> Result<Vec<Row>> {
        for name in &self.options.only {
            self.spec.row(name)?;
        }
        let wanted = |row: &Row| match self.options.only.is_empty() {
            true => row.quick || !self.options.common.quick,
            false => self.options.only.contains(&row.name),
        };
        Ok(self.spec.rows().into_iter().filter(wanted).collect())
    }

    /// The machine that formulas assume, for a row that may have its own number of CPUs.
    fn machine(&self, of_row: Option<u32>) -> Machine {
        let Self { spec, options } = self;
        Machine {
            cpus: options.declared_cpus.or(of_row).unwrap_or(spec.declared_cpus),
            memory: options.declared_memory.unwrap_or(spec.declared_gib << 30),
            nodes: options.nodes.unwrap_or(spec.nodes),
            budget: 0,
        }
    }

    fn amount(&self) -> u32 {
        let Some(Amount { usual, quick, .. }) = &self.spec.amount else { return 0 };
        self.options.amount.unwrap_or(if self.options.common.quick { *quick } else { *usual })
    }

    fn path(&self, row: &Row, policies: &Policies) -> ReplaySample {
        let machine = self.machine(row.declared_cpus);
        let budget = row.load().map_or(0, |load| load.budget(self.amount()));
        let machine = Machine { budget, ..machine };
        ReplaySample {
            experiment: self.spec.name.clone(),
            row: row.name.clone(),
            policies: policies.clone(),
            machine,
            place: self.options.place,
            profiled: self.spec.profile,
            tasks: 1,
            amount: self.amount(),
            millis: self.options.millis,
            cpus: affinity::choose(&affinity::allowed(), machine.cpus as usize),
            bare: false,
            alone: false,
            timed: false,
        }
    }
}

fn variant_of(text: &str) -> Result<(Policies, Variant)> {
    let policies: Policies =
        text.parse().map_err(|UnknownPolicy { variant, what, name, accepted }| {
            Usage(format!("{variant}: {}", nearest::unknown(what, &name, &accepted)))
        })?;
    let about = match policies.in_full() {
        full if full == text => "slab and page policy as named, on a stack of its own".to_owned(),
        full => format!("{full}, on a stack of its own"),
    };
    Ok((policies, Variant::new(text, &about)))
}

pub(crate) fn place() -> impl TypedValueParser<Value = Place> {
    PossibleValuesParser::new(Place::ALL.map(|(name, _)| name))
        .map(|name| Place::named(&name).expect("one of those that are accepted"))
}
