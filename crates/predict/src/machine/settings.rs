//! What a machine is and what things take on it, from the file of a machine.

use anyhow::{Context, Result, bail};
use quarry_sys::primitive::Effort;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The files of the documents' machines, by name.
const FILES: [(&str, &str); 5] = [
    ("000-two-sockets", include_str!("../../data/machines/000-two-sockets.toml")),
    ("000-one-socket", include_str!("../../data/machines/000-one-socket.toml")),
    ("002", include_str!("../../data/machines/002.toml")),
    ("two-cpus", include_str!("../../data/machines/two-cpus.toml")),
    ("004", include_str!("../../data/machines/004.toml")),
];

/// A constant of a machine, with where it comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Constant {
    pub(crate) value: f64,
    /// True if it was chosen so that rows of the baseline come out.
    #[serde(default)]
    pub(crate) fitted: bool,
    /// Its source, or the rows that it was fitted to. Read by people, and checked to be there.
    pub(crate) from: String,
}

/// The file of a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// The machine, for people.
    pub(crate) about: String,
    sockets: usize,
    cores: usize,
    threads: usize,
    /// The clock with so many busy cores of a socket, in GHz; the last holds for more.
    ghz: Vec<f64>,
    /// Nodes of memory that the stack is told of.
    pub(crate) nodes: u8,
    /// Memory that it is told of, in GiB; 0 = it does not matter.
    pub(crate) gib: u64,
    /// The constants by name.
    pub(crate) constants: BTreeMap<String, Constant>,
}

impl MachineFile {
    /// The machine of this name.
    ///
    /// # Errors
    /// If there is none, or its file is not one.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
            bail!("no machine {name}; accepted: {}", known.join(", "));
        };
        let file: Self = toml::from_str(text).with_context(|| format!("machine {name}"))?;
        if let Some((name, _)) = file.constants.iter().find(|(_, it)| it.from.is_empty()) {
            bail!("{name}: a constant says where it comes from");
        }
        Ok(file)
    }

    /// The value of a constant.
    ///
    /// # Panics
    /// If the file does not have it.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.constants.get(name).unwrap_or_else(|| panic!("no constant {name}")).value
    }

    /// The machine as the engine has it.
    pub(crate) fn settings(&self) -> Settings {
        let ns = |name: &str| self.value(name).round() as u64;
        Settings {
            sockets: self.sockets,
            cores: self.cores,
            threads: self.threads,
            ghz: self.ghz.clone(),
            hit_ns: ns("hit_ns"),
            locked_ns: ns("locked_ns"),
            socket_transfer_ns: ns("socket_transfer_ns"),
            remote_transfer_ns: ns("remote_transfer_ns"),
            waiter_ns: ns("waiter_ns"),
            switch_ns: ns("switch_ns"),
            slice_ns: ns("slice_ns"),
            call_ns: ns("call_ns"),
            wake_ns: ns("wake_ns"),
            wake_latency_ns: ns("wake_latency_ns"),
            smt_slowdown: self.value("smt_slowdown"),
            core_ns_per_byte: 1.0 / self.value("core_bytes_per_ns"),
            socket_ns_per_byte: 1.0 / self.value("socket_bytes_per_ns"),
            zone_block_ns: self.value("zone_block_ns"),
            lru_page_ns: self.value("lru_page_ns"),
            slab_slow_ns: self.value("slab_slow_ns"),
        }
    }
}

/// A machine as the engine has it; times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) sockets: usize,
    cores: usize,
    threads: usize,
    ghz: Vec<f64>,
    /// A load or store that finds its line, and a locked operation that does.
    pub(crate) hit_ns: u64,
    pub(crate) locked_ns: u64,
    /// A line that another core has, of this socket or of another one.
    socket_transfer_ns: u64,
    remote_transfer_ns: u64,
    /// What each further waiter adds when a lock is handed over: with ticket locks all of them
    /// fetch its line anew; queued ones spin on lines of their own.
    pub(crate) waiter_ns: u64,
    /// A change of the task on a CPU, and the time after which one is due.
    pub(crate) switch_ns: u64,
    pub(crate) slice_ns: u64,
    /// What going to sleep takes.
    pub(crate) call_ns: u64,
    /// What waking another task takes, and the time until it runs.
    pub(crate) wake_ns: u64,
    pub(crate) wake_latency_ns: u64,
    /// How many times longer work takes while the other thread of the core works, too.
    smt_slowdown: f64,
    /// Clearing memory: by one core, and by all of a socket.
    pub(crate) core_ns_per_byte: f64,
    pub(crate) socket_ns_per_byte: f64,
    zone_block_ns: f64,
    lru_page_ns: f64,
    slab_slow_ns: f64,
}

impl Settings {
    /// CPUs, those of all sockets. CPU `n` is on socket `n % sockets`; the second threads of all
    /// cores follow their first.
    pub(crate) fn cpus(&self) -> usize {
        self.sockets * self.cores * self.threads
    }

    /// The socket of a CPU; none of the one that measures.
    pub(crate) fn socket(&self, cpu: usize) -> Option<usize> {
        (cpu < self.cpus()).then(|| cpu % self.sockets)
    }

    /// The other thread of a CPU's core.
    pub(crate) fn sibling(&self, cpu: usize) -> Option<usize> {
        let firsts = self.sockets * self.cores;
        (self.threads == 2).then(|| if cpu < firsts { cpu + firsts } else { cpu - firsts })
    }

    /// How many times longer work takes than at the highest clock.
    pub(crate) fn slowdown(&self, busy: usize, shares: bool) -> f64 {
        let at = busy.min(self.cores).clamp(1, self.ghz.len()) - 1;
        self.ghz[0] / self.ghz[at] * if shares { self.smt_slowdown } else { 1.0 }
    }

    /// The time until a line has come from another CPU.
    pub(crate) fn transfer(&self, to: usize, from: usize) -> u64 {
        match (self.socket(to), self.socket(from)) {
            (Some(one), Some(other)) if one != other => self.remote_transfer_ns,
            (Some(_), Some(_)) => self.socket_transfer_ns,
            // Whoever measures disturbs nobody.
            _ => self.hit_ns,
        }
    }

    /// Nanoseconds of one unit of an effort.
    pub(crate) fn effort(&self, effort: Effort) -> f64 {
        match effort {
            Effort::ZoneBlock => self.zone_block_ns,
            Effort::LruPage => self.lru_page_ns,
            Effort::SlabSlow => self.slab_slow_ns,
        }
    }
}
