//! Joins shards into their run.

use super::found::Found;
use crate::blocks::{Shape, Step};
use crate::results::{Run, Sample};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};

/// Joins all shards of a run; samples get the order of a run without shards. If several shards
/// measured the same workload, each has a warm-up sample of it. Of these samples the first failed
/// one is kept or, if none failed, the first one.
pub(super) fn join(found: Found) -> Result<Run> {
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
    let ranks = ranks(shape);
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

/// The position of each step (round, block, variant) in the run.
fn ranks(shape: Shape) -> HashMap<(u32, usize, usize), usize> {
    let mut ranks = HashMap::new();
    for (round, steps) in shape.schedule() {
        for Step { block, variant } in steps {
            ranks.insert((round, block, variant), ranks.len());
        }
    }
    ranks
}
