//! `fleet`: the heaps of a fleet's programs in production sizes, compared between allocators.

use super::malloc_patterns;
use super::plan::*;
use crate::patterns::fleet::{FleetSample, Form, OVER_LIVE, PROFILES};

/// The heaps of a fleet's programs in production sizes, compared between allocators.
///
/// Five production profiles give, for each size, how often objects are allocated and how long they
/// live. A fresh process builds the heap, and then replays a record of births and deaths in rounds;
/// each round ends with the heap of the beginning. The time is that of the median round, per
/// operation. The memory figure divides resident memory at the end, less that at the start of the
/// process, by the live bytes. In each round of the experiment the allocators have a random order,
/// because the first one may lose seconds while the host finds memory.
#[derive(Args)]
pub(super) struct Fleet {
    #[command(flatten)]
    common: Common<Fleet>,
    /// The profiles, by number.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3,4",
          value_parser = clap::value_parser!(u64).range(..PROFILES.len() as u64))]
    profiles: Vec<u64>,
    /// Live bytes of all threads, in MiB.
    #[arg(long, value_delimiter = ',', default_value = "64,512",
          default_value_if("quick", "true", Some("16")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: Vec<u64>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "2",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Vec<u64>,
    /// Use of the objects: they die in their own thread, die in the next one, or are written whole.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "own")]
    forms: Vec<Form>,
    /// Births and deaths of a thread in a round, before those that bring the heap back.
    #[arg(long, default_value = "1000000", default_value_if("quick", "true", Some("50000")),
          value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    /// Rounds of a sample.
    #[arg(long, default_value = "7", default_value_if("quick", "true", Some("3")),
          value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

impl Defaults for Fleet {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "3";
    const QUICK_SAMPLES: &'static str = "1";
}

/// A profile, live MiB, threads and the use of objects.
#[derive(Clone, Copy)]
struct Shape(u64, u64, u64, Form);

impl Shape {
    fn name(&self) -> String {
        let Self(profile, mib, threads, form) = self;
        let form = match form {
            Form::Own => "",
            Form::Passed => ", passed on",
            Form::Touched => ", touched",
        };
        format!("fleet-{profile}, {mib} MiB, {threads} threads{form}")
    }
}

impl Fleet {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for (&mib, &threads) in
            self.mib.iter().flat_map(|mib| self.threads.iter().map(move |it| (mib, it)))
        {
            for &form in self.forms.iter().filter(|form| **form != Form::Passed || threads > 1) {
                shapes.extend(
                    self.profiles.iter().map(|profile| Shape(*profile, mib, threads, form)),
                );
            }
        }
        shapes
    }
}

impl Plan for Fleet {
    const NAME: &'static str = "fleet";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<FleetSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let shapes = self.shapes();
        ensure!(!shapes.is_empty(), "--forms passed: one thread has no other one");
        let (variants, contenders) = lab.contenders_with_copy(&self.common, QUARRY)?;
        let most = self.threads.iter().copied().max().unwrap_or(1);
        let cpus = affinity::choose(&affinity::allowed(), most as usize);
        let verify = Verify::Counter("objects".to_owned());
        let workloads = shapes.iter().map(|it| Workload::new(&it.name(), verify.clone())).collect();
        let (events, rounds) = (self.events as usize, self.rounds as usize);
        let order = move |key: SampleKey| {
            let Shape(profile, mib, threads, form) = shapes[key.workload];
            let (profile, threads, cpus) = (profile as usize, threads as usize, cpus.clone());
            FleetSample { profile, mib, threads, form, events, rounds, cpus }.order()
        };
        let sampler = OwnWork { contenders, order };
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = counted(rounds, "round") + &format!(" of {events} births or deaths a thread.");
        plan.meta.metrics = metrics();
        // The first round of a sample is its warm-up; it hardly moves the median of all rounds.
        plan.warm_up = false;
        let plan = plan.option("events", events).option("rounds", rounds);
        Ok(Staged::new(plan, |run, out| {
            let matrix = Matrix::new(run, group_of_all("fleet", run));
            writeln!(out, "{}\n", matrix.tables())?;
            for metric in run.meta.metrics.iter().filter(|metric| !metric.primary) {
                writeln!(out, "{}:\n\n{}\n", metric.name, matrix.medians(metric))?;
            }
            Ok(())
        }))
    }
}

fn metrics() -> Vec<Metric> {
    let over_live = Metric::new(OVER_LIVE, OVER_LIVE, Direction::Lower, OVER_LIVE);
    let first = [Metric::time_per_operation().primary(), over_live];
    first.into_iter().chain(malloc_patterns::faults_and_huge()).collect()
}
