//! `udp-u-4k`: packets of 4 KiB between processes (document 003).

use crate::affinity;
use crate::patterns::window::Budget;
use crate::recording::{Measurement, Recording, Variant};
use crate::replay::memory::KernelMemory;
use crate::replay::stack::{Policies, Replay};
use crate::replay::udp::{self, Replayed, Shape};
use crate::runner::{self, Design};
use crate::statistics;
use crate::table;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
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
#[derive(Args)]
pub struct UdpU4k {
    /// Which policies: SLAB+PCP, where PCP is a value of QUARRY_PCP. The first is the baseline.
    #[arg(long, value_delimiter = ',', default_value = "slub+order0,slub+v2016,sheaf+v6.7")]
    variants: Vec<Policies>,
    /// CPUs that SLUB's formulas are told of.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=8192))]
    declared_cpus: u32,
    /// Pairs of client and server [default: one per usable CPU, at most --declared-cpus].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pairs: Option<u32>,
    /// Packets per burst: 30 fill the send buffer that 2.6.29 gave a socket (129,024 bytes).
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=65536))]
    burst: u32,
    /// Rounds after the warm-up round; below 6 there are no intervals.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a sample in milliseconds; a quarter of it goes before as warm-up.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    /// A look in seconds instead of half a minute: 3 rounds of 100 ms.
    #[arg(long, conflicts_with_all = ["rounds", "millis"])]
    quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Write every raw sample to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One sample, taken in a process of its own.
#[derive(Args)]
pub(crate) struct UdpSample {
    policies: Policies,
    #[arg(long)]
    declared_cpus: u32,
    #[arg(long)]
    pairs: u32,
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
        let (burst, pairs) = (self.burst as usize, self.pairs as usize);
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
        Ok(Measurement {
            operations: window.operations,
            time_ns: window.wall_ns,
            wall_ns: window.wall_ns,
            cpu_ns: window.cpu_ns,
            served_by: self.policies.to_string(),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
        })
    }
}

impl UdpU4k {
    /// Runs the experiment and prints its table.
    pub(crate) fn run(mut self, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            (self.rounds, self.millis) = (3, 100);
        }
        let cpus = affinity::choose(&affinity::allowed(), self.declared_cpus as usize);
        let pairs = self.pairs.unwrap_or(cpus.len() as u32);
        let baseline = self.variants.first().context("--variants: none given")?.to_string();
        let mut policies = self.variants.clone();
        policies.insert(1, policies[0].clone());
        let mut variants: Vec<Variant> = policies.iter().map(variant_of).collect();
        variants[1].name = format!("{baseline} A/A");

        let design = Design {
            experiment: WORKLOAD.to_owned(),
            workloads: vec![WORKLOAD.to_owned()],
            variants,
            baseline,
            rounds: self.rounds,
            seed: self.seed,
        };
        let recording = design.conduct(|_, variant| self.sample(&policies[variant], pairs, &cpus));
        if let Some(path) = &self.json {
            recording.write(path)?;
        }
        self.print(&recording, pairs, out)
    }

    fn sample(
        &self,
        policies: &Policies,
        pairs: u32,
        cpus: &[usize],
    ) -> Result<Measurement, String> {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let arguments = [
            "udp".to_owned(),
            policies.to_string(),
            format!("--declared-cpus={}", self.declared_cpus),
            format!("--pairs={pairs}"),
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

    fn print(&self, recording: &Recording, pairs: u32, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "{}", recording.environment.summary())?;
        writeln!(
            out,
            "{} declared CPUs, {pairs} pairs of sender and receiver, bursts of {} packets; {} \
             rounds of {} ms, seed {}, fresh process per sample, order randomised.\n",
            self.declared_cpus, self.burst, self.rounds, self.millis, recording.seed
        )?;
        let header = [
            "policies",
            "packets/s",
            &format!("rate / {}", recording.baseline),
            "CPU ns/packet",
            "zone locks/packet",
            "contended",
            "allocs at zone",
            "frees at zone",
            "slabs/1,000 packets",
        ];
        let rows = recording.variants.iter().map(|variant| row(recording, &variant.name));
        let header = header.map(str::to_owned).to_vec();
        writeln!(out, "{}", table::render(header, rows.collect()))?;
        writeln!(
            out,
            "\nA packet is two allocations, a head and its data. At zone: how many per 100 \
             allocations (frees)\ntook the zone's lock. Slabs: those made for heads.\n\
             Document 003: the page allocator is 23.9 % of SLUB's profile, and next to nothing of \
             SLQB's."
        )?;
        let failures: BTreeMap<&str, usize> = recording
            .samples
            .iter()
            .filter_map(|sample| sample.failure.as_deref())
            .fold(BTreeMap::new(), |mut counts, failure| {
                *counts.entry(failure).or_default() += 1;
                counts
            });
        if !failures.is_empty() {
            bail!("samples failed: {failures:?}");
        }
        Ok(())
    }
}

fn variant_of(policies: &Policies) -> Variant {
    let name = policies.to_string();
    Variant { description: name.clone(), name }
}

fn row(recording: &Recording, variant: &str) -> Vec<String> {
    let rate = |m: &Measurement| m.operations as f64 * 1e9 / m.wall_ns as f64;
    let rounds = |variant: &str, value: &dyn Fn(&Measurement) -> f64| {
        recording.rounds_of(WORKLOAD, variant, value)
    };
    let median = |value: &dyn Fn(&Measurement) -> f64| {
        let values: Vec<f64> = rounds(variant, value).into_iter().flatten().collect();
        statistics::median(&values)
    };
    let cell = |value: &dyn Fn(&Measurement) -> f64, unit: &str| {
        median(value).map_or("failed".to_owned(), |value| table::figure(value) + unit)
    };
    let zone_locks = |m: &Measurement| m.counter("zone_lock") / m.operations as f64;
    let at_zone = |name: &'static str| {
        move |m: &Measurement| m.counter(name) * 100.0 / (m.operations as f64 * ALLOCS_PER_PACKET)
    };
    let contended =
        |m: &Measurement| m.counter("zone_contended") * 100.0 / m.counter("zone_lock").max(1.0);
    let slabs = |m: &Measurement| m.counter("slabs") * 1000.0 / m.operations as f64;
    let ratios =
        statistics::paired_ratios(&rounds(variant, &rate), &rounds(&recording.baseline, &rate));
    let ratios: Vec<f64> = ratios.into_iter().flatten().collect();
    let is_baseline = variant == recording.baseline;
    vec![
        variant.to_owned(),
        cell(&rate, ""),
        if is_baseline {
            "1".to_owned()
        } else {
            table::ratio(statistics::estimate(&ratios), None)
        },
        cell(&|m: &Measurement| m.cpu_ns as f64 / m.operations as f64, ""),
        cell(&zone_locks, ""),
        cell(&contended, " %"),
        cell(&at_zone("zone_allocs"), " %"),
        cell(&at_zone("zone_frees"), " %"),
        cell(&slabs, ""),
    ]
}
