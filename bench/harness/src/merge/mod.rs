//! `quarry lab merge`: joins the shards of a run into one results directory.
//!
//! The result equals a directory of `quarry lab run --out`, so readers of results need no code for
//! shards.

mod found;

use crate::blocks::Shape;
use crate::destination;
use crate::results::{self, Run, RunDirectory, Sample};
use crate::table::counted;
use anyhow::{Context, Result};
use clap::Args;
use found::Found;
pub use found::Missing;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Join the shards of a run.
///
/// The shards must be of one run: the same command and seed, the same versions of everything that
/// is compared, and comparable machines. If they differ, the differences are named and nothing is
/// written. If shards are missing or unfinished, they are named, nothing is written, and the exit
/// status is 3.
#[derive(Args)]
pub struct MergeArgs {
    /// Shards that `quarry lab run .. --shard K/N --out DIR` has made, or the directories that
    /// contain them.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Directory of the whole run. It must be new or empty.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl MergeArgs {
    /// Reads the shards, writes the run and prints its place to `out`.
    ///
    /// # Errors
    /// A usage error, where shards do not belong together; [`Missing`]; damaged files or failed
    /// writes; failures of samples, after all is written.
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        results::prepare(&self.out)?;
        let found = Found::look(&self.directories)?;
        let of = found.parts.len();
        let run = join(found)?;
        write(&self.out, &run)?;
        for warning in &run.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        let (samples, place) = (run.samples.len(), self.out.display());
        let [of, samples] = [(of, "shard"), (samples, "sample")].map(|(n, what)| counted(n, what));
        writeln!(out, "{of}, {samples}: {place}")?;
        run.expect_no_failures()
    }
}

/// Writes a run in one step, so that no reader finds half of it.
fn write(place: &Path, run: &Run) -> Result<()> {
    let cannot = || format!("--out {}: cannot be written", place.display());
    let parent = place.canonicalize().with_context(cannot)?;
    let parent = parent.parent().unwrap_or(&parent);
    let mut partial = destination::partial(parent, "merge.partial-").with_context(cannot)?;
    partial.disable_cleanup(false);
    let mut directory = RunDirectory::create(partial.path(), &run.meta)?;
    for sample in &run.samples {
        directory.append(sample)?;
    }
    directory.sync()?;
    // `rename` replaces an empty directory in one step.
    fs::rename(partial.path(), place).with_context(cannot)?;
    partial.disable_cleanup(true);
    Ok(())
}

/// Joins all shards of a run; samples get the order of a run without shards. If several shards
/// measured the same workload, each has a warm-up sample of it. Of these samples the first failed
/// one is kept or, if none failed, the first one.
fn join(found: Found) -> Result<Run> {
    let mut runs = found.parts.into_values().map(|(_, run)| run);
    let first = runs.next().context("there is a shard")?;
    let (mut meta, mut warnings) = (first.meta, first.warnings);
    let part = meta.part.take().context("a shard says which it is")?;
    let shape = Shape { shard: None, ..meta.shape(part.warm_up) };
    let mut samples = first.samples;
    for run in runs {
        samples.extend(run.samples);
        warnings.extend(run.warnings);
        for finding in run.meta.environment.findings {
            if !meta.environment.findings.contains(&finding) {
                meta.environment.findings.push(finding);
            }
        }
        if let (Some(origin), Some(other)) = (&mut meta.origin, run.meta.origin) {
            origin.began = origin.began.min(other.began);
        }
    }
    meta.options.insert("shards".to_owned(), part.shard.of().to_string());
    let ranks: HashMap<_, usize> = shape.places().zip(0..).collect();
    let mut ranked: BTreeMap<usize, Sample> = BTreeMap::new();
    for sample in samples {
        let place = meta.place_of(&sample).context("a sample of the run")?;
        let rank = ranks[&place];
        let is_better = |present: &Sample| present.failure.is_none() && sample.failure.is_some();
        if ranked.get(&rank).is_none_or(is_better) {
            ranked.insert(rank, sample);
        }
    }
    Ok(Run { meta, samples: ranked.into_values().collect(), warnings })
}

#[cfg(test)]
mod tests;
