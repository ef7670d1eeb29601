//! `udp-u-4k`: packets of 4 KiB between processes (document 003).

use crate::affinity;
use crate::options::{self, Common};
use crate::patterns::window::Budget;
use crate::replay::memory::KernelMemory;
use crate::replay::stack::{Policies, Replay};
use crate::replay::udp::{self, Replayed, Shape};
use crate::results::{Cell, Direction, Measurement, Metric, Run, Variant, Verify, Workload};
use crate::runner::{self, Design};
use crate::statistics;
use crate::table;
use anyhow::Result;
use clap::Args;
use clap::builder::ArgPredicate;
use std::io::Write;
use std::time::Duration;

/// The one workload of this experiment.
const WORKLOAD: &str = "udp-u-4k";
/// Objects or blocks that a packet takes: a head and its data.
const ALLOCS_PER_PACKET: f64 = 2.0;

/// Packets of 4 KiB between processes: what the page allocator costs SLUB (document 003).
///
/// Models netperf UDP-U-4k on Linux 2.6.29: on every CPU a client and a server that the scheduler
/// runs in turn. A client sends a burst; each packet takes a head of 256 bytes from a slab cache
/// and a data buffer of two pages from the page allocator (4 KiB and its headers are above what
/// kmalloc of that kernel kept in a cache). The server, on the next CPU, frees the burst. SLUB
/// makes its slabs of heads of two pages on 8 to 127 CPUs, so both are of order 1, which `order0`
/// does not keep in its per-CPU lists: nearly every packet takes the zone's lock. `v2016`
/// (document 000) and `v6.7` keep them. With --burst 1000 slabs of heads come and go too, with
/// --declared-cpus 4 as single pages.
///
/// The packets are memory only: no network stack runs. What it would cost is stood in for by copies
/// of a fixed size, derived from the document's profile. Where the kernel switches interrupts off,
/// a stack takes a per-CPU try-lock or runs a restartable sequence; that is cheaper or dearer than
/// the real thing by an unknown factor. The size of a slab follows --declared-cpus, but only the
/// CPUs of this machine run: with two of them the zone's lock is taken as often per packet as on
/// sixteen, but is hardly ever contended, so the gain in rate is a lower bound.
///
/// A variant is SLAB+PCP, where PCP is a value of QUARRY_PCP; the first is the baseline. Tasks are
/// pairs of client and server [default: one per usable CPU, at most --declared-cpus].
#[derive(Args)]
pub struct UdpU4k {
    #[command(flatten)]
    common: Common<Defaults>,
    /// CPUs that SLUB's formulas are told of.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=8192))]
    declared_cpus: u32,
    /// Packets per burst: 30 fill the send buffer that 2.6.29 gave a socket (129,024 bytes).
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=65536))]
    burst: u32,
    /// Length of a sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value = "400",
          default_value_if("quick", ArgPredicate::Equals("true".into()), Some("100")),
          value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
}

#[derive(Clone, Debug)]
struct Defaults;

impl options::Defaults for Defaults {
    const VARIANTS: &'static str = "slub+order0,slub+v2016,sheaf+v6.7";
    const TASKS: &'static str = "1,2";
    const SAMPLES: &'static str = "12";
    const QUICK_SAMPLES: &'static str = "3";
    const MOST_TASKS: u32 = 1024;
}

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct UdpSample {
    policies: Policies,
    #[arg(long)]
    declared_cpus: u32,
    #[arg(long)]
    tasks: u32,
    #[arg(long)]
    burst: u32,
    #[arg(long)]
    millis: u64,
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
}

impl Replay for &UdpSample {
    type Output = Replayed;

    fn on<M: KernelMemory>(self, memory: &M) -> Replayed {
        let budget = Budget {
            warm_up: Duration::from_micros(self.millis * 250),
            measured: Duration::from_millis(self.millis),
        };
        let (burst, pairs) = (self.burst as usize, self.tasks as usize);
        udp::run(memory, budget, Shape { burst, pairs, cpus: &self.cpus })
    }
}

impl UdpSample {
    /// Measures in this process.
    pub(crate) fn measure(self) -> Result<Measurement> {
        let Replayed { window, counters } = self.policies.replay(self.declared_cpus, &self)?;
        let counters = [
            ("zone_lock", counters.zone_lock),
            ("zone_contended", counters.zone_contended),
            ("zone_allocs", counters.zone_allocs),
            ("zone_frees", counters.zone_frees),
            ("slab_lock", counters.slab_lock),
            ("slabs", counters.slabs),
        ];
        let measurement = Measurement::of_window(
            window.operations,
            window.wall_ns,
            window.wall_ns,
            window.cpu_ns,
            &self.policies.to_string(),
        );
        Ok(Measurement { verified: window.verified, ..measurement.with(&counters) })
    }
}

impl UdpU4k {
    /// Runs the experiment and prints its table.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let cpus = affinity::choose(&affinity::allowed(), self.declared_cpus as usize);
        let mut policies = self
            .common
            .variants
            .iter()
            .map(|text| text.parse::<Policies>())
            .collect::<Result<Vec<_>>>()?;
        let mut variants: Vec<Variant> = policies.iter().map(variant_of).collect();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let baseline = self.common.baseline(&names, names[0])?.to_owned();
        let original = names.iter().position(|name| *name == baseline).unwrap_or(0);
        policies.push(policies[original].clone());
        variants.push(variants[original].copy());

        let workloads = vec![Workload::new(WORKLOAD, Verify::PerOperation(1))];
        let design = self.common.design(WORKLOAD, variants, &baseline, workloads)?;
        let design = Design { metrics: metrics(), ..design }
            .option("declared_cpus", self.declared_cpus)
            .option("burst", self.burst)
            .option("millis", self.millis);
        let take = |spot: runner::Spot| self.sample(&policies[spot.variant], spot.tasks, &cpus);
        self.print(&design.conduct(take)?, out)
    }

    fn sample(
        &self,
        policies: &Policies,
        tasks: u32,
        cpus: &[usize],
    ) -> Result<Measurement, String> {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let arguments = [
            "udp".to_owned(),
            policies.to_string(),
            format!("--declared-cpus={}", self.declared_cpus),
            format!("--tasks={tasks}"),
            format!("--burst={}", self.burst),
            format!("--millis={}", self.millis),
            format!("--cpus={}", cpus.join(",")),
        ];
        let measurement = runner::sample(&arguments, None)?;
        if measurement.served_by != policies.to_string() {
            return Err(format!("was meant for {policies}, but ran {}", measurement.served_by));
        }
        Ok(measurement)
    }

    fn print(&self, run: &Run, out: &mut dyn Write) -> Result<()> {
        let what = format!(
            "{} ms in a fresh process; {} declared CPUs, bursts of {} packets.",
            self.millis, self.declared_cpus, self.burst
        );
        writeln!(out, "{}", run.head(&what))?;
        let mut header = vec!["policies".to_owned(), "pairs".to_owned()];
        for metric in &run.meta.metrics {
            header.push(format!("{}, {}", metric.name, metric.unit));
            if metric.primary {
                header.push(format!("rate / {}", run.meta.baseline));
            }
        }
        let cells = run.meta.tasks.iter().flat_map(|&tasks| {
            let cell = move |name| Cell { workload: WORKLOAD, tasks, variant: name };
            run.meta.variants.iter().map(move |variant| cell(variant.name.as_str()))
        });
        let rows = cells.map(|cell| row(run, cell)).collect();
        writeln!(out, "{}", table::render(header, rows))?;
        writeln!(
            out,
            "\nA pair is a sender and a receiver. A packet is two allocations, a head and its \
             data. At zone: how\nmany of 100 allocations (frees) took the zone's lock. Slabs: \
             those made for heads.\nDocument 003: the page allocator is 23.9 % of SLUB's \
             profile, and next to nothing of SLQB's."
        )?;
        run.expect_no_failures()
    }
}

fn variant_of(policies: &Policies) -> Variant {
    let name = policies.to_string();
    Variant::new(&name, "slab and page policy on a stack of its own")
}

fn metrics() -> Vec<Metric> {
    let at_zone = |name: &str, counter: &str| {
        let metric = Metric::new(name, "%", Direction::None, counter);
        metric.per("operations").times(100.0 / ALLOCS_PER_PACKET)
    };
    vec![
        Metric::rate("packets/s").digits(0).primary(),
        Metric::new("CPU", "ns/packet", Direction::Lower, "cpu_ns").per("operations").digits(0),
        Metric::counted("zone locks", "zone_lock"),
        Metric::new("contended", "%", Direction::None, "zone_contended")
            .per("zone_lock")
            .times(100.0),
        at_zone("allocs at zone", "zone_allocs"),
        at_zone("frees at zone", "zone_frees"),
        Metric::new("slabs", "per 1,000 packets", Direction::None, "slabs")
            .per("operations")
            .times(1000.0),
    ]
}

fn row(run: &Run, cell: Cell<'_>) -> Vec<String> {
    let mut row = vec![cell.variant.to_owned(), cell.tasks.to_string()];
    for metric in &run.meta.metrics {
        let rounds = run.values(cell, metric);
        let values: Vec<f64> = rounds.iter().copied().flatten().collect();
        let failed = run.samples_of(cell).any(|sample| sample.failure.is_some());
        let absent = if failed { "failed" } else { "-" };
        row.push(statistics::median(&values).map_or(absent.to_owned(), table::figure));
        if metric.primary {
            let baseline = Cell { variant: &run.meta.baseline, ..cell };
            let ratios = statistics::paired_ratios(&rounds, &run.values(baseline, metric));
            let ratios: Vec<f64> = ratios.into_iter().flatten().collect();
            row.push(match cell.variant == run.meta.baseline {
                true => "1".to_owned(),
                false => table::ratio(statistics::estimate(&ratios), None),
            });
        }
    }
    row
}
