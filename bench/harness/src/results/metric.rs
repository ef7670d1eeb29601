//! Metrics: formulas that are stored with the samples.

use super::Measurement;
use serde::{Deserialize, Serialize};

/// The direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Rates.
    Higher,
    /// Times and memory.
    Lower,
    /// Neither direction: a count that explains other metrics.
    None,
}

/// The unit of [`Metric::counted`].
const PER_OPERATION: &str = "per operation";

/// A formula with a value for every sample: `times * of / per`, where `of` and `per` name figures
/// of the measurement (`operations`, `time_ns`, `wall_ns`, `cpu_ns`, a counter or a figure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name in tables.
    pub name: String,
    /// The unit, such as `ns per operation`.
    pub unit: String,
    /// The direction that is better.
    pub direction: Direction,
    /// Digits after the point, for tables with a fixed number.
    pub decimals: u8,
    /// True for the one metric that verdicts are about.
    #[serde(default)]
    pub primary: bool,
    of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per: Option<String>,
    times: f64,
    /// Values up to this, in its unit, are near zero: ratios to them mean nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub near_zero: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Metric {
    /// A metric that is the figure `of`.
    pub fn new(name: &str, unit: &str, direction: Direction, of: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            direction,
            decimals: 2,
            primary: false,
            of: of.to_owned(),
            per: None,
            times: 1.0,
            near_zero: 0.0,
        }
    }

    /// Returns whether the metric is an amount of memory, of which less is better.
    pub(crate) fn is_memory(&self) -> bool {
        let units = ["bytes", "KiB", "MiB", "GiB", "resident, KiB"];
        units.contains(&self.unit.as_str()) && self.direction == Direction::Lower
    }

    /// Nanoseconds per operation on the workload's clock.
    pub fn time_per_operation() -> Self {
        Self::new("time", "ns per operation", Direction::Lower, "time_ns").per("operations")
    }

    /// Operations per second of wall-clock time.
    pub fn rate(unit: &str) -> Self {
        Self::new("rate", unit, Direction::Higher, "operations").per("wall_ns").times(1e9)
    }

    /// A counter per operation, without a better direction.
    pub fn counted(name: &str, counter: &str) -> Self {
        Self::new(name, PER_OPERATION, Direction::None, counter).per("operations").digits(4)
    }

    /// Divides by another figure; a sample in which the other figure is 0 has no value.
    pub fn per(mut self, figure: &str) -> Self {
        self.per = Some(figure.to_owned());
        self
    }

    /// Multiplies the value.
    pub fn times(mut self, factor: f64) -> Self {
        self.times = factor;
        self
    }

    /// Sets the number of digits after the point; the default is 2.
    pub fn digits(mut self, decimals: u8) -> Self {
        self.decimals = decimals;
        self
    }

    /// Sets up to which value, in its unit, ratios mean nothing: 10 times the metric's resolution.
    pub fn near_zero(mut self, value: f64) -> Self {
        self.near_zero = value;
        self
    }

    /// Converts a metric in seconds to milliseconds.
    #[must_use]
    pub fn in_milliseconds(self) -> Self {
        if self.unit != "s" {
            return self;
        }
        let (times, near_zero) = (self.times * 1e3, self.near_zero * 1e3);
        Self { unit: "ms".to_owned(), times, near_zero, decimals: 1, ..self }
    }

    /// Makes the metric primary.
    pub fn primary(mut self) -> Self {
        self.primary = true;
        self
    }

    /// Name and unit, for the head of a column; a figure that the program prints has no unit.
    pub fn label(&self) -> String {
        match self.unit() {
            unit if unit.is_empty() => self.name.clone(),
            unit if unit.starts_with(&self.name) => unit,
            unit => format!("{}, {unit}", self.name),
        }
    }

    /// The unit after multiplication. `per operation` becomes `per 1,000 operations`, also in older
    /// runs that recorded `per operation`.
    pub fn unit(&self) -> String {
        match self.unit.as_str() {
            PER_OPERATION if self.times == 1000.0 => "per 1,000 operations".to_owned(),
            PER_OPERATION if self.times != 1.0 => format!("per {} operations", self.times),
            unit => unit.to_owned(),
        }
    }

    /// The single values of [`value`](Self::value): the series of the figure `of`, if there is
    /// one and no divisor `per`; else the value itself.
    pub fn values(&self, measurement: &Measurement) -> Vec<f64> {
        match measurement.series.get(&self.of) {
            Some(series) if self.per.is_none() => {
                series.iter().map(|each| *each as f64 * self.times).collect()
            }
            _ => self.value(measurement).into_iter().collect(),
        }
    }

    /// The value; `None` if the measurement lacks a figure or the divisor is 0.
    pub fn value(&self, measurement: &Measurement) -> Option<f64> {
        let of = measurement.figure(&self.of)? * self.times;
        match &self.per {
            None => Some(of),
            Some(per) => measurement.figure(per).filter(|per| *per != 0.0).map(|per| of / per),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_the_formula() {
        let mut measurement = Measurement::of_window(4, 10, 20, 0, "x");
        measurement.counters.insert("locks".to_owned(), 2);
        measurement.figures.insert("score".to_owned(), 0.5);
        assert_eq!(Metric::time_per_operation().value(&measurement), Some(2.5));
        assert_eq!(Metric::rate("1/s").value(&measurement), Some(2e8));
        assert_eq!(Metric::counted("locks", "locks").value(&measurement), Some(0.5));
        let score = Metric::new("score", "", Direction::Higher, "score");
        assert_eq!(score.value(&measurement), Some(0.5));
        assert_eq!(score.clone().per("cpu_ns").value(&measurement), None, "nothing per nothing");
        assert_eq!(score.per("absent").value(&measurement), None);
    }

    #[test]
    fn seconds_can_be_milliseconds() {
        let wall = Metric::new("wall", "s", Direction::Lower, "wall_ns").times(1e-9);
        let shown = wall.digits(3).near_zero(0.01).in_milliseconds();
        let measurement = Measurement::of_window(1, 1, 2_500_000, 1, "x");
        assert_eq!(shown.label(), "wall, ms");
        let value = shown.value(&measurement).unwrap();
        assert!((value - 2.5).abs() < 1e-9 && (shown.near_zero - 10.0).abs() < 1e-9, "{value}");
        let memory = Metric::new("peak", "MiB", Direction::Lower, "peak_bytes");
        assert_eq!(memory.clone().in_milliseconds(), memory);
    }

    #[test]
    fn a_series_stands_for_its_figure() {
        let mut measurement = Measurement::of_window(2, 10, 20, 0, "x");
        measurement.figures.insert("each".to_owned(), 2.0);
        measurement.series.insert("each".to_owned(), vec![1, 3]);
        let each = Metric::new("each", "us", Direction::Lower, "each").times(10.0);
        assert_eq!(
            (each.value(&measurement), each.values(&measurement)),
            (Some(20.0), vec![10.0, 30.0])
        );
        assert_eq!(each.per("operations").values(&measurement), [10.0]);
        assert_eq!(Metric::rate("1/s").values(&measurement), [1e8]);
    }

    #[test]
    fn the_unit_is_that_of_the_formula() {
        let label = |metric: Metric| metric.label();
        assert_eq!(label(Metric::counted("locks", "locks")), "locks, per operation");
        let slabs = Metric::counted("slabs", "slabs").times(1000.0);
        assert_eq!(label(slabs.clone()), "slabs, per 1,000 operations");
        let mut measurement = Measurement::of_window(2000, 10, 20, 0, "x");
        measurement.counters.insert("slabs".to_owned(), 6);
        assert_eq!(slabs.value(&measurement), Some(3.0));
        let memory = Metric::new("resident", "resident, KiB", Direction::Lower, "resident");
        assert_eq!(label(memory), "resident, KiB", "a word is said once");
        assert_eq!(label(Metric::new("rate", "", Direction::Higher, "rate")), "rate");
    }
}
