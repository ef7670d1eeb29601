//! `quarry lab merge`: joins the shards of a run into one results directory.
//!
//! ```text
//! missing  the error for missing shards
//! found    which shards are there, and which of them are complete
//! joined   joins the shards into their run
//! ```
//!
//! The result equals a directory of `quarry lab run --out`, so readers of results need no code for
//! shards.

mod found;
mod joined;
mod missing;

pub use missing::Missing;

use crate::destination;
use crate::results::{self, RunDirectory};
use crate::table::counted;
use anyhow::{Context, Result};
use clap::Args;
use found::Found;
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
        let run = joined::join(found)?;
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
fn write(place: &Path, run: &results::Run) -> Result<()> {
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

#[cfg(test)]
mod tests;
