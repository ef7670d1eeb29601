//! The CPUs of a machine.

use serde::{Deserialize, Serialize};

/// Maximum number of CPUs of a machine.
pub const MOST_CPUS: u32 = 4096;

/// The CPUs of a machine. As in Linux on x86 servers, the first CPU numbers are the first threads
/// of all cores, either socket by socket or alternating between sockets, as the firmware decides.
/// The second threads follow in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Number of sockets; each is one node.
    pub sockets: u32,
    /// Number of cores of each socket.
    pub cores: u32,
    /// Number of threads of each core.
    pub threads: u32,
    /// True if CPU `n` is on socket `n % sockets`; else a socket's cores have successive numbers.
    pub interleaved: bool,
}

impl Topology {
    /// A machine of `sockets` sockets with `cores` cores each, and one thread per core.
    #[must_use]
    pub fn new(sockets: u32, cores: u32) -> Self {
        Self { sockets, cores, threads: 1, interleaved: false }
    }

    /// Checks that such a machine is possible.
    ///
    /// # Errors
    /// A count of 0, or more than [`MOST_CPUS`] CPUs.
    pub fn validate(&self) -> anyhow::Result<()> {
        for (what, count) in
            [("sockets", self.sockets), ("cores", self.cores), ("threads", self.threads)]
        {
            anyhow::ensure!(count > 0, "{what} = 0: a machine has one at least");
        }
        let cpus = u64::from(self.sockets) * u64::from(self.cores) * u64::from(self.threads);
        anyhow::ensure!(cpus <= u64::from(MOST_CPUS), "{cpus} CPUs: {MOST_CPUS} are accepted");
        Ok(())
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.sockets * self.cores * self.threads
    }

    /// Number of cores of all sockets.
    #[must_use]
    pub fn all_cores(&self) -> u32 {
        self.sockets * self.cores
    }

    /// The core of a CPU, counted socket by socket.
    #[must_use]
    pub fn core_of(&self, cpu: u32) -> u32 {
        let turn = cpu % self.all_cores();
        if self.interleaved { turn % self.sockets * self.cores + turn / self.sockets } else { turn }
    }

    /// The CPUs that share the core of `cpu`, including `cpu`.
    pub fn siblings(&self, cpu: u32) -> impl Iterator<Item = u32> + use<> {
        let (first, cores) = (cpu % self.all_cores(), self.all_cores());
        (0..self.threads).map(move |thread| first + thread * cores)
    }

    /// All CPUs: the first threads of the cores, socket by socket, then the second threads in the
    /// same order. hwloc numbers cores in this order.
    #[must_use]
    pub fn by_core(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = (0..self.cpus()).collect();
        cpus.sort_by_key(|cpu| (cpu / self.all_cores(), self.core_of(*cpu)));
        cpus
    }

    /// Returns whether this is the CPU outside the sockets, where a measuring task disturbs no
    /// other.
    #[must_use]
    pub fn is_outside(&self, cpu: u32) -> bool {
        cpu >= self.cpus()
    }

    /// The socket of a CPU, which is its node.
    #[must_use]
    pub fn socket_of(&self, cpu: u32) -> u32 {
        self.core_of(cpu) / self.cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_threads_come_after_all_cores() {
        let mut machine = Topology { threads: 2, ..Topology::new(2, 3) };
        let sockets: Vec<u32> = (0..12).map(|cpu| machine.socket_of(cpu)).collect();
        assert_eq!(sockets, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
        machine.interleaved = true;
        let sockets: Vec<u32> = (0..12).map(|cpu| machine.socket_of(cpu)).collect();
        assert_eq!(sockets, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(machine.siblings(8).collect::<Vec<_>>(), [2, 8]);
        assert_eq!(machine.by_core(), [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }

    #[test]
    fn impossible_machines_are_refused() {
        let of = |sockets| Topology { threads: 2, ..Topology::new(sockets, 64) };
        assert!(of(2).validate().is_ok());
        let refusal = |sockets| of(sockets).validate().expect_err("refused").to_string();
        assert!(refusal(0).contains("sockets = 0"));
        assert!(refusal(64).contains("8192 CPUs: 4096"));
        let with_caches = r#"{"sockets":1,"cores":1,"threads":1,"interleaved":false,"caches":1}"#;
        let unknown = serde_json::from_str::<Topology>(with_caches).expect_err("refused");
        assert!(unknown.to_string().contains("unknown field `caches`"), "{unknown}");
    }
}
