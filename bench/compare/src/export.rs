//! The figures of a comparison as CSV: a row for each workload, allocator and metric.

use crate::answer::Answer;
use crate::request::line;
use anyhow::Result;
use quarry_harness::results::{Cell, Metric, Relation, Variant};
use quarry_harness::statistics;

const COLUMNS: &str = "allocator,metric,unit,runs,failed,median,min,max,baseline,verdict,relation,\
                       change,low,high";

/// Writes every judgement in recorded units. `change`, `low` and `high` are the ratio to the
/// baseline or the difference from it, as `relation` says, with its 95 % interval. The columns
/// after `command` are the parameters of `-L`, as `parameter_NAME`.
pub(super) fn csv(answer: &Answer<'_>) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let parameters = answer.works[0].variant.parameters.iter();
    let parameters = parameters.map(|(name, _)| format!("parameter_{name}"));
    let head = std::iter::once("command".to_owned()).chain(parameters);
    writer.write_record(head.chain(COLUMNS.split(',').map(str::to_owned)))?;
    for (work, workload) in answer.works.iter().zip(&answer.run.meta.workloads) {
        let values = work.variant.parameters.iter().map(|(_, value)| value.clone());
        let start: Vec<String> =
            std::iter::once(line(&work.variant.command)).chain(values).collect();
        for variant in &answer.run.meta.variants {
            for metric in &answer.run.meta.metrics {
                let rest = row(answer, &workload.name, variant, metric);
                writer.write_record(start.iter().chain(&rest))?;
            }
        }
    }
    Ok(writer.into_inner()?)
}

fn row(of: &Answer<'_>, workload: &str, variant: &Variant, metric: &Metric) -> Vec<String> {
    let Answer { run, judgements, .. } = of;
    let cell = Cell { workload, tasks: 1, variant: &variant.name };
    let failed = run.samples_of(cell).filter(|it| it.failure.is_some()).count();
    let values: Vec<f64> = run.values(cell, metric).into_iter().flatten().collect();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
    let judgement = judgements.get(workload, &variant.name, metric);
    let estimate = judgement.and_then(|it| it.estimate);
    let interval = estimate.and_then(|it| it.interval);
    vec![
        variant.name.clone(),
        metric.name.clone(),
        metric.unit(),
        run.samples_of(cell).count().to_string(),
        failed.to_string(),
        number(statistics::median(&values)),
        number(values.iter().copied().min_by(f64::total_cmp)),
        number(values.iter().copied().max_by(f64::total_cmp)),
        run.meta.baseline.clone(),
        judgement.map_or("baseline", |it| it.outcome.word()).to_owned(),
        match judgement.filter(|it| it.estimate.is_some()).map(|it| it.relation) {
            None => "",
            Some(Relation::Ratio) => "ratio",
            Some(Relation::Difference) => "difference",
        }
        .to_owned(),
        number(estimate.map(|it| it.centre)),
        number(interval.map(|it| it.low)),
        number(interval.map(|it| it.high)),
    ]
}
