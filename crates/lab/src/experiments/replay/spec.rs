//! The description of an experiment that replays a kernel path.

use super::documents::Document;
use super::unit::Unit;
use crate::replay::kernels::Scenario;
use anyhow::Result;
use quarry_harness::nearest;
use quarry_harness::options::Defaults;

/// An experiment that replays a kernel path.
pub(crate) struct Spec {
    /// Defaults of `--variants`, of `--tasks`, and of `--tasks` with `--quick`.
    pub(super) defaults: [&'static str; 3],
    /// Its name.
    pub(crate) name: &'static str,
    /// In one line.
    pub(crate) about: &'static str,
    /// The text on what it models, and what it cannot show.
    pub(super) models: &'static str,
    /// CPUs of the document's machine.
    pub(super) declared_cpus: u32,
    /// The unit of its tables.
    pub(super) unit: Unit,
    /// Makes the rows that can be run.
    pub(super) rows: fn() -> Vec<Row>,
    /// The amount of work at a time, where that can be chosen.
    pub(super) amount: Option<Amount>,
    /// The figures that stand beside ours.
    pub(super) document: Document,
}

/// One line of an experiment's table.
pub(crate) struct Row {
    /// Its name in the document.
    pub(super) name: String,
    /// True if a short run takes it.
    pub(super) quick: bool,
    /// Bits of a message's payload.
    pub(super) bits: u64,
    /// True if received messages are counted, and not those sent.
    pub(super) received: bool,
    /// Makes the scenario that runs.
    pub(super) scenario: Box<dyn Fn(&Settings) -> Scenario>,
}

/// The settings of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Amount of work at a time.
    pub(super) amount: u32,
    /// Bytes of work outside of the allocator, per packet.
    pub(super) work: usize,
}

/// The choice of an experiment's size.
pub(super) struct Amount {
    /// Its meaning.
    pub(super) what: &'static str,
    /// The document's amount, or one that fits into a sample; 0 = as much as fills a socket.
    pub(super) usual: u32,
    /// In a short run.
    pub(super) quick: u32,
}

/// An experiment as a type: its defaults are part of the options' help.
pub(crate) trait Kind: Defaults {
    #[doc(hidden)]
    const SPEC: &'static Spec;
}

/// The part of the help that all experiments share.
const ALL_MODELS: &str = "Only memory is real: the kernel path's allocations and frees, in its \
order, by threads pinned to the CPUs in turn, on one stack whose zone all of them share. Payloads \
are copied in and out, and each is checked for what was sent. What else the path costs is stood \
in for by copies of a fixed size, committed before any variant ran. Where the kernel switches \
interrupts off, a stack takes a per-CPU try-lock or runs a restartable sequence; that is cheaper \
or dearer than the real thing by an unknown factor, and a thread that loses its CPU in between \
sends others of that CPU to the zone, which no kernel allows. The kernel's formulas follow \
--declared-cpus, but only the CPUs of this machine run: with two of them a lock is taken as often \
per operation as on many, but is seldom found held, and its line seldom travels, so rates show a \
lower bound of what a policy gains or loses. Locks per operation hardly depend on that: look at \
them first.";

const ALL_VARIANTS: &str = "A variant is SLAB+PCP, or SLAB+PCP+FREE_LIST, with values of \
QUARRY_PCP and QUARRY_FREE_LIST; the first is the baseline, and runs a second time as A/A copy.";

impl Spec {
    pub(super) fn help(&self) -> String {
        let amount = self.amount.as_ref().map_or(String::new(), |amount| {
            let usual = match amount.usual {
                0 => "as many as fill the socket's buffer".to_owned(),
                usual => usual.to_string(),
            };
            format!("\n\n--amount is {} [default: {usual}].", amount.what)
        });
        let Self { about, models, declared_cpus, .. } = self;
        format!(
            "{about}\n\n{models}\n\n{ALL_MODELS}\n\n{ALL_VARIANTS}{amount}\n\n--declared-cpus is \
             {declared_cpus} by default."
        )
    }

    /// The row of this name.
    pub(super) fn row(&self, name: &str) -> Result<Row> {
        let mut rows = (self.rows)();
        let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        match names.iter().position(|known| known == name) {
            Some(index) => Ok(rows.swap_remove(index)),
            None => Err(nearest::unknown("row", name, &names)),
        }
    }
}
