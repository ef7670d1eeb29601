//! `quarry slabinfo`: prints the slab caches of a running process.

use crate::live::Target;
use anyhow::Result;
use quarry_live::{Snapshot, activity, slabinfo};
use std::io::Write;

/// Slab caches of a running process, as /proc/slabinfo has them.
///
/// The options are those of the kernel's own tool: `slabinfo -AD` prints allocations and frees, and
/// the share of each that the fast path served.
#[derive(clap::Args)]
pub(crate) struct SlabinfoArgs {
    /// Most active caches first.
    #[arg(short = 'A', long)]
    activity: bool,
    /// Print allocations and frees instead of sizes.
    #[arg(short = 'D', long)]
    display_active: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &SlabinfoArgs, out: &mut dyn Write) -> Result<()> {
    let text = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        if args.activity {
            activity::most_active_first(&mut snapshot.caches);
        }
        match args.display_active {
            true => activity::table("", &snapshot.caches),
            false => slabinfo::text(&snapshot),
        }
    };
    args.target.print(text, out)
}
