//! The facts about the machine that a reader of results needs, without names of hosts or users.

use crate::affinity;
use crate::table::counted;
use procfs::{CpuInfo, Current};
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// The machine as it was when a run began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of this project.
    pub quarry: String,
    /// Model of the CPU, with its family and number: on a virtual machine the name tells little.
    pub cpu: String,
    /// CPUs that the run could use.
    pub cpus: Vec<usize>,
    /// True on a virtual machine.
    pub virtual_machine: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the C library.
    pub glibc: String,
    /// Name of the distribution.
    pub distribution: String,
    /// Setting of transparent huge pages.
    pub thp: String,
    /// Frequency governor, if the machine shows it.
    pub governor: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: String,
    /// Options of Quarry in the environment, which hold for the samples on Quarry.
    pub quarry_options: Vec<String>,
    /// Findings of the doctor, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl Environment {
    /// Looks at this machine; the caller adds the doctor's findings.
    pub fn capture() -> Self {
        let cpuinfo = CpuInfo::current().ok();
        let field = |name: &str| Some(cpuinfo.as_ref()?.get_field(0, name)?.to_owned());
        let flags = field("flags").unwrap_or_default();
        Self {
            quarry: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: processor(field),
            cpus: affinity::allowed(),
            virtual_machine: flags.split(' ').any(|flag| flag == "hypervisor"),
            kernel: read("/proc/sys/kernel/osrelease"),
            glibc: glibc_version(),
            distribution: distribution(&read("/etc/os-release")),
            thp: bracketed(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            governor: Some(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
                .filter(|text| !text.is_empty()),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            quarry_options: std::env::vars()
                .filter(|(key, _)| key.starts_with("QUARRY_"))
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            ..Self::default()
        }
    }

    /// Returns the differences that make timings incomparable, one line each with both values.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let none = || "none".to_owned();
        let facts = |it: &Self| {
            [
                ("CPU", it.cpu.clone()),
                ("number of CPUs", it.cpus.len().to_string()),
                ("kernel", it.kernel.clone()),
                ("glibc", it.glibc.clone()),
                ("THP", it.thp.clone()),
                ("governor", it.governor.clone().unwrap_or_else(none)),
            ]
        };
        let pairs = facts(self).into_iter().zip(facts(other));
        let differ = pairs.filter(|(one, two)| one != two);
        differ.map(|((name, one), (_, two))| format!("{name} {one}, not {two}")).collect()
    }

    /// Returns one line for the head of a table.
    pub fn summary(&self) -> String {
        let machine = if self.virtual_machine { ", virtual machine" } else { "" };
        let Self { cpu, kernel, distribution, glibc, thp, load, .. } = self;
        let cpus = counted(self.cpus.len(), "CPU");
        format!(
            "{cpus} ({cpu}{machine}), Linux {kernel}, {distribution}, glibc {glibc}, THP {thp}, \
             load {load}"
        )
    }
}

fn processor(field: impl Fn(&str) -> Option<String>) -> String {
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    match (field("cpu family"), field("model")) {
        (Some(family), Some(model)) => format!("{name}, family {family}, model {model}"),
        _ => name,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Returns the version that `getconf` reports, such as 2.36.
pub fn glibc_version() -> String {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.trim().strip_prefix("glibc ").unwrap_or("unknown").to_owned()
}

fn distribution(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown distribution").trim_matches('"').to_owned()
}

/// The chosen word of a kernel setting such as `always [madvise] never`.
fn bracketed(setting: &str) -> String {
    let chosen = setting.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or("unknown", |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        assert_eq!(bracketed("always [madvise] never"), "madvise");
        assert_eq!(bracketed(""), "unknown");
        assert_eq!(distribution("ID=x\nPRETTY_NAME=\"A B 1\"\n"), "A B 1");
        assert_eq!(distribution(""), "unknown distribution");
    }

    #[test]
    fn processors_have_a_family_and_a_model_where_they_say_so() {
        let x86 = |name: &str| {
            let fields =
                [("model name", "Intel(R) Xeon(R)"), ("cpu family", "6"), ("model", "207")];
            let found = fields.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(processor(x86), "Intel(R) Xeon(R), family 6, model 207");
        assert_eq!(processor(|_| None), std::env::consts::ARCH);
    }

    #[test]
    fn machines_are_told_apart() {
        let one = Environment::capture();
        let mut two = one.clone();
        two.load = "9 9 9".to_owned();
        assert!(two.differences(&one).is_empty(), "load is no machine");
        two.thp = "sometimes".to_owned();
        assert_eq!(two.differences(&one), [format!("THP sometimes, not {}", one.thp)]);
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_kernel() {
        let environment = Environment::capture();
        assert!(!environment.cpus.is_empty());
        assert!(!environment.kernel.is_empty() && !environment.glibc.is_empty());
        assert!(!environment.summary().contains('\n'));
    }
}
