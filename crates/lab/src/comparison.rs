//! From raw samples to the two tables of a comparison: medians, and paired ratios to the baseline.

use crate::recording::{Measurement, Recording};
use crate::statistics::{self, Estimate};
use crate::table;

/// Workloads that are summed up in a row of their own.
pub(crate) struct Group {
    /// What the summary row is called.
    pub(crate) name: String,
    /// Its workloads.
    pub(crate) workloads: Vec<String>,
}

/// A recording with its workloads in groups.
pub(crate) struct Comparison<'a> {
    /// The samples.
    pub(crate) recording: &'a Recording,
    /// The workloads.
    pub(crate) groups: Vec<Group>,
    /// Name of the variant that is a second copy of the baseline.
    pub(crate) copy: String,
}

impl Comparison<'_> {
    /// Median nanoseconds per operation of every workload on every variant.
    pub(crate) fn medians(&self) -> String {
        let variants = self.recording.variants.iter().map(|variant| variant.name.clone());
        let header = std::iter::once("ns per operation".to_owned()).chain(variants).collect();
        let mut rows = Vec::new();
        for workload in self.groups.iter().flat_map(|group| &group.workloads) {
            let mut row = vec![workload.clone()];
            for variant in &self.recording.variants {
                let rounds: Vec<f64> =
                    self.times(workload, &variant.name).into_iter().flatten().collect();
                let median = statistics::median(&rounds);
                row.push(median.map_or("failed".to_owned(), table::figure));
            }
            rows.push(row);
        }
        table::render(header, rows)
    }

    /// Time of every other variant in relation to that of the baseline, with intervals; the last
    /// row of each group is the geometric mean over its workloads.
    pub(crate) fn ratios(&self) -> String {
        let baseline = &self.recording.baseline;
        // The copy comes first: it says how the others are to be read.
        let mut others = vec![self.copy.as_str()];
        let names = self.recording.variants.iter().map(|variant| variant.name.as_str());
        others.extend(names.filter(|name| name != baseline && *name != self.copy));
        let mut header = vec![format!("time / {baseline}")];
        header.extend(others.iter().map(|name| (*name).to_owned()));
        let mut rows = Vec::new();
        for group in &self.groups {
            for workload in &group.workloads {
                rows.push(ratio_row(workload, &others, |variant| self.ratio(workload, variant)));
            }
            if group.workloads.len() > 1 {
                let name = format!("{} (mean)", group.name);
                rows.push(ratio_row(&name, &others, |variant| self.group_ratio(group, variant)));
            }
        }
        table::render(header, rows)
    }

    /// One line per distinct failure, with how often it happened and where.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut distinct: Vec<(String, usize)> = Vec::new();
        for sample in &self.recording.samples {
            let Some(failure) = &sample.failure else { continue };
            let text = format!("{} on {}: {failure}", sample.workload, sample.variant);
            match distinct.iter_mut().find(|(present, _)| *present == text) {
                Some((_, count)) => *count += 1,
                None => distinct.push((text, 1)),
            }
        }
        distinct.into_iter().map(|(text, count)| format!("{text} ({count} times)")).collect()
    }

    fn times(&self, workload: &str, variant: &str) -> Vec<Option<f64>> {
        self.recording.rounds_of(workload, variant, Measurement::ns_per_operation)
    }

    fn ratios_by_round(&self, workload: &str, variant: &str) -> Vec<Option<f64>> {
        let baseline = self.times(workload, &self.recording.baseline);
        statistics::paired_ratios(&self.times(workload, variant), &baseline)
    }

    fn ratio(&self, workload: &str, variant: &str) -> Option<Estimate> {
        let ratios: Vec<f64> =
            self.ratios_by_round(workload, variant).into_iter().flatten().collect();
        statistics::estimate(&ratios)
    }

    /// Per round the geometric mean of the ratios of all workloads; rounds with a gap are left out.
    fn group_ratio(&self, group: &Group, variant: &str) -> Option<Estimate> {
        let columns: Vec<Vec<Option<f64>>> =
            group.workloads.iter().map(|it| self.ratios_by_round(it, variant)).collect();
        let mean = |round: usize| {
            let ratios: Option<Vec<f64>> = columns.iter().map(|column| column[round]).collect();
            statistics::geometric_mean(&ratios?)
        };
        let means: Vec<f64> = (0..self.recording.rounds as usize).filter_map(mean).collect();
        statistics::estimate(&means)
    }
}

/// `variants[0]` is the copy of the baseline; the others are marked where they differ from it.
fn ratio_row(
    name: &str,
    variants: &[&str],
    ratio: impl Fn(&str) -> Option<Estimate>,
) -> Vec<String> {
    let estimates: Vec<Option<Estimate>> = variants.iter().map(|variant| ratio(variant)).collect();
    let noise = estimates[0].and_then(|estimate| estimate.interval);
    let cells = estimates.into_iter().map(|estimate| table::ratio(estimate, noise));
    std::iter::once(name.to_owned()).chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording;

    fn comparison(recording: &Recording) -> Comparison<'_> {
        let group = |name: &str, workloads: &[&str]| Group {
            name: name.to_owned(),
            workloads: workloads.iter().map(|w| (*w).to_owned()).collect(),
        };
        Comparison { recording, groups: vec![group("g", &["w"])], copy: "base again".to_owned() }
    }

    #[test]
    fn a_steady_factor_of_two_is_found_through_noise_that_hits_both() {
        // The machine slows down fourfold in the middle; within rounds nothing changes.
        let base: Vec<Option<f64>> =
            [10.0, 10.0, 40.0, 40.0, 40.0, 40.0, 10.0, 10.0].map(Some).to_vec();
        let twice: Vec<Option<f64>> = base.iter().map(|v| v.map(|v| v * 2.0)).collect();
        let recording =
            recording("base", &[("base", &base), ("base again", &base), ("twice", &twice)]);
        let text = comparison(&recording).ratios();
        assert!(text.contains("time / base | "), "{text}");
        assert!(text.contains("| 2.00 [2.00, 2.00] * |"), "{text}");
        assert!(text.contains("| 1.00 [1.00, 1.00]   |"), "{text}");
        assert!(comparison(&recording).medians().contains("| 25.0 |"));
    }

    #[test]
    fn group_means_leave_out_rounds_with_gaps() {
        let base = [Some(10.0), Some(10.0)];
        let recording = recording(
            "base",
            &[("base", &base), ("base again", &base), ("other", &[Some(30.0), None])],
        );
        let comparison = comparison(&recording);
        let estimate = comparison.group_ratio(&comparison.groups[0], "other").unwrap();
        assert!((estimate.median - 3.0).abs() < 1e-9);
        assert_eq!(comparison.group_ratio(&comparison.groups[0], "nobody"), None);
    }

    #[test]
    fn failures_are_counted() {
        let mut recording = recording("a", &[("a", &[None, None])]);
        recording.samples[0].failure = Some("signal 11".to_owned());
        recording.samples[1].failure = Some("signal 11".to_owned());
        assert_eq!(comparison(&recording).failures(), ["w on a: signal 11 (2 times)"]);
        assert!(comparison(&recording).medians().contains("failed"));
    }
}
