//! The machine that is looked at: its files, and what only this process knows.

use std::fs;
use std::path::PathBuf;

/// A machine. `root` is `/`, or a folder with the files of another one in tests.
#[derive(Clone, Debug)]
pub(super) struct Patient {
    /// Where `proc` and `sys` are.
    pub(super) root: PathBuf,
    /// CPUs that this process may run on.
    pub(super) allowed: Vec<usize>,
    /// `GLIBC_TUNABLES`.
    pub(super) tunables: String,
    /// Version of glibc, such as 2.36.
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
    /// The text of a file, trimmed; `None` where it cannot be read or is empty.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A field of `/proc/cpuinfo`, of the first CPU.
    pub(super) fn cpuinfo(&self, field: &str) -> Option<String> {
        let text = self.read("proc/cpuinfo")?;
        let line =
            text.lines().find(|line| line.split(':').next().map(str::trim) == Some(field))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    /// Returns the hypervisor that it runs on, if any.
    pub(super) fn hypervisor(&self) -> Option<String> {
        let flags = self.cpuinfo("flags").unwrap_or_default();
        let vendor = self.read("sys/class/dmi/id/sys_vendor");
        let known = ["QEMU", "VMware", "Xen", "innotek", "Microsoft", "Amazon EC2", "Google"];
        let is_known = |name: &String| known.iter().any(|it| name.contains(it));
        match self.read("sys/hypervisor/type") {
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
        self.read("sys/devices/system/cpu/online").map_or(0, |list| count(&list))
    }

    /// The values of a control group's file, from the process's own group to the outermost; of both
    /// versions, `controller` being that of version 1.
    pub(super) fn group_values(&self, v2: &str, controller: &str, v1: &str) -> Vec<String> {
        let groups = self.read("proc/self/cgroup").unwrap_or_default();
        let mut values = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let (base, file) = match controllers {
                "" => ("sys/fs/cgroup".to_owned(), v2),
                list if list.split(',').any(|it| it == controller) => {
                    (format!("sys/fs/cgroup/{controller}"), v1)
                }
                _ => continue,
            };
            let mut path = path.trim_matches('/').to_owned();
            loop {
                let folder = format!("{base}/{path}");
                values.extend(self.read(&format!("{}/{file}", folder.trim_end_matches('/'))));
                match path.rfind('/') {
                    Some(end) => path.truncate(end),
                    None if path.is_empty() => break,
                    None => path.clear(),
                }
            }
        }
        values
    }
}

/// Returns how many numbers a list such as `0-3,8` has.
fn count(list: &str) -> usize {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<usize>().ok()?, to.trim().parse::<usize>().ok()?);
        (from..=to).size_hint().1
    };
    list.split(',').filter_map(range).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::finding::Finding;
    use super::*;
    use tempfile::TempDir;

    /// A machine about which there is nothing to say but its files.
    pub(in crate::doctor) fn patient(files: &[(&str, &str)]) -> (TempDir, Patient) {
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

    /// The one finding about something, by an examination of a machine with these files.
    pub(in crate::doctor) fn found_by(
        examination: fn(&Patient) -> Vec<Finding>,
        files: &[(&str, &str)],
        about: &str,
    ) -> Option<Finding> {
        let (_folder, patient) = patient(files);
        examination(&patient).into_iter().find(|finding| finding.about == about)
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(["0", "0-3", "0-3,8,10-11", "", "x-y", "5-2"].map(count), [1, 4, 7, 0, 0, 0]);
    }

    #[test]
    fn groups_are_followed_outwards() {
        let (_folder, patient) = patient(&[
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
