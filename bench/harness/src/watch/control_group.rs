//! A memory control group for one sample, if the machine permits it.

use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct ControlGroup {
    folder: PathBuf,
    usage: PathBuf,
}

impl ControlGroup {
    /// Creates a group; `None` without permission or without the memory controller.
    pub(super) fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (parent, usage) = own_group()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("quarry-lab-{}-{number}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self { usage: folder.join(usage), folder };
        // In version 2 the file exists only if the parent group delegates the memory controller.
        fs::read(&group.usage).ok()?;
        Some(group)
    }

    pub(super) fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        fs::read_to_string(&self.usage).ok()?.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // This fails only while a process of the group lives; the group then stays.
        let _ = fs::remove_dir(&self.folder);
    }
}

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

/// In a container the path may be the host's; then the root of the mount is the group.
fn existing(root: &str, path: &str) -> Option<PathBuf> {
    [Path::new(root).join(path), PathBuf::from(root)]
        .into_iter()
        .find(|folder| folder.join("cgroup.procs").exists())
}
