//! Effects of the CPUs on timings.

use super::finding::{Finding, Severity};
use super::patient::Patient;
use std::collections::BTreeMap;

const CPUS: &str = "sys/devices/system/cpu";

/// All findings about CPUs.
pub(super) fn findings(patient: &Patient) -> Vec<Finding> {
    let checks: [fn(&Patient) -> Option<Finding>; 11] = [
        hypervisor,
        governor,
        boost,
        smt,
        count,
        affinity,
        isolated,
        clock_source,
        mitigations,
        perf,
        rseq,
    ];
    checks.iter().filter_map(|check| check(patient)).collect()
}

fn hypervisor(patient: &Patient) -> Option<Finding> {
    let kind = patient.hypervisor()?;
    Some(Finding::new(
        Severity::Warning,
        "virtual machine",
        format!("hypervisor {kind}"),
        "frequency, neighbours on the same core and the host's memory can neither be seen nor \
             set from inside; times differ from day to day",
        "quote ratios within one run, an A/A copy beside them, and no absolute times",
    ))
}

fn governor(patient: &Patient) -> Option<Finding> {
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for name in patient.names(CPUS) {
        let file = format!("{CPUS}/{name}/cpufreq/scaling_governor");
        if let Some(governor) = patient.read(&file) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    governors.remove("performance");
    if governors.is_empty() {
        return None;
    }
    let seen: Vec<String> =
        governors.iter().map(|(name, cpus)| format!("{name} on {cpus} CPUs")).collect();
    Some(Finding::new(
        Severity::Warning,
        "frequency governor",
        seen.join(", "),
        "the clock follows the load: what runs after a pause is slower",
        "sudo cpupower frequency-set -g performance",
    ))
}

fn boost(patient: &Patient) -> Option<Finding> {
    let is_on = |path: &str, on: &str| patient.read(path).is_some_and(|text| text == on);
    let (path, off) = if is_on(&format!("{CPUS}/intel_pstate/no_turbo"), "0") {
        (format!("{CPUS}/intel_pstate/no_turbo"), "1")
    } else if is_on(&format!("{CPUS}/cpufreq/boost"), "1") {
        (format!("{CPUS}/cpufreq/boost"), "0")
    } else {
        return None;
    };
    Some(Finding::new(
        Severity::Warning,
        "turbo",
        format!("/{path} says on"),
        "the clock depends on temperature and on how many cores are busy",
        format!("echo {off} | sudo tee /{path}"),
    ))
}

fn smt(patient: &Patient) -> Option<Finding> {
    (patient.read(&format!("{CPUS}/smt/active"))? == "1").then(|| {
        Finding::new(
            Severity::Warning,
            "SMT",
            "two threads share a core",
            "a neighbour on the same core takes up to half of its speed and cache",
            format!("echo off | sudo tee /{CPUS}/smt/control"),
        )
    })
}

/// Number of CPUs from which the contention of locks can be seen.
const CPUS_FOR_CONTENTION: usize = 8;

fn count(patient: &Patient) -> Option<Finding> {
    let online = patient.online();
    (online > 0 && online < CPUS_FOR_CONTENTION).then(|| {
        Finding::new(
            Severity::Note,
            "number of CPUs",
            online.to_string(),
            "locks that many CPUs fight for are hardly contended here: gains are lower bounds",
            "count lock acquisitions per operation beside each rate",
        )
    })
}

fn affinity(patient: &Patient) -> Option<Finding> {
    let (allowed, online) = (patient.allowed.len(), patient.online());
    (allowed < online).then(|| {
        Finding::new(
            Severity::Note,
            "affinity",
            format!("this process may use {allowed} of {online} CPUs"),
            "a cpuset or taskset bounds what can run side by side",
            format!("taskset -c 0-{} quarry ...", online - 1),
        )
    })
}

fn isolated(patient: &Patient) -> Option<Finding> {
    (patient.online() > 0 && patient.read(&format!("{CPUS}/isolated")).is_none()).then(|| {
        Finding::new(
            Severity::Note,
            "isolated CPUs",
            "none",
            "the scheduler may put anything beside a sample",
            "boot with isolcpus=, and run on those CPUs by taskset",
        )
    })
}

/// Clocks that are read without a system call.
const FAST_CLOCKS: [&str; 4] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];

fn clock_source(patient: &Patient) -> Option<Finding> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let clock = patient.read(&format!("{folder}/current_clocksource"))?;
    (!FAST_CLOCKS.contains(&clock.as_str())).then(|| {
        Finding::new(
            Severity::Warning,
            "clock source",
            clock,
            "reading the clock is a system call and takes about a microsecond",
            format!("echo tsc | sudo tee /{folder}/current_clocksource"),
        )
    })
}

fn mitigations(patient: &Patient) -> Option<Finding> {
    let folder = format!("{CPUS}/vulnerabilities");
    let is_mitigated = |name: &String| {
        let state = patient.read(&format!("{folder}/{name}"));
        state.is_some_and(|state| state.starts_with("Mitigation"))
    };
    let names: Vec<String> = patient.names(&folder).into_iter().filter(is_mitigated).collect();
    (!names.is_empty()).then(|| {
        Finding::new(
            Severity::Note,
            "kernel mitigations",
            names.join(", "),
            "system calls and page faults are dearer than on machines without",
            "say so beside results; mitigations=off at boot only where nobody else is",
        )
    })
}

fn perf(patient: &Patient) -> Option<Finding> {
    let level = patient.read("proc/sys/kernel/perf_event_paranoid")?;
    (level.parse::<i32>().ok()? > 1).then(|| {
        Finding::new(
            Severity::Note,
            "perf_event_paranoid",
            level,
            "hardware counters of the kernel's share are hidden from users",
            "sudo sysctl kernel.perf_event_paranoid=1",
        )
    })
}

fn rseq(patient: &Patient) -> Option<Finding> {
    let why = "Quarry and tcmalloc fall back to slower paths without restartable sequences";
    if patient.tunables.contains("glibc.pthread.rseq=0") {
        let seen = "GLIBC_TUNABLES has glibc.pthread.rseq=0";
        let mend = "unset GLIBC_TUNABLES";
        return Some(Finding::new(Severity::Serious, "restartable sequences", seen, why, mend));
    }
    let (major, minor) = patient.glibc.split_once('.')?;
    let version = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    // glibc registers them from 2.35 on.
    (version < (2, 35)).then(|| {
        let seen = format!("glibc {}", patient.glibc);
        Finding::new(
            Severity::Serious,
            "restartable sequences",
            seen,
            why,
            "run on glibc 2.35 or newer",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::patient::tests::{found_by, patient};
    use super::*;

    const C: &str = "sys/devices/system/cpu";

    /// The one finding about something, of a machine with these files.
    fn found(files: &[(&str, &str)], about: &str) -> Option<Finding> {
        found_by(findings, files, about)
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_has_no_findings() {
        assert_eq!(findings(&patient(&[]).1), []);
    }

    #[test]
    fn hypervisors_lower_the_claims() {
        let about = "virtual machine";
        let finding = found(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor sse\n")], about).unwrap();
        assert!(finding.mend.starts_with("quote ratios"), "{finding:?}");
        assert_eq!(found(&[("proc/cpuinfo", "flags\t\t: fpu sse\n")], about), None);
        assert_eq!(
            found(&[("sys/hypervisor/type", "xen\n")], about).unwrap().seen,
            "hypervisor xen"
        );
        let arm = [("proc/cpuinfo", "CPU part: 1\n"), ("sys/class/dmi/id/sys_vendor", "QEMU\n")];
        assert!(found(&arm, about).is_some());
        let metal =
            [("proc/cpuinfo", "flags: fpu\n"), ("sys/class/dmi/id/sys_vendor", "Amazon EC2")];
        assert_eq!(found(&metal, about), None);
    }

    #[test]
    fn governors_other_than_performance_are_counted() {
        let file = |cpu: usize| format!("{C}/cpu{cpu}/cpufreq/scaling_governor");
        let (zero, one, two) = (file(0), file(1), file(2));
        let files = [(zero.as_str(), "powersave\n"), (&one, "performance"), (&two, "powersave")];
        let finding = found(&files, "frequency governor").unwrap();
        assert_eq!(finding.seen, "powersave on 2 CPUs");
        assert_eq!(found(&files[1..2], "frequency governor"), None);
    }

    #[test]
    fn turbo_is_found_under_both_drivers() {
        let intel = "sys/devices/system/cpu/intel_pstate/no_turbo";
        let acpi = "sys/devices/system/cpu/cpufreq/boost";
        let mend = |path, text| found(&[(path, text)], "turbo").map(|it| it.mend);
        assert_eq!(mend(intel, "0").unwrap(), format!("echo 1 | sudo tee /{intel}"));
        assert_eq!(mend(acpi, "1").unwrap(), format!("echo 0 | sudo tee /{acpi}"));
        assert_eq!((mend(intel, "1"), mend(acpi, "0")), (None, None));
    }

    #[test]
    fn sibling_threads_are_found() {
        let smt = |text| found(&[("sys/devices/system/cpu/smt/active", text)], "SMT");
        assert!(smt("1").unwrap().mend.ends_with("smt/control"));
        assert_eq!(smt("0"), None);
    }

    #[test]
    fn few_or_forbidden_or_shared_cpus_are_noted() {
        let online = |text| [("sys/devices/system/cpu/online", text)];
        assert_eq!(found(&online("0-1"), "number of CPUs").unwrap().seen, "2");
        assert_eq!(found(&online("0-15"), "number of CPUs"), None);
        let seen = found(&online("0-31"), "affinity").unwrap().seen;
        assert_eq!(seen, "this process may use 16 of 32 CPUs");
        assert_eq!(found(&online("0-15"), "affinity"), None);
        assert!(found(&online("0-15"), "isolated CPUs").is_some());
        let isolated = [online("0-15")[0], ("sys/devices/system/cpu/isolated", "8-15\n")];
        assert_eq!(found(&isolated, "isolated CPUs"), None);
    }

    #[test]
    fn slow_clocks_are_found() {
        let file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(found(&[(file, "hpet\n")], "clock source").unwrap().seen, "hpet");
        assert_eq!(found(&[(file, "tsc\n")], "clock source"), None);
    }

    #[test]
    fn mitigations_are_named() {
        let folder = "sys/devices/system/cpu/vulnerabilities";
        let (mds, meltdown) = (format!("{folder}/mds"), format!("{folder}/meltdown"));
        let files = [(mds.as_str(), "Mitigation: Clear CPU buffers"), (&meltdown, "Not affected")];
        assert_eq!(found(&files, "kernel mitigations").unwrap().seen, "mds");
        assert_eq!(found(&files[1..], "kernel mitigations"), None);
    }

    #[test]
    fn hidden_counters_are_noted() {
        let perf =
            |text| found(&[("proc/sys/kernel/perf_event_paranoid", text)], "perf_event_paranoid");
        assert_eq!(perf("2\n").unwrap().mend, "sudo sysctl kernel.perf_event_paranoid=1");
        assert_eq!(perf("-1"), None);
    }

    #[test]
    fn missing_sequences_are_serious() {
        let (_folder, mut patient) = patient(&[]);
        patient.tunables = "glibc.malloc.check=0:glibc.pthread.rseq=0".to_owned();
        assert_eq!(rseq(&patient).unwrap().severity, Severity::Serious);
        patient.tunables.clear();
        for (version, is_old) in
            [("2.31", true), ("2.35", false), ("3.1", false), ("unknown", false)]
        {
            patient.glibc = version.to_owned();
            assert_eq!(rseq(&patient).is_some(), is_old, "{version}");
        }
    }
}
