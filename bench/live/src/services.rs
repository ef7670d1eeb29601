//! The series of metrics: one for each process, or one for each service.

use crate::place::Pods;
use crate::snapshot::{Snapshot, sum};
use crate::total;
use std::collections::BTreeMap;

/// Number of counts in [`Series::counts`].
pub(crate) const COUNTS: usize = 2;

/// Figures with the labels under which they are exported.
#[derive(Debug)]
pub(crate) struct Series {
    /// Labels, separated by commas.
    pub(crate) labels: String,
    /// The figures of one process, or the sums of several.
    pub(crate) figures: Snapshot,
    /// The number of processes.
    pub(crate) workers: usize,
    /// The largest share of its limit that a process uses, in thousandths.
    pub(crate) limit_used: Option<u64>,
    /// The number of requests, and of those that reclaimed memory.
    pub(crate) counts: [u64; COUNTS],
}

impl Series {
    pub(crate) fn of_process(of: &Snapshot, pods: &Pods) -> Self {
        Self {
            labels: format!("pid=\"{}\",{}", of.process.pid, labels(of, pods)),
            figures: of.clone(),
            workers: 1,
            limit_used: limit_used(of),
            counts: counts(of),
        }
    }
}

fn labels(of: &Snapshot, pods: &Pods) -> String {
    format!("process=\"{}\"{}", of.process.name, of.process.place.labels(pods))
}

fn limit_used(of: &Snapshot) -> Option<u64> {
    let used = u128::from(of.budget.used) * 1000;
    of.budget.limit.map(|limit| u64::try_from(used / u128::from(limit.max(1))).unwrap_or(u64::MAX))
}

fn counts(of: &Snapshot) -> [u64; COUNTS] {
    let larger = ["block_allocs", "mapping_allocs"].map(|event| of.event(event));
    let requests = of.caches.iter().map(|it| it.allocs).chain(larger);
    [sum(requests), of.event("allocstall")]
}

/// The counts of each service, by its labels.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<String, Account>);

/// counts of a service = `ended` + the counts of `workers`
#[derive(Debug, Default)]
struct Account {
    /// The counts of workers that have ended.
    ended: [u64; COUNTS],
    /// Other workers by number: their counts when they were last seen.
    workers: BTreeMap<u32, Worker>,
}

#[derive(Debug)]
struct Worker {
    counts: [u64; COUNTS],
    /// True if it was not seen at the last reading. A record that is being written cannot be read,
    /// so only a worker that is missed twice has ended.
    is_missed: bool,
}

impl Ledger {
    /// The series of services: processes of one name in one place. O(processes * caches).
    pub(crate) fn services(&mut self, snapshots: &[Snapshot], pods: &Pods) -> Vec<Series> {
        let mut services: BTreeMap<String, Vec<Snapshot>> = BTreeMap::new();
        for snapshot in snapshots {
            services.entry(labels(snapshot, pods)).or_default().push(snapshot.clone());
        }
        for labels in services.keys() {
            self.0.entry(labels.clone()).or_default();
        }
        self.0.retain(|labels, account| {
            account.update(services.get(labels).map_or(&[], Vec::as_slice));
            !account.workers.is_empty()
        });
        let series = |(labels, workers): (String, Vec<Snapshot>)| Series {
            counts: self.0.get(&labels).map_or([0; COUNTS], Account::counts),
            figures: total::of(&workers),
            workers: workers.len(),
            limit_used: workers.iter().filter_map(limit_used).max(),
            labels,
        };
        services.into_iter().map(series).collect()
    }
}

impl Account {
    fn update(&mut self, seen: &[Snapshot]) {
        let before = std::mem::take(&mut self.workers);
        let worker = |it: &Snapshot| Worker { counts: counts(it), is_missed: false };
        self.workers = seen.iter().map(|it| (it.process.pid, worker(it))).collect();
        for (pid, old) in before {
            match self.workers.get(&pid) {
                // Counts that fell are those of another process with the same number.
                Some(new) if new.counts[0] >= old.counts[0] => {}
                None if !old.is_missed => {
                    self.workers.insert(pid, Worker { is_missed: true, ..old });
                }
                _ => self.ended = added(self.ended, old.counts),
            }
        }
    }

    fn counts(&self) -> [u64; COUNTS] {
        self.workers.values().fold(self.ended, |sum, it| added(sum, it.counts))
    }
}

fn added(one: [u64; COUNTS], other: [u64; COUNTS]) -> [u64; COUNTS] {
    std::array::from_fn(|at| one[at].saturating_add(other[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Cache, Identity};

    fn worker(pid: u32, allocs: u64) -> Snapshot {
        let cache = Cache { allocs, ..Cache::default() };
        let process = Identity { pid, ..Identity::default() };
        Snapshot { process, caches: vec![cache], ..Snapshot::default() }
    }

    #[test]
    fn a_counter_rises_while_workers_come_and_go() {
        let mut ledger = Ledger::default();
        let mut requests = |workers: &[Snapshot]| {
            let services = ledger.services(workers, &Pods::default());
            services.first().map(|it| it.counts[0])
        };
        assert_eq!(requests(&[worker(1, 100), worker(2, 10)]), Some(110));
        assert_eq!(requests(&[worker(2, 20)]), Some(120), "1 is missed once");
        assert_eq!(requests(&[worker(1, 101), worker(2, 20)]), Some(121), "it was there");
        assert_eq!(requests(&[worker(2, 20)]), Some(121));
        assert_eq!(requests(&[worker(2, 20), worker(3, 1)]), Some(122), "1 has ended");
        assert_eq!(requests(&[worker(2, 5), worker(3, 1)]), Some(127), "another one is 2 now");
        assert_eq!(requests(&[]), None);
        assert_eq!(requests(&[]), None);
        assert_eq!(requests(&[worker(4, 7)]), Some(7), "nothing is left of a service that ended");
    }

    #[test]
    fn the_fullest_worker_tells_how_near_the_limit_is() {
        let with = |pid, used, limit| {
            let mut it = worker(pid, 0);
            (it.budget.used, it.budget.limit) = (used, limit);
            it
        };
        let workers = [with(1, 50, Some(100)), with(2, 90, Some(1000)), with(3, 7, None)];
        let services = Ledger::default().services(&workers, &Pods::default());
        assert_eq!(services[0].limit_used, Some(500));
        assert_eq!(services[0].workers, 3);
        let services = Ledger::default().services(&workers[2..], &Pods::default());
        assert_eq!(services[0].limit_used, None);
    }
}
