//! Allocators with their settings, as the variants of a run.

use crate::allocators::{self, Allocator, FindLibrary, Maybe};
use crate::known::KNOWN;
use anyhow::{Error, Result, bail};
use quarry_harness::launch::{self, Order};
use quarry_harness::results::{Measurement, Variant};
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use quarry_harness::usage::Usage;
use quarry_harness::watch::{self, Watched};
use std::io::Write;
use std::time::Duration;

/// An allocator with its settings.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name and its exact description.
    pub variant: Variant,
    /// The allocator that serves.
    pub allocator: Allocator,
    /// Environment variables that are set for the allocator.
    pub settings: Vec<(String, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) contenders: Vec<Contender>,
    /// For each absent contender, one line on how to install it.
    pub(super) absent: Vec<String>,
}

/// Collects what `look` finds under each name. Fails if `look` fails, or on a name given twice.
pub(super) fn sort(
    names: &[String],
    look: impl Fn(&str) -> Result<Maybe<Contender>>,
) -> Result<Found> {
    let mut found = Found::default();
    for name in names {
        match look(name)? {
            Err(advice) => found.absent.push(advice),
            Ok(it) if found.contenders.iter().any(|present| present.name() == it.name()) => {
                bail!(Usage(format!("allocator {} is named twice", it.name())));
            }
            Ok(it) => found.contenders.push(it),
        }
    }
    Ok(found)
}

/// Looks for allocators by name, `NAME=FILE` or `NAME=FILE.so:VARIABLE=VALUE`, and prints the
/// absent ones to `out`.
///
/// # Errors
/// An unknown name, a name given twice, or no allocator that is installed.
pub fn find(
    names: &[String],
    find_library: FindLibrary<'_>,
    out: &mut dyn Write,
) -> Result<Vec<Contender>> {
    let found = sort(names, |name| {
        let (name, setting) = split_setting(name);
        let found = allocators::find(&name, find_library)?.map(Contender::from);
        Ok(found.map(|it| match setting.or_else(|| needed(&name)) {
            Some(setting) => it.with(it.name(), &[setting]),
            None => it,
        }))
    })?;
    for absent in &found.absent {
        writeln!(out, "absent: {absent}")?;
    }
    if found.contenders.is_empty() {
        bail!("--variants: none of the allocators is there");
    }
    Ok(found.contenders)
}

/// The variable without which an allocator is not what its users have.
fn needed(name: &str) -> Option<(&'static str, &'static str)> {
    KNOWN.allocator(name)?.setting.split_once('=')
}

/// Splits the setting off `NAME=FILE.so:VARIABLE=VALUE`.
fn split_setting(specification: &str) -> (String, Option<(&str, &str)>) {
    let parts = specification.split_once(".so:");
    match parts.and_then(|(file, setting)| Some((file, setting.split_once('=')?))) {
        Some((file, setting)) => (format!("{file}.so"), Some(setting)),
        None => (specification.to_owned(), None),
    }
}

impl From<Allocator> for Contender {
    fn from(allocator: Allocator) -> Self {
        Self { variant: allocator.variant(), allocator, settings: Vec::new() }
    }
}

impl Contender {
    /// Returns the contender's name.
    pub fn name(&self) -> &str {
        &self.variant.name
    }

    /// Gives the same allocator another name and settings.
    pub fn with(&self, name: &str, settings: &[(&str, &str)]) -> Self {
        let pairs: Vec<String> =
            settings.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        let description = format!("{}{}", self.allocator.description, pairs.concat());
        let owned = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self {
            variant: Variant::new(name, &description),
            allocator: self.allocator.clone(),
            settings: owned.collect(),
        }
    }

    /// Makes the contender's A/A copy.
    pub fn copy(&self) -> Self {
        Self { variant: self.variant.copy(), ..self.clone() }
    }

    /// Takes one sample in a fresh process, and checks that this allocator served it.
    pub fn sample(&self, order: &Order) -> Result<Measurement> {
        let preload = self.allocator.preload.as_deref();
        let measurement = launch::sample(order, preload, &self.settings)?;
        self.allocator.check(&measurement).map_err(Error::msg)?;
        Ok(measurement)
    }

    /// Watches one sample while it runs ([`watch::watch`]), and checks its allocator.
    pub fn watch(
        &self,
        order: &Order,
        interval: Duration,
        last: (&str, Duration),
    ) -> Result<Watched> {
        let preload = self.allocator.preload.as_deref();
        let watched = watch::watch(order, preload, &self.settings, interval, last)?;
        self.allocator.check(&watched.1).map_err(Error::msg)?;
        Ok(watched)
    }
}

/// A sampler of this executable's work: each sample is a fresh process on the variant's contender.
pub struct OwnWork<F> {
    /// The contender of each variant.
    pub contenders: Vec<Contender>,
    /// The work of a sample.
    pub order: F,
}

impl<F: Fn(SampleKey) -> Order> Sampler for OwnWork<F> {
    fn sample(&self, key: SampleKey) -> Result<Taken, NoSample> {
        Ok(self.contenders[key.variant].sample(&(self.order)(key))?.into())
    }
}

/// The variants of a run.
pub fn variants(contenders: &[Contender]) -> Vec<Variant> {
    contenders.iter().map(|contender| contender.variant.clone()).collect()
}

/// The names of contenders.
pub fn names(contenders: &[Contender]) -> Vec<&str> {
    contenders.iter().map(Contender::name).collect()
}

/// Adds the A/A copy of the contender `baseline`.
pub fn add_copy(contenders: &mut Vec<Contender>, baseline: &str) {
    let copy = contenders.iter().find(|it| it.name() == baseline).map(Contender::copy);
    contenders.extend(copy);
}

#[cfg(test)]
mod tests {
    use super::{needed, split_setting};

    #[test]
    fn a_setting_follows_a_file() {
        let with = "linked=target/libquarry-slam.so:QUARRY_SLAM_MODE=linked";
        let file = "linked=target/libquarry-slam.so".to_owned();
        assert_eq!(split_setting(with), (file.clone(), Some(("QUARRY_SLAM_MODE", "linked"))));
        assert_eq!(split_setting(&file), (file.clone(), None));
        assert_eq!(split_setting("jemalloc"), ("jemalloc".to_owned(), None));
    }

    #[test]
    fn a_known_allocator_gets_the_variable_that_it_needs() {
        assert_eq!(needed("google-tcmalloc"), Some(("GLIBC_TUNABLES", "glibc.pthread.rseq=0")));
        assert_eq!([needed("jemalloc"), needed("a=/x.so"), needed("glibc")], [None; 3]);
    }
}
