//! `quarry show`: prints a running process as a file of the kernel.

use crate::live::Target;
use anyhow::Result;
use clap::ValueEnum;
use quarry_harness::Usage;
use quarry_live::{Snapshot, activity, buddyinfo, lockstat, slabinfo, vmstat, zoneinfo};
use std::ffi::OsString;
use std::io::Write;

/// Memory of a running process in the layout of a kernel file.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    #[arg(value_enum)]
    layout: Layout,
    /// slabinfo: most active caches first, as the kernel's own tool has it.
    #[arg(short = 'A', long)]
    activity: bool,
    /// slabinfo: allocations and frees instead of sizes, and the share that the fast path served.
    #[arg(short = 'D', long)]
    display_active: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Slab caches, as in /proc/slabinfo.
    Slabinfo,
    /// Free blocks by order, as in /proc/buddyinfo.
    Buddyinfo,
    /// Zones, watermarks and page lists, as in /proc/zoneinfo.
    Zoneinfo,
    /// Events, as in /proc/vmstat.
    Vmstat,
    /// Locks, as in /proc/lock_stat.
    Lockstat,
}

/// Lets a layout stand where a command does: `quarry slabinfo` is `quarry show slabinfo`.
pub(crate) fn with_layouts_as_commands(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let first = words.get(1).and_then(|word| word.to_str());
    if first.is_some_and(|word| Layout::from_str(word, false).is_ok()) {
        words.insert(1, "show".into());
    }
    words
}

pub(crate) fn run(args: &ShowArgs, out: &mut dyn Write) -> Result<()> {
    if args.layout != Layout::Slabinfo && (args.activity || args.display_active) {
        return Err(Usage("-A and -D: accepted with slabinfo only".to_owned()).into());
    }
    args.target.print(|snapshot| text(args, snapshot), out)
}

fn text(args: &ShowArgs, snapshot: &Snapshot) -> String {
    match args.layout {
        Layout::Slabinfo => {
            let mut snapshot = snapshot.clone();
            if args.activity {
                activity::most_active_first(&mut snapshot.caches);
            }
            match args.display_active {
                true => activity::table("", &snapshot.caches),
                false => slabinfo::text(&snapshot),
            }
        }
        Layout::Buddyinfo => buddyinfo::text(snapshot),
        Layout::Zoneinfo => zoneinfo::text(snapshot),
        Layout::Vmstat => vmstat::text(snapshot),
        Layout::Lockstat => lockstat::text(snapshot),
    }
}
