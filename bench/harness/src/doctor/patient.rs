//! The machine that is looked at: its files, and what only this process knows.

use crate::affinity;
use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};

/// A machine. `root` is `/`, or a folder with the files of another one in tests.
#[derive(Clone, Debug)]
pub(super) struct Patient {
    /// Where `proc` and `sys` are.
    pub(super) root: PathBuf,
    /// CPUs that this process may run on.
    pub(super) allowed: Vec<usize>,
    pub(super) tunables: String,
    pub(super) glibc: String,
    /// Binaries that are built without optimisation.
    pub(super) debug_builds: Vec<&'static str>,
    /// Measured properties; `None` where nothing was measured.
    pub(super) measured: Option<Measured>,
}

/// Properties that take a moment to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Share of CPU time that the hypervisor gave to other machines, 0 to 1.
    pub(super) steal: f64,
    /// CPUs that were busy while this process slept.
    pub(super) busy: f64,
    /// Smallest step of the monotonic clock that two calls see, in ns.
    pub(super) clock_step_ns: f64,
    /// Standard deviation of a loop's durations in relation to their mean.
    pub(super) variation: f64,
    /// Longest duration of the loop in relation to the median.
    pub(super) worst: f64,
}

impl Patient {
    /// The text of a file, trimmed; `None` where it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.root.join(path)).ok()?.trim().to_owned())
    }

    /// Names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The value of the first line of a file that begins with a name and a colon.
    pub(super) fn field(&self, file: &str, name: &str) -> Option<String> {
        let text = self.text(file)?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        Some(fields.find(|(key, _)| key.trim() == name)?.1.trim().to_owned())
    }

    /// Returns the hypervisor that it runs on, if any.
    pub(super) fn hypervisor(&self) -> Option<String> {
        let flags = self.field("proc/cpuinfo", "flags").unwrap_or_default();
        let vendor = self.text("sys/class/dmi/id/sys_vendor");
        let known = ["QEMU", "VMware", "Xen", "innotek", "Microsoft", "Amazon EC2", "Google"];
        let is_known = |name: &String| known.iter().any(|it| name.contains(it));
        match self.text("sys/hypervisor/type") {
            Some(kind) => Some(kind),
            // Metal instances of clouds have the same vendor as their virtual machines.
            None if flags.split(' ').any(|flag| flag == "hypervisor") => {
                Some(vendor.unwrap_or_else(|| "of an unknown kind".to_owned()))
            }
            // Where CPUs have no such flag (aarch64), the vendor of the machine says it.
            None if flags.is_empty() => vendor.filter(is_known),
            None => None,
        }
    }

    /// CPUs that are online.
    pub(super) fn online(&self) -> usize {
        self.text("sys/devices/system/cpu/online")
            .map_or(0, |list| affinity::parse_list(&list).len())
    }

    /// The values of a control group's file, from the process's own group to the outermost; of both
    /// versions, `controller` being that of version 1.
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

    /// A machine about which there is nothing to say but its files.
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
