//! The file of a document's machine: its hardware, the costs of operations, and the work that the
//! document's programs do besides memory management.

use anyhow::{Context, Result, bail};
use quarry_replay::documents::DOCUMENTS;
use quarry_sim::{CacheSizes, Costs, Topology, Waiting};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Machines of no document, by name.
const OTHERS: [(&str, &str); 2] = [
    ("two-cpus", include_str!("../data/machines/two-cpus.toml")),
    ("llfree", include_str!("../data/machines/llfree.toml")),
];

/// The files of all machines, by name: those of documents have the document's number.
fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_documents = DOCUMENTS.iter().map(|document| (document.number, document.machine));
    of_documents.filter(|(_, file)| !file.is_empty()).chain(OTHERS)
}

/// Fields of [`Costs`] that are not numbers. The file has them at its top level, not as constants.
const NO_CONSTANTS: [&str; 5] = ["ghz", "idle_states", "waiting", "frames_have_lines", "caches"];

/// A constant of a machine, with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Constant {
    pub(crate) value: f64,
    /// True if the value was chosen to make rows of the baseline come out right.
    #[serde(default)]
    pub(crate) fitted: bool,
    /// The source, or the rows that the constant was fitted to, for readers; never empty.
    pub(crate) from: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// The name of the file.
    #[serde(skip)]
    pub(crate) name: &'static str,
    /// A description of the machine for readers.
    pub(crate) about: String,
    sockets: u32,
    cores: u32,
    threads: u32,
    /// The clock in GHz while 1, 2, .. CPUs of a socket are busy; the last value holds for more.
    ghz: Vec<f64>,
    /// Idle states, each with the idle ns after which a CPU enters it, and the ns to leave it.
    #[serde(default)]
    idle_states: Vec<[u64; 2]>,
    /// How tasks wait for a lock.
    waiting: Waiting,
    /// True if each frame's descriptor has a cache line of its own, as in the kernel.
    frames_have_lines: bool,
    /// Sizes of the caches. None: a core keeps each line until another core takes it.
    caches: Option<CacheSizes>,
    /// Number of memory nodes that are declared to the stack.
    pub(crate) nodes: u8,
    /// Memory that is declared to the stack, in GiB; 0 if the amount does not matter.
    pub(crate) gib: u64,
    /// True for quick runs, which simulate a fifth of the time: to get a first idea, and for tests.
    #[serde(skip)]
    pub(crate) quick: bool,
    /// The halves of its usual time that a run measures.
    #[serde(skip, default = "two")]
    pub(crate) halves: u32,
    /// If set, each piece of work takes up to 1 % more or less, as drawn from this seed.
    #[serde(skip)]
    pub(crate) seed: Option<u64>,
    /// Other values of some constants that fit the rates as well; empty if none is known.
    #[serde(default)]
    pub(crate) other: BTreeMap<String, f64>,
    /// The constants by name: every number of [`Costs`], and the costs of the document's programs.
    pub(crate) constants: BTreeMap<String, Constant>,
}

fn two() -> u32 {
    2
}

impl MachineFile {
    /// The machine of this name, which must be one of [`files`].
    pub(crate) fn named(name: &str) -> Self {
        let (name, text) = files().find(|(known, _)| *known == name).expect("a file");
        let file: Self = toml::from_str(text).expect("a test reads each file");
        let mut sources = file.constants.values().map(|it| &it.from);
        assert!(sources.all(|it| !it.is_empty()), "{name}: a constant without its source");
        Self { name, ..file }
    }

    /// The value of a constant.
    ///
    /// # Panics
    /// If the file does not have it.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.constants.get(name).unwrap_or_else(|| panic!("no constant {name}")).value
    }

    /// The machine's CPUs. CPU numbers alternate between the sockets, as Quarry deals the CPUs of a
    /// declared machine to its nodes.
    pub(crate) fn topology(&self) -> Topology {
        let Self { sockets, cores, threads, .. } = *self;
        Topology { threads, interleaved: true, ..Topology::new(sockets, cores) }
    }

    /// The numbers of all CPUs; tasks take them in turn.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        (0..self.topology().cpus() as usize).collect()
    }

    /// The same CPUs in the order in which will-it-scale deals them to its tasks: task `i` goes to
    /// core `i` modulo the number of cores, as hwloc numbers them (main.c, `HWLOC_OBJ_CORE`).
    pub(crate) fn cpus_by_core(&self) -> Vec<usize> {
        self.topology().by_core().into_iter().map(|cpu| cpu as usize).collect()
    }

    /// The costs of the machine's operations.
    ///
    /// # Errors
    /// The file lacks a number of [`Costs`], or has an impossible one.
    pub(crate) fn costs(&self) -> Result<Costs> {
        let mut costs = serde_json::to_value(Costs::default())?;
        for (name, value) in costs.as_object_mut().context("costs have names")? {
            if NO_CONSTANTS.contains(&name.as_str()) {
                continue;
            }
            let Some(constant) = self.constants.get(name) else {
                bail!("{name} is missing: a machine has each constant of `Costs`");
            };
            *value = match value.is_u64() {
                true => Value::from(constant.value.round() as u64),
                false => Value::from(constant.value),
            };
        }
        let costs: Costs = serde_json::from_value(costs)?;
        let Self { waiting, frames_have_lines, caches, .. } = *self;
        let (ghz, idle_states) = (self.ghz.clone(), self.idle_states.clone());
        let costs = Costs { ghz, idle_states, waiting, frames_have_lines, caches, ..costs };
        costs.validate()?;
        Ok(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_all_constants_with_their_sources() {
        for (name, _) in files() {
            let machine = MachineFile::named(name);
            machine.topology().validate().unwrap();
            let costs = machine.costs().unwrap();
            assert_eq!(costs.socket_ns as f64, machine.value("socket_ns"), "{name}");
            assert_eq!(costs.smt_slowdown, machine.value("smt_slowdown"), "{name}");
        }
    }

    #[test]
    fn a_missing_constant_is_named() {
        let mut machine = MachineFile::named("004");
        machine.constants.remove("remote_ns");
        assert!(machine.costs().unwrap_err().to_string().contains("remote_ns"));
    }
}
