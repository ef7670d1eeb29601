//! The costs of a simulated machine.

use crate::topology::Topology;
use quarry_sys::primitive::Effort;
use serde::{Deserialize, Serialize};

/// How tasks wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// A ticket lock, as Linux had on x86 from 2.6.25 to 4.1. All waiting CPUs watch one line. A
    /// release takes the line away from all of them, and each fetches it again; on average, half of
    /// them do so before the next owner.
    Ticket,
    /// A queue lock, as in Linux from 4.2 on (`qspinlock`): a release moves the line once.
    Queued,
    /// Quarry's own lock in a process: a waiting task spins for a while, and then sleeps. A free
    /// lock goes to the first task that tries.
    Futex,
}

/// Sizes of caches, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSizes {
    /// The largest cache that a core has for itself.
    pub core_kib: usize,
    /// The cache that the cores of a socket share.
    pub socket_kib: usize,
}

/// Costs in simulated nanoseconds, unless a field says otherwise. All are free constants of a
/// machine; a machine's file names their sources. The defaults are those of a server from the years
/// of the documents (Xeon E5), from the literature: `lab/docs/simulator.md` has the sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// A load, store or locked instruction on a cache line that the CPU's core has.
    pub hit_ns: u64,
    /// The extra time of a locked instruction, wherever the line is.
    pub locked_ns: u64,
    /// An access to a line that another core of the socket has: the L3 cache forwards it.
    pub socket_ns: u64,
    /// An access to a line that another socket has.
    pub remote_ns: u64,
    /// An access to a line that no cache has.
    pub memory_ns: u64,
    /// A further miss of one access, or a line fetched ahead: hardware fetches several at a time.
    pub next_line_ns: u64,
    /// A restartable sequence, without the time for the lines that it uses.
    pub sequence_ns: u64,
    /// A critical section, besides the cache lines that its code reports.
    pub section_ns: u64,
    /// Moving a block into or out of a zone's free lists, besides the lines that this uses.
    pub zone_block_ns: f64,
    /// Moving a page onto or off an LRU list, besides the lines that this uses.
    pub lru_page_ns: f64,
    /// An allocation or free on the slow path of the slab policy, without the time for lines.
    pub slab_slow_ns: f64,
    /// Passing a lock on to the next task, besides the transfer of its line.
    pub hand_over_ns: u64,
    /// The extra time to pass a ticket lock on, for each further waiting task: half of the time
    /// that the cache directory needs to serve one request for the line.
    pub ticket_waiter_ns: u64,
    /// How long a task spins for a [`Waiting::Futex`] lock before it sleeps.
    pub spin_ns: u64,
    /// One round of a spinning wait: `pause`, and a load of the lock.
    pub relax_ns: u64,
    /// A system call that sleeps or wakes a task.
    pub call_ns: u64,
    /// From a wake-up until the task runs on an idle CPU, not counting the exit from an idle state.
    pub wake_ns: u64,
    /// The switch of a CPU from one task to the next.
    pub switch_ns: u64,
    /// How long a task may run while others wait for its CPU.
    pub slice_ns: u64,
    /// Bytes per nanosecond that one core can clear or copy.
    pub core_bytes_per_ns: f64,
    /// Bytes per nanosecond that the memory of one socket delivers to all its cores together.
    pub socket_bytes_per_ns: f64,
    /// The clock in GHz while 1, 2, .. CPUs of a socket are busy; the last value holds for more.
    /// Tasks state how long they compute at the first value. Empty: the clock stays the same.
    pub ghz: Vec<f64>,
    /// Idle states. Each has the time for which a CPU has been idle when it enters the state, and
    /// the time that its core takes to leave the state. Empty: leaving takes no time.
    pub idle_states: Vec<[u64; 2]>,
    /// The factor by which computing takes longer while another thread of the core is busy.
    pub smt_slowdown: f64,
    /// How tasks wait for locks.
    pub waiting: Waiting,
    /// True if each frame's descriptor has a line of its own, as in a kernel (`struct page`, 64
    /// bytes); false if neighbouring descriptors share lines, as in Quarry.
    pub frames_have_lines: bool,
    /// The number of lines that a critical section of a kernel fetches at a time: a processor goes
    /// on with the next page while a line of this one is still on its way.
    pub section_overlap: f64,
    /// Sizes of the caches. None: a cache keeps every line until another core takes it.
    pub caches: Option<CacheSizes>,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            // 4 to 5 cycles of L1 at 2.5 GHz and more (Intel, "Optimization Reference Manual").
            hit_ns: 2,
            // `section_ns` and `sequence_ns` include the time of the next four fields.
            locked_ns: 0,
            zone_block_ns: 0.0,
            lru_page_ns: 0.0,
            slab_slow_ns: 0.0,
            // D. Molka et al., "Cache Coherence Protocol and Memory Performance of the Intel
            // Haswell-EP Architecture", ICPP 2015: 30 to 50 ns for a line that another core has
            // modified, about 110 ns if that core is in the other socket, 96 ns for local memory.
            socket_ns: 45,
            remote_ns: 110,
            memory_ns: 96,
            // 64 bytes at the 10 bytes per ns of one core.
            next_line_ns: 6,
            // About a dozen instructions (docs/how-this-codebase-is-written.md, habit 5).
            sequence_ns: 3,
            section_ns: 20,
            hand_over_ns: 0,
            // S. Boyd-Wickizer et al., "Non-scalable locks are dangerous", Linux Symposium 2012: a
            // hand-over takes s + c * n / 2. Here c = 30 ns, the time to serve one request.
            ticket_waiter_ns: 15,
            // 100 rounds of 10 ns (`SPIN_ROUNDS` of quarry_sys::lock).
            spin_ns: 1_000,
            relax_ns: 10,
            // A futex call that sleeps or wakes, and the time until the woken task runs; the round
            // trip takes "about 5 us" (quarry_sys::lock).
            call_ns: 500,
            wake_ns: 2_000,
            switch_ns: 1_000,
            // `sched_min_granularity` of CFS with 8 CPUs and more: 0.75 ms * (1 + log2(8)).
            slice_ns: 3_000_000,
            // Molka et al.: one core reads about 10 GB/s, a socket about 60 GB/s.
            core_bytes_per_ns: 10.0,
            socket_bytes_per_ns: 60.0,
            // A program computes for as long as was measured on its own machine, without scaling.
            ghz: Vec::new(),
            idle_states: Vec::new(),
            smt_slowdown: 1.0,
            waiting: Waiting::Queued,
            frames_have_lines: false,
            section_overlap: 1.0,
            caches: None,
        }
    }
}

impl Costs {
    /// Costs of a machine on which only computing takes time, for comparison with formulas.
    #[must_use]
    pub fn none() -> Self {
        Self {
            hit_ns: 0,
            socket_ns: 0,
            remote_ns: 0,
            memory_ns: 0,
            next_line_ns: 0,
            sequence_ns: 0,
            section_ns: 0,
            ticket_waiter_ns: 0,
            spin_ns: 0,
            relax_ns: 1,
            call_ns: 0,
            wake_ns: 0,
            switch_ns: 0,
            slice_ns: u64::MAX,
            core_bytes_per_ns: f64::INFINITY,
            socket_bytes_per_ns: f64::INFINITY,
            ..Self::default()
        }
    }

    /// The text of a file of costs: a server of 2024.
    pub const OF_2024: &str = include_str!("../data/server-2024.toml");

    /// Reads costs from the text of a TOML file; costs that it does not name keep their defaults.
    ///
    /// # Errors
    /// An unknown field, or an impossible value.
    pub fn from_toml(text: &str) -> anyhow::Result<Self> {
        let costs: Self = toml::from_str(text)?;
        costs.validate()?;
        Ok(costs)
    }

    /// Checks that all values are possible.
    ///
    /// # Errors
    /// The first impossible value: a bandwidth or a clock that is not above 0, a slowdown or an
    /// overlap below 1, a time below 0, or no time for a round of waiting or a slice.
    pub fn validate(&self) -> anyhow::Result<()> {
        let bandwidths = [
            ("core_bytes_per_ns", self.core_bytes_per_ns),
            ("socket_bytes_per_ns", self.socket_bytes_per_ns),
        ];
        let clocks = self.ghz.iter().map(|ghz| ("ghz", *ghz));
        for (what, rate) in bandwidths.into_iter().chain(clocks) {
            anyhow::ensure!(rate > 0.0, "{what} = {rate}: accepted is what is above 0");
        }
        for (what, value, least) in [
            ("smt_slowdown", self.smt_slowdown, 1.0),
            ("section_overlap", self.section_overlap, 1.0),
            ("zone_block_ns", self.zone_block_ns, 0.0),
            ("lru_page_ns", self.lru_page_ns, 0.0),
            ("slab_slow_ns", self.slab_slow_ns, 0.0),
        ] {
            anyhow::ensure!(value >= least, "{what} = {value}: accepted is {least} and more");
        }
        for (what, ns) in [("relax_ns", self.relax_ns), ("slice_ns", self.slice_ns)] {
            anyhow::ensure!(ns > 0, "{what} = 0: waiting would never end; accepted is 1 and more");
        }
        Ok(())
    }

    /// The factor by which a task needs longer to compute than alone on its socket: `busy` CPUs of
    /// the socket are busy, and if `shares_core`, so is another thread of the task's core.
    #[must_use]
    pub fn slowdown(&self, busy: u32, shares_core: bool) -> f64 {
        let at = (busy.max(1) as usize).min(self.ghz.len());
        let by_clock = if at == 0 { 1.0 } else { self.ghz[0] / self.ghz[at - 1] };
        by_clock * if shares_core { self.smt_slowdown } else { 1.0 }
    }

    /// The time that a core takes to leave idleness after it has been idle for `idle_ns`.
    #[must_use]
    pub fn idle_exit_ns(&self, idle_ns: u64) -> u64 {
        let reached = self.idle_states.iter().take_while(|[after_ns, _]| *after_ns <= idle_ns);
        reached.last().map_or(0, |[_, exit_ns]| *exit_ns)
    }

    /// The time of one unit of an effort, in nanoseconds.
    #[must_use]
    pub fn effort_ns(&self, effort: Effort) -> f64 {
        match effort {
            Effort::ZoneBlock => self.zone_block_ns,
            Effort::LruPage => self.lru_page_ns,
            Effort::SlabSlow => self.slab_slow_ns,
        }
    }

    /// The time to fetch a cache line that another CPU has.
    #[must_use]
    pub fn transfer_ns(&self, on: &Topology, one: u32, other: u32) -> u64 {
        let is_apart = on.is_outside(one) || on.is_outside(other);
        if is_apart || on.core_of(one) == on.core_of(other) {
            self.hit_ns
        } else if on.socket_of(one) == on.socket_of(other) {
            self.socket_ns
        } else {
            self.remote_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_change_what_they_name() {
        let costs = Costs::from_toml("remote_ns = 200\nwaiting = 'ticket'").expect("accepted");
        assert_eq!((costs.remote_ns, costs.waiting), (200, Waiting::Ticket));
        assert_eq!(costs.hit_ns, Costs::default().hit_ns);
        Costs::none().validate().expect("the cheapest machine is one");
        let newer = Costs::from_toml(Costs::OF_2024).expect("accepted");
        assert_eq!((newer.waiting, newer.section_ns), (Waiting::Futex, costs.section_ns));
    }

    #[test]
    fn impossible_costs_are_refused() {
        let refusal = |text| Costs::from_toml(text).expect_err("refused").to_string();
        assert!(refusal("core_bytes_per_ns = 0.0").contains("core_bytes_per_ns = 0"));
        assert!(refusal("relax_ns = 0").contains("relax_ns"));
        assert!(refusal("hit = 3").contains("hit"));
        assert!(refusal("ghz = [3.0, 0.0]").contains("ghz = 0"));
        assert!(refusal("smt_slowdown = 0.5").contains("smt_slowdown = 0.5"));
        assert!(refusal("section_overlap = 0.5").contains("section_overlap = 0.5"));
        assert!(refusal("zone_block_ns = -1.0").contains("zone_block_ns = -1"));
    }

    #[test]
    fn a_line_takes_longer_from_farther_away() {
        let (on, costs) = (Topology { threads: 2, ..Topology::new(2, 3) }, Costs::default());
        let from = [7, 8, 9].map(|other| costs.transfer_ns(&on, 1, other));
        assert_eq!(from, [costs.hit_ns, costs.socket_ns, costs.remote_ns]);
        assert_eq!(costs.transfer_ns(&on, 0, 12), costs.hit_ns, "the one outside is nowhere");
    }

    #[test]
    fn a_core_that_was_idle_for_long_wakes_late() {
        let costs = Costs { idle_states: vec![[2, 1], [400, 133]], ..Costs::none() };
        assert_eq!([1, 2, 399, 400, 9_000].map(|ns| costs.idle_exit_ns(ns)), [0, 1, 1, 133, 133]);
        assert_eq!(Costs::none().idle_exit_ns(1), 0);
    }

    #[test]
    fn clocks_fall_with_busy_cpus_and_threads_share_a_core() {
        let costs = Costs { ghz: vec![3.0, 2.0, 1.5], smt_slowdown: 1.5, ..Costs::none() };
        let slowdowns = [0, 1, 2, 3, 4].map(|busy| costs.slowdown(busy, false));
        assert_eq!(slowdowns, [1.0, 1.0, 1.5, 2.0, 2.0]);
        assert_eq!(costs.slowdown(3, true), 3.0);
        assert_eq!(Costs::none().slowdown(64, true), 1.0);
    }
}
