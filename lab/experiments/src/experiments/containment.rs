//! `containment`: how many recorded jobs fit on a machine, each in a group of 128 MiB.

use super::plan::*;
use super::replay::rates;
use crate::containment::{ContainmentSample, FIGURES, Traced};
use crate::seeds::range;
use quarry_harness::judge::{Column, Selection};
use std::path::PathBuf;

const MIX: &str = "mix";

/// How many recorded jobs (--jobs) fit on a machine, each in a group of 128 MiB.
///
/// As in document 002, all jobs share the caches of one kernel, and a group pays for each page (of
/// a slab, of a block above `kmalloc`'s largest, or of a file) that its job is the first to need.
/// Jobs of the mix are added in turn, each at a random point of its program, and run again when
/// they end. Before the next job comes, each job runs for 16 / M of its program, where M is the MiB
/// of memory: the same steps under every policy. The run ends when the machine or a group refuses
/// memory although all caches have given back what they could. The jobs before the last one fitted.
///
/// The machine has 16 CPUs and 4 nodes. Every round has a seed of its own, the same for all
/// variants.
#[derive(Args)]
pub(super) struct Containment {
    #[command(flatten)]
    common: Common<Containment>,
    /// The mix: traces of `quarry record`, each with the KiB of files that its program has in use.
    #[arg(long, value_delimiter = ',', value_name = "TRACE[=KIB]", value_parser = traced)]
    jobs: Vec<Traced>,
    /// The memory, in MiB.
    #[arg(long, default_value = "1024", value_parser = clap::value_parser!(u32).range(64..=16384))]
    mib: u32,
}

impl Defaults for Containment {
    const VARIANTS: &'static str = "slub-3.0,slub-3.1,slab,slqb,slub-4.9,slam,sheaf-6.18,sheaf";
    // As few as give an interval.
    const SAMPLES: &'static str = "6";
    const QUICK_SAMPLES: &'static str = "1";
}

fn traced(text: &str) -> Result<Traced, String> {
    let (trace, kib) = text.rsplit_once('=').unwrap_or((text, "0"));
    let kib: usize = kib.parse().map_err(|_| format!("{kib} is no number of KiB"))?;
    Ok(Traced { trace: PathBuf::from(trace), file_pages: kib.div_ceil(4) })
}

impl Plan for Containment {
    const NAME: &'static str = "containment";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<ContainmentSample>());

    fn stage(self, _lab: &mut Lab<'_>) -> Result<Staged> {
        let variants = slab_policies(&self.common, "slab")?;
        let workloads = workloads([MIX]);
        self.common.check_early()?;
        if self.jobs.is_empty() {
            bail!(Usage("--jobs: no trace of `quarry record`".to_owned()));
        }
        let (count, mix, mib) = (counted(self.jobs.len(), "job"), self.jobs, self.mib);
        let slabs = self.common.variants.clone();
        let sampler = move |key: SampleKey| {
            let (slab, seed) = (slabs[key.variant].clone(), u64::from(key.round) + 1);
            let sample = ContainmentSample { slab, mix: mix.clone(), mib, seed };
            Ok(launch::sample(&sample.order(), None, &[])?.into())
        };
        let metric = |(name, unit, digits): &(&str, &str, u8)| {
            Metric::new(name, unit, Direction::None, name).digits(*digits)
        };
        let mut metrics: Vec<Metric> = FIGURES.iter().map(metric).collect();
        (metrics[0].primary, metrics[0].direction) = (true, Direction::Higher);
        let mut plan = experiment(&self.common, variants, workloads, sampler)?.option("mib", mib);
        plan.about = format!("a mix of {count} on {mib} MiB, in a fresh process.");
        (plan.meta.metrics, plan.warm_up) = (metrics, false);
        let staged = Staged::new(plan, |run, out| {
            Ok(writeln!(out, "Medians:\n\n{}", by_variant(run, MIX, "slab policy").text())?)
        });
        Ok(staged.first(move |run, out| Ok(writeln!(out, "{}\n", answer(run, mib))?)))
    }
}

/// The answer in two sentences: how many jobs fit under each policy, and whether more than under
/// the baseline.
fn answer(run: &Run, mib: u32) -> String {
    let of = Selection::of(run);
    let Some(row) = of.rows.first() else {
        return "No job fitted: no sample was taken.".to_owned();
    };
    let fitted = |column: &Column<'_>| {
        let jobs = of.samples(column, *row, of.metric).into_iter();
        format!("{} under {}", range(jobs, |it| it.to_string()), column.label)
    };
    let fitted: Vec<String> = of.originals().map(fitted).collect();
    format!(
        "In groups of 128 MiB, so many jobs fit into {mib} MiB: {} (median and range of {}).\n{}",
        fitted.join(", "),
        counted(run.meta.rounds as usize, "seed"),
        rates(&of)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples;

    #[test]
    fn the_answer_has_the_jobs_of_each_policy_and_a_verdict() {
        let jobs =
            |more: f64| (0..6).map(|seed| Some(50.0 + more + f64::from(seed))).collect::<Vec<_>>();
        let (slab, more) = (jobs(0.0), jobs(10.0));
        let run = examples::run("slab", &[("slab", &slab), ("slam", &more)]);
        let text = answer(&run, 256);
        assert!(
            text.contains("into 256 MiB: 52.5 [50, 55] under slab, 62.5 [60, 65] under slam"),
            "{text}"
        );
        assert!(text.contains("beside slab: ") && text.contains("under slam"), "{text}");
    }
}
