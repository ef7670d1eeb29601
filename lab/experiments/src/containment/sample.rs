//! A sample: jobs are added one by one, until a request for memory is refused.

use super::charged::CPUS;
use super::job::{Job, Recorded};
use super::machine::Machine;
use anyhow::{Context, Result};
use quarry_eras::slab::{SlabVisitor, with_slab_policy};
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_mm::frame::{FRAME_BYTES, FRAME_SHIFT};
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::VirtualSlots;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// Between two arrivals every job runs the fraction `PARTS / mib` of its program, on a memory of
/// `mib` MiB. So after equally many arrivals the jobs have taken the same steps under every policy.
const PARTS: usize = 16;

/// The figures, with units and decimals. They describe the state before the job that did not fit.
pub(crate) const FIGURES: [(&str, &str, u8); 6] = [
    ("jobs", "", 0),
    ("charged per job", "MiB", 2),
    ("of it slabs", "MiB", 2),
    ("slack in slabs", "MiB", 2),
    ("largest group", "MiB", 1),
    ("descriptors", "MiB of 64 GiB", 0),
];

/// A trace, and the number of file pages that the program uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traced {
    pub(crate) trace: PathBuf,
    pub(crate) file_pages: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainmentSample {
    pub(crate) slab: String,
    pub(crate) mix: Vec<Traced>,
    pub(crate) mib: u32,
    pub(crate) seed: u64,
}

/// Bytes in use at one moment.
#[derive(Clone, Copy, Default)]
struct Look {
    charged: usize,
    slabs: usize,
    in_objects: usize,
    largest_group: usize,
}

impl Look {
    fn at<S: SlabPolicy<VirtualSlots>>(machine: &Machine<S>) -> Self {
        let memory = &machine.memory;
        let (charged, largest) = memory.used();
        let [charged, slabs, largest_group] =
            [charged, memory.slabs.get(), largest].map(|frames| frames as usize * FRAME_BYTES);
        Self { charged, slabs, in_objects: machine.in_objects.get(), largest_group }
    }
}

impl Work for ContainmentSample {
    const NAME: &'static str = "containment";

    fn measure(self) -> Result<Measurement> {
        // The alarm that limits other samples would end this one too early.
        nix::unistd::alarm::set(3600);
        let read = |traced: &Traced| {
            let recorded = Recorded::read(&traced.trace)?;
            anyhow::ensure!(!recorded.steps.is_empty(), "{}: no job", traced.trace.display());
            Ok((recorded, traced.file_pages))
        };
        let mix: Vec<_> = self.mix.iter().map(read).collect::<Result<_>>()?;
        let packing = Packing { mix: &mix, mib: self.mib, seed: self.seed };
        let slab = &self.slab;
        with_slab_policy(slab, packing).with_context(|| format!("no slab policy {slab}"))?
    }
}

struct Packing<'a> {
    mix: &'a [(Recorded, usize)],
    mib: u32,
    seed: u64,
}

impl SlabVisitor<VirtualSlots> for Packing<'_> {
    type Output = Result<Measurement>;

    fn visit<S: SlabPolicy<VirtualSlots> + 'static>(self) -> Self::Output {
        let start = Instant::now();
        let machine = Machine::<S>::build(self.mib)?;
        let (mut jobs, mut fitted, mut last) = (Vec::new(), 0, Look::default());
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut order = Vec::new();
        loop {
            if order.is_empty() {
                order = (0..self.mix.len()).collect();
                order.shuffle(&mut random);
            }
            let (recorded, files) = &self.mix[order.pop().expect("a mix has jobs")];
            // All copies of a program share its files. The first copy pays for them.
            let files = if jobs.len() < self.mix.len() { *files } else { 0 };
            let cpu = random.random_range(0..CPUS);
            let Some(job) = Job::start(&machine, recorded, files, cpu) else { break };
            jobs.push(job);
            let job = jobs.last_mut().expect("it was added");
            // Each job begins at a random part of its program.
            let is_served = job.advance(random.random_range(0..job.life()));
            let part = |job: &Job<'_, S>| (job.life() * PARTS).div_ceil(self.mib as usize);
            if !is_served || !jobs.iter_mut().all(|job| job.advance(part(job))) {
                break;
            }
            (fitted, last) = (jobs.len(), Look::at(&machine));
        }
        let steps = jobs.iter().map(|job| job.steps).sum();
        jobs.into_iter().for_each(Job::end);
        machine.reclaim();
        machine.memory.check_at_end()?;
        let ns = start.elapsed().as_nanos() as u64;
        let window = Measurement::of_window(steps, ns, ns, ns, S::NAME);
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let mean = |bytes: usize| mib(bytes) / fitted.max(1) as f64;
        let values = [
            fitted as f64,
            mean(last.charged),
            mean(last.slabs),
            mean(last.slabs - last.in_objects),
            mib(last.largest_group),
            mib(S::BYTES_PER_FRAME << (36 - FRAME_SHIFT)),
        ];
        let figures = FIGURES.iter().map(|(name, ..)| (*name).to_owned()).zip(values);
        Ok(Measurement { verified: steps, figures: figures.collect(), ..window })
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::hoarder;
    use super::*;
    use quarry_eras::slab::SLAB_POLICIES;

    /// Adds copies of a job with `files` pages of files, until one does not fit.
    fn packed(slab: &str, (job, files): (Recorded, usize), mib: u32, seed: u64) -> Measurement {
        let mix = [(job, files)];
        let packing = Packing { mix: &mix, mib, seed };
        with_slab_policy(slab, packing).expect("a policy").expect("it ends")
    }

    /// 2 MiB of pages, then as much in small objects.
    fn small() -> Recorded {
        hoarder([1 << 20; 2].into_iter().chain((0..2_000).map(|at| 1 + at * 13 % 2_000)))
    }

    #[test]
    fn every_policy_packs_jobs_and_charges_nothing_at_the_end() {
        for policy in SLAB_POLICIES {
            let measurement = packed(policy.name, (small(), 100), 64, 3);
            let of = |name: &str| measurement.figures[name];
            let jobs = of("jobs");
            assert!((10.0..=25.0).contains(&jobs), "{}: {jobs} jobs", policy.name);
            assert!(of("largest group") > of("charged per job"), "{}", policy.name);
            assert!(of("of it slabs") > of("slack in slabs"), "{}", policy.name);
            assert!(of("charged per job") * jobs < 64.0, "{}", policy.name);
        }
    }

    #[test]
    fn the_same_seed_packs_the_same() {
        let figures = |seed| format!("{:?}", packed("slub-3.0", (small(), 10), 64, seed).figures);
        assert_eq!(figures(7), figures(7));
        assert_ne!(figures(7), figures(8));
    }

    #[test]
    fn what_a_group_may_not_have_fits_nowhere() {
        let short = || hoarder([1 << 12; 64].into_iter());
        assert_eq!(packed("slab", (short(), 40_000), 512, 1).figures["jobs"], 0.0, "its files");
        let long = hoarder([3 << 20; 64].into_iter());
        assert_eq!(packed("slab", (long, 0), 512, 1).figures["jobs"], 0.0, "its blocks");
    }
}
