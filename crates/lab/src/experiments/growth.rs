//! `growth`: what it costs a heap to grow to a size, with populating and huge pages on and off.

use crate::FindLibrary;
use crate::allocators::{self, Allocator, GLIBC, QUARRY};
use crate::comparison::{Comparison, Group};
use crate::recording::{Measurement, Recording, Variant};
use crate::runner::{self, Design};
use crate::table;
use anyhow::{Result, bail};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// What it costs a heap to grow to a size, with populating and huge pages on and off.
///
/// A fresh process allocates objects of one size until there are so many MiB, and writes all of
/// them. An operation is 4 KiB of them. On a virtual machine the first touch of memory that the
/// host has not backed yet costs many times as much as later ones: the warm-up round pays for that,
/// and what counts are ratios to neighbours in time, with an A/A copy beside them.
#[derive(Args)]
pub struct Growth {
    /// Which allocators stand beside quarry and its variants.
    #[arg(long, value_delimiter = ',', default_value = "glibc,quarry")]
    allocators: Vec<String>,
    /// Sizes of the objects.
    #[arg(long, value_delimiter = ',', default_value = "64,1000,16000,200000")]
    sizes: Vec<usize>,
    /// How far the heap grows, in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Rounds after the warm-up round; below 6 there are no intervals.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Two rounds to 32 MiB.
    #[arg(long, conflicts_with_all = ["rounds", "mib"])]
    quick: bool,
    /// Seed of the order of samples [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// Write every raw sample to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Settings of Quarry that are compared; the first is the default and the baseline.
const SETTINGS: [(&str, &[(&str, &str)]); 4] = [
    (QUARRY, &[]),
    ("quarry POPULATE=0", &[("QUARRY_POPULATE", "0")]),
    ("quarry THP=0", &[("QUARRY_THP", "0")]),
    ("quarry neither", &[("QUARRY_POPULATE", "0"), ("QUARRY_THP", "0")]),
];

type Contender = (Allocator, &'static [(&'static str, &'static str)]);

impl Growth {
    /// Runs the experiment and prints its tables.
    pub(crate) fn run(mut self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            (self.rounds, self.mib) = (2, 32);
        }
        if let Some(size) = self.sizes.iter().find(|size| **size < 8) {
            bail!("--sizes {size}: objects have at least 8 bytes");
        }
        let found = allocators::find(&self.allocators, find_library)?;
        for absent in &found.absent {
            writeln!(out, "absent: {absent}")?;
        }
        let contenders = contenders(found.allocators);
        let Some(baseline) = contenders.first().map(|(allocator, _)| allocator.name.clone()) else {
            bail!("none of the allocators is there");
        };
        let copy = format!("{baseline} A/A");
        let design = Design {
            experiment: "growth".to_owned(),
            workloads: self.sizes.iter().map(workload).collect(),
            variants: contenders.iter().map(variant).collect(),
            baseline,
            rounds: self.rounds,
            seed: self.seed,
        };
        let recording = design.conduct(|size, contender| {
            let (allocator, settings) = &contenders[contender];
            let arguments = [
                "growth".to_owned(),
                format!("--size={}", self.sizes[size]),
                format!("--mib={}", self.mib),
            ];
            let preload = allocator.preload.as_deref();
            let measurement = runner::sample_with(&arguments, preload, settings)?;
            allocator.check(&measurement)?;
            Ok(measurement)
        });
        if let Some(path) = &self.json {
            recording.write(path)?;
        }
        self.print(&recording, copy, out)
    }

    fn print(&self, recording: &Recording, copy: String, out: &mut dyn Write) -> Result<()> {
        let workloads: Vec<String> = self.sizes.iter().map(workload).collect();
        let group = Group { name: "growth".to_owned(), workloads: workloads.clone() };
        let comparison = Comparison { recording, groups: vec![group], copy };
        writeln!(out, "{}", recording.environment.summary())?;
        writeln!(
            out,
            "Growth to {} MiB, {} rounds, seed {}; one operation is 4 KiB of objects.\n",
            self.mib, self.rounds, recording.seed
        )?;
        writeln!(out, "Medians:\n\n{}\n", comparison.medians())?;
        writeln!(
            out,
            "Time in relation to {} (above 1: slower than it), paired within blocks:\n\n{}\n",
            recording.baseline,
            comparison.ratios()
        )?;
        for (counter, title, unit) in
            [("faults", "page faults per 4 KiB", 0.0), ("resident", "resident, MiB", 1048576.0)]
        {
            let names = recording.variants.iter().map(|variant| variant.name.clone());
            let header = std::iter::once(title.to_owned()).chain(names).collect();
            let cell = |workload: &str, variant: &Variant| {
                let value = |measurement: &Measurement| {
                    let unit = if unit == 0.0 { measurement.operations as f64 } else { unit };
                    measurement.counter(counter) / unit
                };
                let rounds = recording.rounds_of(workload, &variant.name, value);
                let values: Vec<f64> = rounds.into_iter().flatten().collect();
                let median = crate::statistics::median(&values);
                median.map_or("failed".to_owned(), table::figure)
            };
            let rows = workloads.iter().map(|workload| {
                let cells = recording.variants.iter().map(|variant| cell(workload, variant));
                std::iter::once(workload.clone()).chain(cells).collect()
            });
            writeln!(out, "{}\n", table::render(header, rows.collect()))?;
        }
        let failures = comparison.failures();
        if !failures.is_empty() {
            bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }
}

/// Quarry with each of the settings first, a copy of the baseline among them, then the others.
fn contenders(allocators: Vec<Allocator>) -> Vec<Contender> {
    let (quarry, others): (Vec<_>, Vec<_>) =
        allocators.into_iter().partition(|allocator| allocator.name == QUARRY);
    let mut all: Vec<Contender> = Vec::new();
    for allocator in quarry {
        all.extend(SETTINGS.iter().map(|(name, settings)| {
            (Allocator { name: (*name).to_owned(), ..allocator.clone() }, *settings)
        }));
    }
    all.extend(others.into_iter().map(|allocator| (allocator, &[] as &[_])));
    if let Some((allocator, settings)) = all.first().cloned() {
        all.push((Allocator { name: format!("{} A/A", allocator.name), ..allocator }, settings));
    }
    all
}

fn variant((allocator, _): &Contender) -> Variant {
    let description = match allocator.name.as_str() {
        GLIBC => "the C library's own".to_owned(),
        _ => allocator.description.clone(),
    };
    Variant { name: allocator.name.clone(), description }
}

fn workload(size: &usize) -> String {
    format!("objects of {size} bytes")
}
