//! What is printed: the rate or time of the original's unit, the document's figure beside it, and
//! what the locks counted.

use super::Spec;
use super::documents::Figure;
use anyhow::Result;
use quarry_harness::judge::{self, Column, Outcome, Reason, Selection};
use quarry_harness::results::{Cell, Direction, Metric, Run};
use quarry_harness::table;
use std::io::Write;

/// Unit of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Payload in Mbit/s, of 10^6 bits.
    Mbits,
    /// Operations of this name, per second.
    Rate(&'static str),
    /// Seconds for a fixed amount of work.
    Seconds,
    /// Microseconds from sending to receiving.
    Latency,
    /// Microseconds for this many operations of a task.
    Micros { per: u32 },
}

impl Unit {
    /// The unit's own metric first, then what explains it.
    pub(crate) fn metrics(self) -> Vec<Metric> {
        let (higher, lower) = (Direction::Higher, Direction::Lower);
        let latency = |name: &str, figure: &str| Metric::new(name, "us", lower, figure);
        let mut metrics = match self {
            Self::Mbits => {
                vec![Metric::new("rate", "Mbit/s", higher, "bits").per("wall_ns").times(1e3)]
            }
            Self::Rate(unit) => vec![Metric::rate(unit)],
            Self::Seconds => {
                vec![Metric::new("time", "s", lower, "wall_ns").times(1e-9).digits(4)]
            }
            Self::Latency => {
                vec![latency("latency", "latency_mean"), latency("p99", "latency_p99")]
            }
            Self::Micros { per } => {
                let time = Metric::new("time", "us", lower, "time_ns").per("operations");
                vec![time.times(f64::from(per) / 1000.0)]
            }
        };
        metrics[0].primary = true;
        metrics.extend([
            Metric::new("CPU", "ns/op", lower, "cpu_ns").per("operations"),
            Metric::counted("zone locks", "zone_lock"),
            Metric::new("found held", "%", Direction::None, "zone_contended")
                .per("zone_lock")
                .times(100.0),
            Metric::counted("zone allocs", "zone_allocs"),
            Metric::counted("zone frees", "zone_frees"),
            Metric::counted("free sections", "page_sections"),
            Metric::counted("slab locks", "slab_lock"),
            Metric::new("found held (slab)", "%", Direction::None, "slab_contended")
                .per("slab_lock")
                .times(100.0),
            Metric::counted("slabs", "slabs").times(1000.0),
        ]);
        metrics
    }
}

/// Prints one line per row, number of tasks and variant.
pub(super) fn print(run: &Run, spec: &Spec, out: &mut dyn Write) -> Result<()> {
    let mut header = ["row", "tasks", "policies"].map(str::to_owned).to_vec();
    for metric in &run.meta.metrics {
        if metric.primary {
            header.push(metric.unit.clone());
            header.push(format!("/ {}", run.meta.baseline));
            header.push(format!("document {}", spec.document.number));
        } else {
            header.push(short_name(metric));
        }
    }
    let selection = Selection::of(run);
    let mut rows = Vec::new();
    for row in &selection.rows {
        // In the order that was asked for.
        let columns = run.meta.variants.iter().filter_map(|it| selection.column(&it.name));
        rows.extend(columns.map(|column| line(&selection, spec, *row, column)));
    }
    writeln!(out, "{}", table::render(header, rows))?;
    writeln!(
        out,
        "\nMedians; / is the ratio to the baseline within rounds, with its 95 % interval from 6 \
         samples on.\nOf the document: the ratio of its two kernels, and its figure. Locks, zone \
         calls, critical sections\nof frees and slab locks are per operation, slabs made per \
         1,000. \"Found held\": of 100 times.\nDocument {}: {}",
        spec.document.number, spec.document.finding
    )?;
    Ok(())
}

fn short_name(metric: &Metric) -> String {
    match metric.unit.as_str() {
        "per operation" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}

fn line<'a>(
    selection: &Selection<'a>,
    spec: &Spec,
    row: judge::Row<'a>,
    column: &Column<'a>,
) -> Vec<String> {
    let (judge::Row { workload, tasks }, variant) = (row, &column.label);
    let cell = Cell { workload, tasks, variant };
    let failed = column.run.samples_of(cell).any(|sample| sample.failure.is_some());
    let mut line = vec![workload.to_owned(), tasks.to_string(), variant.clone()];
    for metric in &column.run.meta.metrics {
        let median = selection.median(column, row, metric);
        line.push(table::figure_or(median, if failed { "failed" } else { "-" }));
        if metric.primary {
            let judgement = selection.judge(column, &[row], metric);
            line.push(match judgement.outcome {
                Outcome::NoVerdict(Reason::Baseline) => "1".to_owned(),
                Outcome::NoVerdict(_) => "failed".to_owned(),
                _ => judgement.text(),
            });
            line.push(beside(spec.document.figure(workload, tasks, variant)));
        }
    }
    line
}

/// How a document's figure is printed.
fn beside(figure: Option<Figure>) -> String {
    match figure {
        None => String::new(),
        Some(Figure { kernel, value, ratio }) => {
            format!("{ratio:.3} ({kernel} {})", table::figure(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::Measurement;

    #[test]
    fn units_are_those_of_the_originals() {
        let value = |unit: Unit, measurement: &Measurement| {
            let metrics = unit.metrics();
            assert!(metrics[0].primary && !metrics[1..].iter().any(|metric| metric.primary));
            metrics[0].value(measurement).unwrap()
        };
        let mut measurement = Measurement::of_window(1000, 4_000_000, 2_000_000, 1, "x")
            .with(&[("bits", 64 * 8 * 1000)]);
        measurement.figures.insert("latency_mean".to_owned(), 7.5);
        assert!((value(Unit::Mbits, &measurement) - 256.0).abs() < 1e-9);
        assert!((value(Unit::Rate("trans/s"), &measurement) - 500_000.0).abs() < 1e-6);
        assert!((value(Unit::Seconds, &measurement) - 0.002).abs() < 1e-12);
        assert_eq!(value(Unit::Latency, &measurement), 7.5);
        assert!((value(Unit::Micros { per: 1024 }, &measurement) - 4096.0).abs() < 1e-9);
    }

    #[test]
    fn a_documents_figure_is_printed_with_its_ratio() {
        let figure = Figure { kernel: "hopcpu-v5".to_owned(), value: 260.54, ratio: 1.4606 };
        assert_eq!(beside(Some(figure)), "1.461 (hopcpu-v5 261)");
        assert_eq!(beside(None), "");
    }
}
