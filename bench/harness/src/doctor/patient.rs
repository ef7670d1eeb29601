//! The machine under examination: its files, and facts about this process.

use crate::affinity;
use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};

/// A machine. `root` is `/`, or in tests a folder with another machine's files.
#[derive(Clone, Debug)]
pub(super) struct Patient {
    /// The folder with `proc` and `sys`.
    pub(super) root: PathBuf,
    pub(super) allowed: Vec<usize>,
    pub(super) tunables: String,
    pub(super) glibc: String,
    pub(super) debug_builds: Vec<&'static str>,
    pub(super) measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Share of CPU time that the hypervisor gave to other machines, 0 to 1.
    pub(super) steal: f64,
    /// Number of CPUs that were busy while this process slept.
    pub(super) busy: f64,
    /// Smallest step between two readings of the monotonic clock, in ns.
    pub(super) clock_step_ns: f64,
    /// Standard deviation of a loop's durations divided by their mean.
    pub(super) variation: f64,
    /// Longest duration of the loop divided by the median.
    pub(super) worst: f64,
}

impl Patient {
    /// The trimmed text of a file; `None` if it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.root.join(path)).ok()?.trim().to_owned())
    }

    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The text after the colon in the first line of `file` that `name` begins.
    pub(super) fn field(&self, file: &str, name: &str) -> Option<String> {
        let text = self.text(file)?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        Some(fields.find(|(key, _)| key.trim() == name)?.1.trim().to_owned())
    }

    pub(super) fn hypervisor(&self) -> Option<String> {
        let flags = self.field("proc/cpuinfo", "flags").unwrap_or_default();
        let vendor = self.text("sys/class/dmi/id/sys_vendor");
        let known = ["QEMU", "VMware", "Xen", "innotek", "Microsoft", "Amazon EC2", "Google"];
        let is_known = |name: &String| known.iter().any(|it| name.contains(it));
        match self.text("sys/hypervisor/type") {
            Some(kind) => Some(kind),
            // Clouds give their bare-metal machines the vendor name of their virtual ones.
            None if flags.split(' ').any(|flag| flag == "hypervisor") => {
                Some(vendor.unwrap_or_else(|| "of an unknown kind".to_owned()))
            }
            // If CPUs have no such flag (aarch64), the vendor decides.
            None if flags.is_empty() => vendor.filter(is_known),
            None => None,
        }
    }

    pub(super) fn online(&self) -> usize {
        self.text("sys/devices/system/cpu/online")
            .map_or(0, |list| affinity::parse_list(&list).len())
    }

    /// Values of a control group's file in version 2 or 1, from the process's group outwards.
    pub(super) fn group_values(&self, v2: &str, controller: &str, v1: &str) -> Vec<String> {
        let groups = ProcessCGroups::from_file(self.root.join("proc/self/cgroup"));
        let mut values = Vec::new();
        for group in groups.into_iter().flatten() {
            let (base, file) = match group.controllers.iter().any(|it| it == controller) {
                true => (format!("sys/fs/cgroup/{controller}"), v1),
                false if group.hierarchy == 0 => ("sys/fs/cgroup".to_owned(), v2),
                false => continue,
            };
            let path = group.pathname.trim_matches('/');
            let folders = Path::new(path).ancestors();
            values.extend(folders.filter_map(|it| self.text(Path::new(&base).join(it).join(file))));
        }
        values
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tempfile::TempDir;

    pub(in crate::doctor) fn patient<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (TempDir, Patient) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = folder.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        let patient = Patient {
            root: folder.path().to_owned(),
            allowed: (0..16).collect(),
            tunables: String::new(),
            glibc: "2.36".to_owned(),
            debug_builds: Vec::new(),
            measured: None,
        };
        (folder, patient)
    }

    #[test]
    fn groups_are_followed_outwards() {
        let (_folder, patient) = patient([
            ("proc/self/cgroup", "3:cpu,cpuacct:/a\n0::/x/y\n"),
            ("sys/fs/cgroup/cpu/a/quota", "1"),
            ("sys/fs/cgroup/cpu/quota", "2"),
            ("sys/fs/cgroup/x/y/max", "3"),
            ("sys/fs/cgroup/x/max", "4"),
        ]);
        assert_eq!(patient.group_values("max", "cpu", "quota"), ["1", "2", "3", "4"]);
        assert_eq!(patient.group_values("max", "memory", "quota"), ["3", "4"]);
    }
}
