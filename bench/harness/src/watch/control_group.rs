//! A memory control group of its own for a sample, where the machine permits one.

use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh group below our own; removed when dropped.
pub(super) struct ControlGroup {
    folder: PathBuf,
    usage: PathBuf,
}

impl ControlGroup {
    /// Creates one; `None` where there is no right to, or no memory controller.
    pub(super) fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (parent, usage) = own_group()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("quarry-lab-{}-{number}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self { usage: folder.join(usage), folder };
        // In version 2 of control groups, a group has the memory controller, and so this file, only
        // if its parent hands the controller down.
        fs::read(&group.usage).ok()?;
        Some(group)
    }

    /// The file that a process joins the group by.
    pub(super) fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Bytes that the group is charged for.
    pub(super) fn bytes(&self) -> Option<u64> {
        fs::read_to_string(&self.usage).ok()?.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Fails only while a process of the group lives on; then the group is left to it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The folder of this process's group, and the name of the file that counts its memory.
fn own_group() -> Option<(PathBuf, &'static str)> {
    let groups = ProcessCGroups::from_file("/proc/self/cgroup").ok()?.0;
    let v1 = groups.iter().find(|it| it.controllers.iter().any(|name| name == "memory"));
    let (root, usage) = match v1 {
        Some(_) => ("/sys/fs/cgroup/memory", "memory.usage_in_bytes"),
        None => ("/sys/fs/cgroup", "memory.current"),
    };
    let group = v1.or_else(|| groups.iter().find(|it| it.hierarchy == 0))?;
    Some((existing(root, group.pathname.trim_start_matches('/'))?, usage))
}

/// In a container the path may be that of the host; then the root of the mount is the group.
fn existing(root: &str, path: &str) -> Option<PathBuf> {
    [Path::new(root).join(path), PathBuf::from(root)]
        .into_iter()
        .find(|folder| folder.join("cgroup.procs").exists())
}
