//! Counters of the kernel's tracepoints, by `perf_event_open`.
//!
//! A counter is opened on this process before it has other threads. Threads and processes that it
//! starts later inherit the counter, so counts are those of the process tree. Work that the kernel
//! defers (RCU, writeback, kernel threads) counts only if it happens to interrupt the tree.

use anyhow::Context;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use quarry_harness::affinity;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The tracepoints to count, as far as the kernel has them.
pub(crate) const TRACEPOINTS: [&str; 18] = [
    "kmem:mm_page_alloc",
    "kmem:mm_page_alloc_zone_locked",
    "kmem:mm_page_pcpu_drain",
    "kmem:mm_page_free",
    "kmem:mm_page_free_batched",
    // The names of these two before Linux 3.3.
    "kmem:mm_page_free_direct",
    "kmem:mm_pagevec_free",
    "kmem:kmalloc",
    "kmem:kmem_cache_alloc",
    // Linux 6.1 merged the next two into the two above.
    "kmem:kmalloc_node",
    "kmem:kmem_cache_alloc_node",
    "kmem:kfree",
    "kmem:kmem_cache_free",
    "filemap:mm_filemap_add_to_page_cache",
    "filemap:mm_filemap_delete_from_page_cache",
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_wakeup_kswapd",
    "lock:contention_begin",
];

const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// The sample's process, with the threads and processes that it starts.
    #[default]
    Tree,
    /// All processes of the machine, on the CPUs that this process may use.
    Machine,
}

/// The reason why the kernel does not count for this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{missing}; {remedy}")]
pub(crate) struct Refusal {
    pub(crate) missing: String,
    /// The setting or right that the user lacks.
    pub(crate) remedy: String,
}

/// The folder of the kernel's events, and the processes whose events count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Events {
    tracefs: PathBuf,
    scope: Scope,
}

impl Events {
    /// Looks for the events, in `tracefs` if that is given, and opens a counter as a trial.
    pub(crate) fn find(tracefs: Option<&Path>, scope: Scope) -> Result<Self, Refusal> {
        let mounts = tracefs.map_or_else(|| MOUNTS.map(PathBuf::from).into(), |it| vec![it.into()]);
        let mut denied = None;
        for mount in mounts {
            match fs::metadata(mount.join("events/kmem")) {
                Ok(_) => {
                    let events = Self { tracefs: mount, scope };
                    events.open()?;
                    return Ok(events);
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(mount),
                Err(_) => {}
            }
        }
        Err(match denied {
            Some(mount) => Refusal {
                missing: format!("{} may not be read", mount.display()),
                remedy: format!(
                    "run as root, or `sudo mount -o remount,mode=755 {}` and \
                     `sudo sysctl kernel.perf_event_paranoid=1`",
                    mount.display()
                ),
            },
            None => Refusal {
                missing: "no tracefs with events of kmem is mounted".to_owned(),
                remedy: "`sudo mount -t tracefs tracefs /sys/kernel/tracing` gives one where the \
                         kernel has CONFIG_TRACING; a container needs it from its host"
                    .to_owned(),
            },
        })
    }

    /// The events of a guest, where `scripts/witness-init` mounts them.
    pub(crate) fn of_guest() -> Self {
        Self { tracefs: "/trace".into(), scope: Scope::Tree }
    }

    /// Opens a counter for each tracepoint that the kernel has. The counters do not count yet.
    pub(crate) fn open(&self) -> Result<Counts, Refusal> {
        let mut counts = Counts(Vec::new());
        for name in TRACEPOINTS {
            if let Some(id) = self.id(name)? {
                counts.0.push((name, self.counters(id).map_err(|it| refused(name, &it))?));
            }
        }
        if counts.0.is_empty() {
            return Err(Refusal {
                missing: format!("{} has none of the tracepoints", self.tracefs.display()),
                remedy: "a kernel with CONFIG_TRACEPOINTS has them".to_owned(),
            });
        }
        Ok(counts)
    }

    /// Returns the number of the tracepoints that the kernel has.
    pub(crate) fn present(&self) -> usize {
        TRACEPOINTS.iter().filter(|name| self.id(name).is_ok_and(|id| id.is_some())).count()
    }

    /// The id of a tracepoint; `None` if the kernel does not have it.
    fn id(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let file = self.tracefs.join("events").join(name.replace(':', "/")).join("id");
        let broken = |missing| Refusal { missing, remedy: "run as root".to_owned() };
        match fs::read_to_string(&file) {
            Ok(text) => match text.trim().parse() {
                Ok(id) => Ok(Some(id)),
                Err(_) => Err(broken(format!("{} has no number", file.display()))),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(broken(format!("{}: {error}", file.display()))),
        }
    }

    fn counters(&self, id: u64) -> Result<Vec<Counter>, Error> {
        let mut builder = Builder::new(Tracepoint::with_id(id));
        builder.include_kernel();
        match self.scope {
            Scope::Tree => Ok(vec![builder.inherit(true).build()?]),
            Scope::Machine => {
                let cpus = affinity::allowed().into_iter();
                cpus.map(|cpu| builder.any_pid().one_cpu(cpu).build()).collect()
            }
        }
    }
}

fn refused(name: &str, error: &Error) -> Refusal {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|_| "absent".to_owned(), |it| it.trim().to_owned());
    Refusal {
        missing: format!("perf_event_open refuses {name}: {error}"),
        remedy: format!(
            "run as root or with CAP_PERFMON, or `sudo sysctl kernel.perf_event_paranoid=1` (it is \
             {paranoid}); a container needs a seccomp profile that lets the call through"
        ),
    }
}

pub(crate) struct Counts(Vec<(&'static str, Vec<Counter>)>);

impl Counts {
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        self.each(|counter| counter.enable())
    }

    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.each(|counter| counter.disable())
    }

    fn each(
        &mut self,
        mut act: impl FnMut(&mut Counter) -> Result<(), Error>,
    ) -> anyhow::Result<()> {
        for (name, counters) in &mut self.0 {
            counters
                .iter_mut()
                .try_for_each(&mut act)
                .with_context(|| format!("counter {name}"))?;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self) -> anyhow::Result<Vec<(&'static str, u64)>> {
        let sum = |(name, counters): &mut (&'static str, Vec<Counter>)| {
            let counts = counters.iter_mut().map(|counter| counter.read());
            let sum = counts.sum::<Result<u64, Error>>();
            Ok((*name, sum.with_context(|| format!("counter {name}"))?))
        };
        self.0.iter_mut().map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracefs(ids: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("events/kmem")).unwrap();
        for (name, id) in ids {
            let place = folder.path().join("events").join(name.replace(':', "/"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("id"), id).unwrap();
        }
        folder
    }

    fn refusal(tracefs: &Path) -> String {
        let refusal = Events::find(Some(tracefs), Scope::Tree).err();
        refusal.map_or_else(String::new, |it| it.to_string())
    }

    #[test]
    fn a_refusal_names_what_is_missing_and_what_gives_it() {
        let said = refusal(Path::new("/no/such"));
        assert!(
            said.starts_with("no tracefs with events of kmem is mounted; `sudo mount"),
            "{said}"
        );
        let empty = tracefs(&[]);
        let said = refusal(empty.path());
        assert!(said.contains("has none of the tracepoints; a kernel with CONFIG_"), "{said}");
        let odd = tracefs(&[("kmem:kmalloc", "many\n")]);
        assert!(refusal(odd.path()).contains("kmem/kmalloc/id has no number; run as root"));
        // No kernel has a tracepoint with such a high number.
        let unknown = tracefs(&[("kmem:kmalloc", "4000000000\n")]);
        let said = refusal(unknown.path());
        assert!(said.starts_with("perf_event_open refuses kmem:kmalloc: "), "{said}");
        assert!(said.contains("; run as root or with CAP_PERFMON, or `sudo sysctl"), "{said}");
    }

    #[test]
    fn counts_are_those_of_threads_too() {
        let Ok(events) = Events::find(None, Scope::Tree) else {
            return println!("skipped: the kernel does not count for this process");
        };
        let mut counts = events.open().unwrap();
        counts.start().unwrap();
        let pages = 1000;
        let touch = move || {
            let mut memory = memmap2::MmapMut::map_anon(pages << 12).unwrap();
            memory.chunks_mut(1 << 12).for_each(|page| page[0] = 1);
        };
        std::thread::spawn(touch).join().unwrap();
        counts.stop().unwrap();
        let counted = |counts: &mut Counts| counts.read().unwrap()[0];
        let (name, count) = counted(&mut counts);
        assert_eq!(name, "kmem:mm_page_alloc");
        assert!(count >= 1000, "{count} pages");
        assert_eq!(counted(&mut counts).1, count, "a stopped counter stands still");
    }
}
