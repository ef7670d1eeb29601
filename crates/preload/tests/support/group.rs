//! A memory control group of its own for a program under test, where this machine permits one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::skipped;

/// A fresh group below our own; removed when it is dropped, which is after its programs have ended.
pub(crate) struct Group {
    folder: PathBuf,
    version_2: bool,
}

impl Group {
    /// Creates one, with a limit if there is to be one. Where this machine does not permit it, says
    /// that `what` is skipped, and why.
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
        // Version 2 gives a group the controller only where its parent hands it down.
        fs::read(group.usage_file()).map_err(why)?;
        if let Some(limit) = limit {
            let name = if version_2 { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(group.folder.join(name), limit.to_string()).map_err(why)?;
        }
        Ok(group)
    }

    /// The file that a process joins the group by.
    pub(crate) fn processes_file(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// The file that says how much memory the group has.
    pub(crate) fn usage_file(&self) -> PathBuf {
        let name = if self.version_2 { "memory.current" } else { "memory.usage_in_bytes" };
        self.folder.join(name)
    }

    /// Processes that the kernel has killed because the group had met its limit.
    pub(crate) fn kills(&self) -> u64 {
        let name = if self.version_2 { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group whose process a failed test has left stays; nothing can be done about it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The folder of the group that this process is in, and whether it is one of version 2.
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

/// In a container the path may be that of the host; then the root of the mount is the group.
fn existing(root: &str, path: &str) -> Option<PathBuf> {
    let (folder, root) = (Path::new(root).join(path), PathBuf::from(root));
    [folder, root].into_iter().find(|folder| folder.join("cgroup.procs").exists())
}
