//! A memory control group for a program under test, if this machine permits one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::skipped;

/// A new control group below this process's. A drop, after the programs have ended, removes it.
pub(crate) struct Group {
    folder: PathBuf,
    version_2: bool,
}

impl Group {
    /// Creates a group, with a limit if given. If this machine does not permit that, prints that
    /// `what` is skipped, and why.
    pub(crate) fn create_or_skip(limit: Option<u64>, what: &str) -> Option<Self> {
        Self::create(limit).map_err(|why| skipped(&format!("{what}: {why}"))).ok()
    }

    fn create(limit: Option<u64>) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (parent, version_2) =
            own_group().ok_or("no control group of this process is mounted with memory")?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("quarry-test-{}-{number}", std::process::id()));
        let why = |error: std::io::Error| format!("no control group {}: {error}", folder.display());
        fs::create_dir(&folder).map_err(why)?;
        let group = Self { folder: folder.clone(), version_2 };
        // In version 2 a group has the controller only if its parent enables that.
        fs::read(group.usage_file()).map_err(why)?;
        if let Some(limit) = limit {
            let name = if version_2 { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(group.folder.join(name), limit.to_string()).map_err(why)?;
        }
        Ok(group)
    }

    /// The file through which a process joins the group.
    pub(crate) fn processes_file(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// The file with the memory use of the group.
    pub(crate) fn usage_file(&self) -> PathBuf {
        let name = if self.version_2 { "memory.current" } else { "memory.usage_in_bytes" };
        self.folder.join(name)
    }

    /// Number of processes that the kernel has killed because of the group's limit.
    pub(crate) fn kills(&self) -> u64 {
        let name = if self.version_2 { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If a failed test has left a process in the group, the group cannot be removed.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The folder of this process's group, and whether the group is of version 2.
fn own_group() -> Option<(PathBuf, bool)> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut version_2 = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "memory") {
            return existing("/sys/fs/cgroup/memory", path).map(|folder| (folder, false));
        }
        if controllers.is_empty() {
            version_2 = existing("/sys/fs/cgroup", path).map(|folder| (folder, true));
        }
    }
    version_2
}

/// In a container the path may be that on the host; then the root of the mount is the group.
fn existing(root: &str, path: &str) -> Option<PathBuf> {
    let (folder, root) = (Path::new(root).join(path), PathBuf::from(root));
    [folder, root].into_iter().find(|folder| folder.join("cgroup.procs").exists())
}
