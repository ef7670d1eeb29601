//! The program that takes the samples. It links the compared caches, which this command does not.

use anyhow::{Context, Result, bail};
use quarry_compare::allocators::peer_folders;
use quarry_harness::launch::{self, SAMPLE_COMMAND};
use quarry_harness::results::Measurement;
use quarry_harness::{nearest, options};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "cache-hit";

/// Names of the variants that the program of this version has. With these and `WORKLOADS`, options
/// can be checked even if the program is not built.
const VARIANTS: [&str; 10] = [
    "quarry",
    "quick_cache",
    "moka",
    "foyer",
    "vmcache",
    "vmcache-shared",
    "swizzle",
    "lru",
    "s3-fifo",
    "active-inactive",
];
const WORKLOADS: [&str; 7] =
    ["hot-4-mib", "hot-uniform", "hot-zipf-0.9", "zipf-0.9", "scan", "loop", "twice"];

#[derive(Clone, Deserialize)]
pub(super) struct Cache {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) is_simulator: bool,
}

#[derive(Clone, Deserialize)]
pub(super) struct Work {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) fits: bool,
}

/// The program, as it describes itself.
#[derive(Deserialize)]
pub(super) struct Program {
    #[serde(skip)]
    file: PathBuf,
    variants: Vec<Cache>,
    pub(super) workloads: Vec<Work>,
}

/// Tells the program which sample to take. The program refuses unknown fields.
#[derive(Serialize)]
pub(super) struct Order<'a> {
    pub(super) variant: &'a str,
    pub(super) workload: &'a str,
    pub(super) tasks: u32,
    pub(super) cpus: &'a [usize],
    pub(super) mib: u32,
    pub(super) rounds: u32,
    pub(super) latency_us: u64,
    pub(super) seed: u64,
}

/// Checks the name of a variant.
pub(super) fn check_variant(name: &str) -> Result<()> {
    match VARIANTS.contains(&name) {
        true => Ok(()),
        false => Err(nearest::unknown("cache --variants", name, &VARIANTS)),
    }
}

/// The workloads whose names begin with one of `prefixes`; without prefixes all.
pub(super) fn workloads(prefixes: &[String]) -> Result<Vec<&'static str>> {
    options::named(WORKLOADS.to_vec(), prefixes, "workload --only", |_| true)
}

impl Program {
    /// Finds the program in a folder of peers, and checks its variants and workloads.
    pub(super) fn find() -> Result<Self> {
        let files = peer_folders().into_iter().map(|folder| folder.join(PROGRAM));
        let Some(file) = files.into_iter().find(|file| file.is_file()) else {
            bail!(
                "{PROGRAM}: not built; `make caches` builds it, and QUARRY_PEERS names its folder"
            )
        };
        let output = Command::new(&file).arg("list").output();
        let output = output.with_context(|| format!("cannot run {}", file.display()))?;
        if !output.status.success() {
            bail!("{PROGRAM} list: {}", launch::end_of(&output));
        }
        let found: Option<Self> = serde_json::from_slice(&output.stdout).ok();
        let is_this = |found: &Self| {
            found.variants.iter().map(|it| &it.name).eq(VARIANTS)
                && found.workloads.iter().map(|it| &it.name).eq(WORKLOADS)
        };
        let Some(found) = found.filter(is_this) else {
            bail!("{} is of another version; `make caches` builds it anew", file.display())
        };
        Ok(Self { file, ..found })
    }

    pub(super) fn chosen(&self, names: &[String]) -> Vec<Cache> {
        let of = |name: &String| self.variants.iter().find(|it| it.name == *name).cloned();
        names.iter().filter_map(of).collect()
    }

    /// Takes a sample in a fresh process.
    pub(super) fn sample(&self, order: &Order<'_>) -> Result<Measurement> {
        let mut command = Command::new(&self.file);
        command.arg(SAMPLE_COMMAND).arg(PROGRAM).arg(serde_json::to_string(order)?);
        launch::preload_into(&mut command, None);
        let output = command.output().with_context(|| format!("cannot start {PROGRAM}"))?;
        let measurement = launch::answer_of(&output, &output.stdout)?;
        if measurement.served_by != order.variant {
            bail!("was meant for {}, but served by {}", order.variant, measurement.served_by);
        }
        Ok(measurement)
    }
}
