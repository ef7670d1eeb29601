//! The doctor's checks: `checks.toml`, and functions for checks that a file's text does not decide.

use super::patient::{Measured, Patient};
use crate::table::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A fact for readers of results; nothing is wrong.
    Note,
    /// Timings spread or shift.
    Warning,
    /// Timings do not mean what they seem to mean.
    Serious,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        ["note", "warning", "serious"][self as usize]
    }
}

/// A fact that makes timings untrustworthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject.
    pub about: String,
    /// Its weight.
    pub severity: Severity,
    /// The observation.
    pub seen: String,
    /// The effect on timings.
    pub why: String,
    /// The command that mends it, or advice; empty if nothing helps.
    pub mend: String,
}

/// An entry of `checks.toml`, whose head describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    about: String,
    severity: Severity,
    #[serde(default)]
    file: String,
    r#if: Option<Condition>,
    #[serde(default)]
    look: String,
    seen: Option<String>,
    why: String,
    #[serde(default)]
    mend: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Is(String),
    IsNot(Vec<String>),
    Chosen(String),
    Above(f64),
}

impl Condition {
    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Is(wanted) => text == wanted,
            Self::IsNot(usual) => !usual.iter().any(|it| it == text),
            Self::Chosen(word) => text.contains(&format!("[{word}]")),
            Self::Above(limit) => text.parse::<f64>().is_ok_and(|it| it > *limit),
        }
    }
}

impl Check {
    fn seen(&self, patient: &Patient) -> Option<String> {
        let found = match &self.r#if {
            Some(condition) => patient.text(&self.file).filter(|text| condition.holds(text)),
            None => {
                let look = LOOKS.iter().find(|(name, _)| *name == self.look);
                look.expect("checks.toml names functions of this file").1(patient)
            }
        }?;
        Some(self.seen.as_ref().map_or(found, |seen| seen.replace("{file}", &self.file)))
    }
}

pub(super) fn examine(patient: &Patient) -> Vec<Finding> {
    let checks: BTreeMap<String, Vec<Check>> =
        toml::from_str(include_str!("checks.toml")).expect("the file is constant and valid");
    let mut findings: Vec<Finding> = Vec::new();
    let last = patient.online().saturating_sub(1).to_string();
    for check in checks.into_values().flatten() {
        if findings.iter().any(|known| known.about == check.about) {
            continue;
        }
        let Some(seen) = check.seen(patient) else { continue };
        let mend = check.mend.replace("{file}", &check.file).replace("{last}", &last);
        let Check { about, severity, why, .. } = check;
        findings.push(Finding { about, severity, seen, why, mend });
    }
    sort(&mut findings);
    findings
}

pub(super) fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

const CPUS_FOR_CONTENTION: usize = 8;
/// The first glibc that registers restartable sequences.
const GLIBC_WITH_RSEQ: (u32, u32) = (2, 35);
/// Without a limit, version 1 of control groups shows a number above this.
const NO_LIMIT: u64 = 1 << 60;
/// If the load or the busy CPUs exceed this share of all CPUs, other processes disturb timings.
const BUSY: f64 = 0.25;
/// If the hypervisor takes more than this share of the time (steal), the medians show it.
const STEAL: f64 = 0.005;
/// Largest step of a clock that resolves a batch of operations.
const CLOCK_STEP_NS: f64 = 1000.0;
/// Maximum noise of a quiet machine: variation of a 100 us loop, and its longest time over median.
const VARIATION: f64 = 0.02;
const WORST: f64 = 1.5;

/// Looks at a machine. If the finding applies, returns a description of the fact that shows it.
type Look = fn(&Patient) -> Option<String>;

const LOOKS: [(&str, Look); 17] = [
    ("hypervisor", |patient| Some(format!("hypervisor {}", patient.hypervisor()?))),
    ("governors", governors),
    ("few_cpus", |patient| {
        let online = patient.online();
        (1..CPUS_FOR_CONTENTION).contains(&online).then(|| online.to_string())
    }),
    ("affinity", |patient| {
        let (allowed, online) = (patient.allowed.len(), patient.online());
        (allowed < online).then(|| format!("this process may use {allowed} of {online} CPUs"))
    }),
    ("mitigations", mitigations),
    ("rseq_switched_off", |patient| {
        let setting = "glibc.pthread.rseq=0";
        patient.tunables.contains(setting).then(|| format!("GLIBC_TUNABLES has {setting}"))
    }),
    ("glibc_without_rseq", |patient| {
        let (major, minor) = patient.glibc.split_once('.')?;
        let is_old = (major.parse().ok()?, minor.parse().ok()?) < GLIBC_WITH_RSEQ;
        is_old.then(|| format!("glibc {}", patient.glibc))
    }),
    ("debug_builds", |patient| {
        (!patient.debug_builds.is_empty()).then(|| patient.debug_builds.join(" and "))
    }),
    ("quota", quota),
    ("memory_limit", |patient| {
        let values = patient.group_values("memory.max", "memory", "memory.limit_in_bytes");
        let limits = values.iter().filter_map(|text| text.parse().ok());
        Some(format!("{} MiB", limits.filter(|limit: &u64| *limit < NO_LIMIT).min()? >> 20))
    }),
    ("load", |patient| {
        let load: f64 = patient.text("proc/loadavg")?.split(' ').next()?.parse().ok()?;
        let cpus = patient.online().max(1) as f64;
        let seen = || format!("{load:.2} over the last minute on {}", counted(cpus, "CPU"));
        (load > BUSY * cpus).then(seen)
    }),
    ("swap", |patient| {
        let kib = |name| patient.field("proc/meminfo", name)?.strip_suffix(" kB")?.parse().ok();
        let used = u64::saturating_sub(kib("SwapTotal")?, kib("SwapFree")?);
        (used > 0).then(|| format!("{} MiB in use", used.div_ceil(1024)))
    }),
    ("steal", |patient| {
        let steal = patient.measured?.steal;
        (steal > STEAL).then(|| format!("{:.1} % of a second", steal * 100.0))
    }),
    ("busy", |patient| {
        let (busy, cpus) = (patient.measured?.busy, patient.allowed.len().max(1) as f64);
        let seen = || format!("{busy:.2} of {} while this process slept", counted(cpus, "CPU"));
        (busy > BUSY * cpus).then(seen)
    }),
    ("clock_step", |patient| {
        let step = patient.measured?.clock_step_ns;
        (step > CLOCK_STEP_NS).then(|| format!("{step:.0} ns"))
    }),
    ("much_noise", |patient| {
        let Measured { variation, worst, .. } = patient.measured?;
        if variation > VARIATION || worst > WORST { noise(patient) } else { None }
    }),
    ("noise", noise),
];

fn governors(patient: &Patient) -> Option<String> {
    let folder = "sys/devices/system/cpu";
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for name in patient.names(folder) {
        if let Some(governor) = patient.text(format!("{folder}/{name}/cpufreq/scaling_governor")) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    governors.remove("performance");
    let seen = governors.iter().map(|(name, cpus)| format!("{name} on {}", counted(cpus, "CPU")));
    (!governors.is_empty()).then(|| seen.collect::<Vec<_>>().join(", "))
}

fn mitigations(patient: &Patient) -> Option<String> {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let mut names = patient.names(folder);
    names.retain(|name| {
        let state = patient.text(format!("{folder}/{name}"));
        state.is_some_and(|state| state.starts_with("Mitigation"))
    });
    (!names.is_empty()).then(|| names.join(", "))
}

fn quota(patient: &Patient) -> Option<String> {
    let cpus_of = |text: &String| {
        let mut words = text.split_whitespace();
        let quota: f64 = words.next()?.parse().ok()?;
        let period: f64 = words.next().map_or(Some(100_000.0), |word| word.parse().ok())?;
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    };
    // Version 1 has the period in another file; 100 ms is the default that nearly all systems keep.
    let values = patient.group_values("cpu.max", "cpu", "cpu.cfs_quota_us");
    let tightest = values.iter().filter_map(cpus_of).reduce(f64::min)?;
    Some(format!("{tightest:.2} CPUs"))
}

fn noise(patient: &Patient) -> Option<String> {
    let Measured { variation, worst, .. } = patient.measured?;
    Some(format!(
        "a loop of 100 us varies by {:.1} %, its worst run took {worst:.1} times the median",
        variation * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::super::patient::tests::patient;
    use super::*;

    /// An entry of `machines.toml`, whose head describes the fields.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Machine {
        files: BTreeMap<String, String>,
        about: String,
        seen: Option<String>,
        severity: Option<Severity>,
        mend: Option<String>,
    }

    #[test]
    fn machines_are_told_what_is_wrong_with_them() {
        let machines: BTreeMap<String, Vec<Machine>> =
            toml::from_str(include_str!("machines.toml")).unwrap();
        for machine in machines.into_values().flatten() {
            let files = machine.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
            let (_folder, patient) = patient(files);
            let found = examine(&patient).into_iter().find(|it| it.about == machine.about);
            assert_eq!(found.as_ref().map(|it| &it.seen), machine.seen.as_ref(), "{machine:?}");
            let Some(found) = found else { continue };
            assert_eq!(machine.severity.unwrap_or(found.severity), found.severity, "{machine:?}");
            assert_eq!(machine.mend.as_ref().unwrap_or(&found.mend), &found.mend, "{machine:?}");
        }
    }

    fn found(change: impl FnOnce(&mut Patient)) -> Vec<(String, Severity)> {
        let (_folder, mut patient) = patient([]);
        change(&mut patient);
        examine(&patient).into_iter().map(|it| (it.about, it.severity)).collect()
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_has_no_findings() {
        assert_eq!(found(|_| ()), []);
    }

    #[test]
    fn missing_sequences_are_serious() {
        let serious = [("restartable sequences".to_owned(), Severity::Serious)];
        let tunables = "glibc.malloc.check=0:glibc.pthread.rseq=0";
        assert_eq!(found(|it| it.tunables = tunables.to_owned()), serious);
        for (version, is_old) in
            [("2.31", true), ("2.35", false), ("3.1", false), ("unknown", false)]
        {
            let found = found(|it| it.glibc = version.to_owned());
            assert_eq!(found == serious, is_old, "{version}");
        }
    }

    #[test]
    fn what_was_measured_is_judged() {
        let quiet =
            Measured { steal: 0.0, busy: 0.1, clock_step_ns: 20.0, variation: 0.004, worst: 1.05 };
        let found = |seen| found(|it| (it.allowed, it.measured) = (vec![0, 1], Some(seen)));
        let finding = |about: &str, severity| (about.to_owned(), severity);
        let note = finding("noise", Severity::Note);
        let of = |about| vec![finding(about, Severity::Warning), note.clone()];
        assert_eq!(found(quiet), vec![note.clone()]);
        assert_eq!(found(Measured { steal: 0.02, ..quiet }), of("CPU steal"));
        assert_eq!(found(Measured { busy: 1.5, ..quiet }), of("busy CPUs"));
        assert_eq!(found(Measured { clock_step_ns: 4e6, ..quiet }), of("timer resolution"));
        let warning = [finding("noise", Severity::Warning)];
        assert_eq!(found(Measured { variation: 0.1, ..quiet }), warning);
        assert_eq!(found(Measured { worst: 9.0, ..quiet }), warning);
    }
}
