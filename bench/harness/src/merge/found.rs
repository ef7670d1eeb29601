//! Finds the shards of a run.

use crate::results::{self, Run, below, read_end};
use crate::shard::{Part, Shard};
use crate::table::counted;
use crate::usage::Usage;
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Missing or unfinished shards, by number. A distinct exit status lets a program retake them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

pub(super) struct Found {
    pub(super) parts: BTreeMap<Shard, (PathBuf, Run)>,
    incomplete: Vec<String>,
}

impl Found {
    /// Looks for all shards of a run in `places`: shards, or directories of shards. Fails on shards
    /// of several runs (a usage error), on [`Missing`] ones, and on damaged files.
    pub(super) fn look(places: &[PathBuf]) -> Result<Self> {
        let mut found = Self { parts: BTreeMap::new(), incomplete: Vec::new() };
        for place in places {
            for shard in shards(place)? {
                found.add(shard)?;
            }
        }
        found.expect_all()?;
        Ok(found)
    }

    fn add(&mut self, place: PathBuf) -> Result<()> {
        let Some(end) = read_end(&place)? else {
            self.incomplete.push(format!("{}: was not finished", place.display()));
            return Ok(());
        };
        let run = results::read(&place)?;
        let Some(part) = run.meta.part.filter(|part| part.shard == end.shard) else {
            bail!("{}: meta.json and shard.json name different shards", place.display());
        };
        let samples = run.samples.len() as u64;
        if samples != end.samples {
            let (place, all) = (place.display(), end.samples);
            self.incomplete.push(format!("{place}: {samples} of {all} samples are there"));
            return Ok(());
        }
        expect_own_samples(&place, &run, part)?;
        if let Some((first, (at, other))) = self.parts.first_key_value() {
            let differences = run.meta.differences(&other.meta);
            ensure!(
                differences.is_empty(),
                Usage(format!(
                    "shard {} in {} and shard {first} in {} are of different runs:\n{}",
                    part.shard,
                    place.display(),
                    at.display(),
                    differences.join("\n")
                ))
            );
        }
        if let Some((at, other)) = self.parts.get(&part.shard) {
            ensure!(
                other.samples == run.samples,
                Usage(format!(
                    "shard {} is in {} and, with other samples, in {}; accepted: one of them",
                    part.shard,
                    at.display(),
                    place.display()
                ))
            );
            return Ok(());
        }
        self.parts.insert(part.shard, (place, run));
        Ok(())
    }

    /// Fails with [`Missing`] and the numbers in the form of `sbatch --array`.
    fn expect_all(&self) -> Result<()> {
        let Some(shard) = self.parts.keys().next() else {
            bail!(Missing(format!("no shard is complete:\n{}", self.incomplete.join("\n"))));
        };
        let is_missing = |it: &Shard| !self.parts.contains_key(it);
        let missing: Vec<String> =
            Shard::all(shard.of()).filter(is_missing).map(|it| it.number().to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let text = format!("missing of {} shards: {}", shard.of(), missing.join(","));
        let lines: Vec<&str> =
            std::iter::once(&text).chain(&self.incomplete).map(String::as_str).collect();
        bail!(Missing(lines.join("\n")))
    }
}

fn shards(place: &Path) -> Result<Vec<PathBuf>> {
    let refusal = |what: &str| {
        Usage(format!(
            "{}: {what}; accepted: a shard that `quarry lab run --shard K/N --out DIR` has made, \
             or its DIR",
            place.display()
        ))
    };
    if place.join("meta.json").exists() {
        if read_end(place)?.is_none() && results::read(place)?.meta.part.is_none() {
            bail!(refusal("a whole run"));
        }
        return Ok(vec![place.to_owned()]);
    }
    match below(place) {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => bail!(refusal("no shard is in it")),
        Err(error) => bail!(refusal(&error.root_cause().to_string())),
    }
}

/// Checks that every sample of a shard belongs to it, and occurs once.
fn expect_own_samples(place: &Path, run: &Run, part: Part) -> Result<()> {
    let mut own: HashSet<_> = run.meta.shape(part.warm_up).places().collect();
    for sample in &run.samples {
        ensure!(
            run.meta.place_of(sample).is_some_and(|it| own.remove(&it)),
            "{}: shard {} has no such sample, or has it twice: round {}, {} with {} on {}",
            place.display(),
            part.shard,
            sample.round,
            sample.workload,
            counted(sample.tasks, "task"),
            sample.variant
        );
    }
    Ok(())
}
