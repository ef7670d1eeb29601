//! `zone`: the zone and the pcp lists without the rest of the stack, compared with LLFree.

use super::plan::*;
use crate::frames::{FramesSample, ORDERS, Pattern, State, Variant as Allocator};
use quarry_eras::pages::PAGE_POLICIES;
use std::env;
use std::path::PathBuf;

/// The library's default policy, and the baseline unless the user names another.
const DEFAULT: &str = "v6.18";
/// Variants that are not page policies.
const ZONE: &str = "zone";
const LLFREE: &str = "llfree";
/// The environment variable that names LLFree's shared object.
const LLFREE_OBJECT: &str = "QUARRY_LLFREE";
/// Name of the figure: the share of 2 MiB blocks that are partly in use.
const PARTLY: &str = "partly used";

/// The zone and the pcp lists without the rest of the stack, compared with LLFree.
///
/// The frames have no memory, because only the search for free frames is measured. An operation is
/// a block allocated and a block freed. `pair` frees a block at once; in `bulk` all tasks together
/// allocate half of the free memory and free it again; `random` frees a random block of those in
/// use and allocates another.
///
/// A `fresh` memory is wholly free (for `random`, half in use). For a `fragmented` memory 63 of 64
/// parts were allocated as blocks of the measured order, and a random half of these was freed. A
/// table shows how many of its 2 MiB blocks are partly in use.
///
/// `zone` takes the zone's lock for each block. `llfree` is LLFree, as the shared object of its C
/// sources that QUARRY_LLFREE names. Every other variant is a page policy (the library contains
/// only the default one), with pcp lists for each task. If there is one task, its process has no
/// other thread, so Quarry's locks are plain loads and stores; several tasks have a CPU each, if
/// there are enough.
#[derive(Args)]
pub(super) struct Zone {
    #[command(flatten)]
    common: Common<Zone>,
    /// Only rows whose names begin with one of these, such as fresh, fragmented-bulk or
    /// fresh-pair-0.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    only: Vec<String>,
    /// The memory, in MiB.
    #[arg(long, default_value = "4096", default_value_if("quick", "true", Some("64")),
          value_parser = clap::value_parser!(u32).range(32..=65536))]
    mib: u32,
    /// Length of a sample in milliseconds; a warm-up of a quarter of it precedes.
    #[arg(long, default_value = "20", default_value_if("quick", "true", Some("1")),
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    millis: u64,
}

impl Defaults for Zone {
    const VARIANTS: &'static str = "v6.18,zone,order0,v2016,llfree";
    const TASKS: &'static str = "1,2";
    const SAMPLES: &'static str = "8";
    const QUICK_SAMPLES: &'static str = "1";
    const MOST_TASKS: u32 = 256;
}

#[derive(Clone, Copy)]
struct Row {
    state: State,
    pattern: Pattern,
    order: u8,
}

impl Row {
    fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for state in State::ALL {
            for pattern in Pattern::ALL {
                rows.extend((0..ORDERS).map(|order| Self { state, pattern, order }));
            }
        }
        rows
    }

    fn group(self) -> String {
        format!("{:?}-{:?}", self.state, self.pattern).to_lowercase()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.group(), self.order)
    }
}

/// The variant of this name; `None` if it is LLFree, and LLFree is absent.
fn variant(name: &str) -> Result<Option<(Allocator, Variant)>> {
    let found = |allocator, about: &str| Ok(Some((allocator, Variant::new(name, about))));
    if name == LLFREE {
        let Some(object) = env::var_os(LLFREE_OBJECT) else { return Ok(None) };
        let object = PathBuf::from(object);
        if !object.is_file() {
            bail!(Usage(format!("{LLFREE_OBJECT}: {} is no file", object.display())));
        }
        let about = format!("LLFree, {}", object.display());
        return found(Allocator::LlFree(object), &about);
    }
    if name == ZONE {
        return found(Allocator::Zone, "the zone by itself, a critical section for each block");
    }
    let Some(known) = PAGE_POLICIES.iter().find(|known| known.name == name) else {
        let policies = PAGE_POLICIES.iter().map(|known| known.name);
        let accepted: Vec<&str> = [ZONE, LLFREE].into_iter().chain(policies).collect();
        return Err(nearest::unknown("variant --variants", name, &accepted));
    };
    found(Allocator::Lists(name.to_owned()), &format!("page lists: {}", known.about))
}

impl Plan for Zone {
    const NAME: &'static str = "zone";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<FramesSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let found = each_once(&self.common.variants, variant)?;
        let is_left_out = found.iter().any(Option::is_none);
        let found = found.into_iter().flatten().collect();
        let (variants, subjects) = Variants::with_copy(&self.common, found, DEFAULT)?;
        let rows = options::named(Row::all(), &self.only, "row --only", |_| true)?;
        self.common.check_early()?;
        if is_left_out {
            writeln!(
                lab.out,
                "{LLFREE}: left out, for {LLFREE_OBJECT} names no shared object of it"
            )?;
        }
        let workloads = workloads(&rows);
        let cpus = affinity::choose(&affinity::allowed(), Self::MOST_TASKS as usize);
        let (mib, millis, printed) = (self.mib, self.millis, rows.clone());
        let sampler = move |key: SampleKey| {
            let Row { state, pattern, order } = rows[key.workload];
            let sample = FramesSample {
                variant: subjects[key.variant].clone(),
                state,
                pattern,
                order,
                tasks: key.tasks,
                cpus: cpus.clone(),
                mib,
                millis,
                operations: None,
            };
            Ok(launch::sample(&sample.order(), None, &[])?.into())
        };
        let partly = Metric::new(PARTLY, "% of 2 MiB blocks", Direction::None, PARTLY).times(100.0);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = format!("{millis} ms over {mib} MiB in a fresh process.");
        plan.meta.metrics = vec![Metric::time_per_operation().primary(), partly.digits(1)];
        let plan = plan.option("mib", mib).option("millis", millis);
        Ok(Staged::new(plan, move |run, out| print(run, &printed, out)))
    }
}

fn print(run: &Run, rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let of_rows = |rows: &[Row]| Group {
        name: rows[0].group(),
        workloads: rows.iter().map(ToString::to_string).collect(),
    };
    let groups = rows.chunk_by(|row, next| row.group() == next.group()).map(of_rows).collect();
    let is_meant = |row: &&Row| (row.state, row.pattern) == (State::Fragmented, Pattern::Pair);
    let fragmented: Vec<_> = rows.iter().filter(is_meant).map(ToString::to_string).collect();
    writeln!(out, "{}\n", Matrix::new(run, groups).tables())?;
    if !fragmented.is_empty() {
        writeln!(out, "Blocks of 2 MiB that are in use in part, before the first operation:\n")?;
        let matrix = Matrix::new(run, group("fragmented", fragmented));
        writeln!(out, "{}", matrix.medians(run.meta.metric(PARTLY)?))?;
    }
    Ok(())
}
