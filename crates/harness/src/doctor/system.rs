//! Effects of memory, limits, load and the build on timings.

use super::finding::{Finding, Severity};
use super::patient::{Measured, Patient};

/// Load per CPU from which others get in the way.
const BUSY: f64 = 0.25;
/// Share of stolen time that shows in medians.
const STEAL: f64 = 0.005;
/// A clock that steps further than this does not resolve a batch of operations.
const CLOCK_STEP_NS: f64 = 1000.0;
/// Noise of a quiet machine: a loop of 100 us varies by less than this, and never takes this many
/// times its median.
const VARIATION: f64 = 0.02;
const WORST: f64 = 1.5;

/// All findings beside those about CPUs.
pub(super) fn findings(patient: &Patient) -> Vec<Finding> {
    let checks: [fn(&Patient) -> Option<Finding>; 7] =
        [debug_build, quota, memory_limit, load, swap, layout, huge_pages];
    let known = checks.iter().filter_map(|check| check(patient));
    let cpus = patient.allowed.len().max(1) as f64;
    let measured = patient.measured.iter().flat_map(|it| measured(it, cpus));
    known.chain(measured).collect()
}

fn debug_build(patient: &Patient) -> Option<Finding> {
    (!patient.debug_builds.is_empty()).then(|| {
        Finding::new(
            Severity::Serious,
            "debug build",
            patient.debug_builds.join(" and "),
            "without optimisation times say nothing about the algorithm",
            "make build, and run target/release/quarry",
        )
    })
}

fn quota(patient: &Patient) -> Option<Finding> {
    let cpus_of = |text: &String| {
        let mut words = text.split_whitespace();
        let quota: f64 = words.next()?.parse().ok()?;
        let period: f64 = words.next().map_or(Some(100_000.0), |word| word.parse().ok())?;
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    };
    // Version 1 has the period in a file of its own; 100 ms is what everybody leaves it at.
    let values = patient.group_values("cpu.max", "cpu", "cpu.cfs_quota_us");
    let tightest = values.iter().filter_map(cpus_of).fold(f64::INFINITY, f64::min);
    tightest.is_finite().then(|| {
        Finding::new(
            Severity::Serious,
            "CPU quota",
            format!("{tightest:.2} CPUs"),
            "what exceeds it is stopped for up to 100 ms in the middle of a sample",
            "run in a control group without cpu.max (containers: no --cpus)",
        )
    })
}

/// Where version 1 has no limit it says a number near the largest.
const NO_LIMIT: u64 = 1 << 60;

fn memory_limit(patient: &Patient) -> Option<Finding> {
    let values = patient.group_values("memory.max", "memory", "memory.limit_in_bytes");
    let limits = values.iter().filter_map(|text| text.parse::<u64>().ok());
    let limit = limits.filter(|limit| *limit < NO_LIMIT).min()?;
    Some(Finding::new(
        Severity::Note,
        "memory limit",
        format!("{} MiB", limit >> 20),
        "near it the kernel reclaims while samples run, and then kills",
        "keep workloads below half of it, or raise memory.max",
    ))
}

fn load(patient: &Patient) -> Option<Finding> {
    let text = patient.read("proc/loadavg")?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let cpus = patient.online().max(1) as f64;
    (load > BUSY * cpus).then(|| {
        Finding::new(
            Severity::Warning,
            "load",
            format!("{load:.2} over the last minute on {cpus} CPUs"),
            "others take CPU time, caches and memory bandwidth from samples",
            "stop what `top` shows first, or wait",
        )
    })
}

fn swap(patient: &Patient) -> Option<Finding> {
    let text = patient.read("proc/meminfo")?;
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let used = kib("SwapTotal")?.saturating_sub(kib("SwapFree")?);
    (used > 0).then(|| {
        Finding::new(
            Severity::Warning,
            "swap",
            format!("{} MiB in use", used.div_ceil(1024)),
            "pages on disk look like memory given back, and come back slowly",
            "sudo swapoff -a",
        )
    })
}

fn layout(patient: &Patient) -> Option<Finding> {
    let about = "address space layout";
    match patient.read("proc/sys/kernel/randomize_va_space")?.as_str() {
        "0" => Some(Finding::new(
            Severity::Warning,
            about,
            "not randomised",
            "every sample has the same layout: a lucky one looks like a better allocator",
            "sudo sysctl kernel.randomize_va_space=2",
        )),
        _ => Some(Finding::new(
            Severity::Note,
            about,
            "randomised",
            "each process has another layout, which is part of the spread: samples average \
                 over it",
            "take more samples; setarch -R only to reproduce one",
        )),
    }
}

fn huge_pages(patient: &Patient) -> Option<Finding> {
    let text = patient.read("sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split_once('[')?.1.split_once(']')?.0.to_owned();
    let why = match chosen.as_str() {
        "always" => "who gets huge pages depends on what memory is free: times jump between runs",
        "never" => "allocators that ask for huge pages cannot show what they gain",
        _ => "only allocators that ask for huge pages get them: that is part of the comparison",
    };
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    let mend = match chosen.as_str() {
        "madvise" => String::new(),
        _ => format!("echo madvise | sudo tee {file}"),
    };
    Some(Finding::new(Severity::Note, "huge pages", chosen, why, mend))
}

fn measured(seen: &Measured, cpus: f64) -> Vec<Finding> {
    let Measured { steal, busy, clock_step_ns, variation, worst } = *seen;
    let mut findings = Vec::new();
    let mut warn = |about, seen, why, mend| {
        findings.push(Finding::new(Severity::Warning, about, seen, why, mend));
    };
    if steal > STEAL {
        let seen = format!("{:.1} % of a second", steal * 100.0);
        let why = "the hypervisor gave the CPU to another guest: wall-clock times contain its work";
        warn("CPU steal", seen, why, "look at ratios and CPU times; repeat at another hour");
    }
    if busy > BUSY * cpus {
        let seen = format!("{busy:.2} of {cpus} CPUs while this process slept");
        let mend = "stop what `top` shows first, or wait";
        warn("busy CPUs", seen, "others run at this moment", mend);
    }
    if clock_step_ns > CLOCK_STEP_NS {
        let seen = format!("{clock_step_ns:.0} ns");
        let why = "short samples cannot be told apart";
        warn("timer resolution", seen, why, "take samples of at least 10 ms");
    }
    let is_noisy = variation > VARIATION || worst > WORST;
    let severity = if is_noisy { Severity::Warning } else { Severity::Note };
    let seen = format!(
        "a loop of 100 us varies by {:.1} %, its worst run took {worst:.1} times the median",
        variation * 100.0
    );
    let why = "differences below this need many samples, or cannot be seen";
    let mend =
        if is_noisy { "mend what stands above; take more samples; trust A/A copies" } else { "" };
    findings.push(Finding::new(severity, "noise", seen, why, mend));
    findings
}

#[cfg(test)]
mod tests {
    use super::super::patient::tests::{found_by, patient};
    use super::*;

    fn found(files: &[(&str, &str)], about: &str) -> Option<Finding> {
        found_by(findings, files, about)
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_has_no_findings() {
        assert_eq!(findings(&patient(&[]).1), []);
    }

    #[test]
    fn debug_builds_are_serious() {
        let (_folder, mut patient) = patient(&[]);
        patient.debug_builds = vec!["quarry", "libquarry.so"];
        let finding = debug_build(&patient).unwrap();
        assert_eq!(
            (finding.severity, finding.seen.as_str()),
            (Severity::Serious, "quarry and libquarry.so")
        );
    }

    #[test]
    fn quotas_of_both_versions_are_found() {
        let about = "CPU quota";
        let v2 = |text| {
            let files = [("proc/self/cgroup", "0::/a"), ("sys/fs/cgroup/a/cpu.max", text)];
            found(&files, about).map(|it| it.seen)
        };
        assert_eq!(v2("150000 100000\n").unwrap(), "1.50 CPUs");
        assert_eq!(v2("max 100000\n"), None);
        let v1 = |text| {
            let files =
                [("proc/self/cgroup", "1:cpu:/"), ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", text)];
            found(&files, about).map(|it| it.seen)
        };
        assert_eq!(v1("50000").unwrap(), "0.50 CPUs");
        assert_eq!(v1("-1"), None);
    }

    #[test]
    fn memory_limits_are_noted() {
        let limit = |text| {
            let files = [
                ("proc/self/cgroup", "1:memory:/a/b"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", text),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ];
            found(&files, "memory limit").map(|it| it.seen)
        };
        assert_eq!(limit("1073741824\n").unwrap(), "1024 MiB");
        assert_eq!(limit("9223372036854771712\n"), None);
    }

    #[test]
    fn load_counts_in_relation_to_cpus() {
        let load = |text, online| {
            let files = [("proc/loadavg", text), ("sys/devices/system/cpu/online", online)];
            found(&files, "load")
        };
        assert!(load("2.50 1.00 1.00 1/100 5\n", "0-1").is_some());
        assert_eq!(load("2.50 1.00 1.00 1/100 5\n", "0-15"), None);
    }

    #[test]
    fn swap_in_use_is_found() {
        let swap = |free| {
            let text = format!("MemTotal: 9 kB\nSwapTotal:  4096 kB\nSwapFree:  {free} kB\n");
            found(&[("proc/meminfo", &text)], "swap").map(|it| it.seen)
        };
        assert_eq!(swap(1024).unwrap(), "3 MiB in use");
        assert_eq!(swap(4096), None);
    }

    #[test]
    fn layouts_are_noted_and_fixed_ones_warned_of() {
        let severity = |text| {
            let files = [("proc/sys/kernel/randomize_va_space", text)];
            found(&files, "address space layout").unwrap().severity
        };
        assert_eq!((severity("0\n"), severity("2\n")), (Severity::Warning, Severity::Note));
    }

    #[test]
    fn huge_pages_are_noted() {
        let file = "sys/kernel/mm/transparent_hugepage/enabled";
        let finding = found(&[(file, "[always] madvise never\n")], "huge pages").unwrap();
        assert_eq!(finding.seen, "always");
        assert!(finding.mend.starts_with("echo madvise | sudo tee /sys"));
        assert_eq!(found(&[(file, "always [madvise] never")], "huge pages").unwrap().mend, "");
    }

    #[test]
    fn what_was_measured_is_judged() {
        let quiet =
            Measured { steal: 0.0, busy: 0.1, clock_step_ns: 20.0, variation: 0.004, worst: 1.05 };
        let found = |seen: Measured| -> Vec<(&str, Severity)> {
            measured(&seen, 2.0).iter().map(|it| (it.about, it.severity)).collect()
        };
        let (note, warning) = (("noise", Severity::Note), ("noise", Severity::Warning));
        assert_eq!(found(quiet), [note]);
        let of = |about| [(about, Severity::Warning), note];
        assert_eq!(found(Measured { steal: 0.02, ..quiet }), of("CPU steal"));
        assert_eq!(found(Measured { busy: 1.5, ..quiet }), of("busy CPUs"));
        assert_eq!(found(Measured { clock_step_ns: 4e6, ..quiet }), of("timer resolution"));
        assert_eq!(found(Measured { variation: 0.1, ..quiet }), [warning]);
        assert_eq!(found(Measured { worst: 9.0, ..quiet }), [warning]);
    }
}
