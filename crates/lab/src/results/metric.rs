//! What a sample says, as a formula that is stored with the samples.

use super::Measurement;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// Rates.
    Higher,
    /// Times and memory.
    Lower,
    /// Neither: a count that explains.
    None,
}

/// A figure of every sample: `times * of / per`, where `of` and `per` name figures of the
/// measurement (`operations`, `time_ns`, `wall_ns`, `cpu_ns`, a counter or a figure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    /// Its name in tables.
    pub(crate) name: String,
    /// What it counts, such as `ns per operation`.
    pub(crate) unit: String,
    /// Which way is better.
    pub(crate) direction: Direction,
    /// Digits behind the point, where a table fixes them.
    pub(crate) decimals: u8,
    /// Whether it is the one that verdicts are about; one metric of a run is.
    #[serde(default)]
    pub(crate) primary: bool,
    of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per: Option<String>,
    times: f64,
}

impl Metric {
    /// The figure `of` as it is.
    pub(crate) fn new(name: &str, unit: &str, direction: Direction, of: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            direction,
            decimals: 2,
            primary: false,
            of: of.to_owned(),
            per: None,
            times: 1.0,
        }
    }

    /// Nanoseconds per operation on the workload's clock.
    pub(crate) fn time_per_operation() -> Self {
        Self::new("time", "ns per operation", Direction::Lower, "time_ns").per("operations")
    }

    /// Operations per second of wall-clock time.
    pub(crate) fn rate(unit: &str) -> Self {
        Self::new("rate", unit, Direction::Higher, "operations").per("wall_ns").times(1e9)
    }

    /// A counter per operation: neither way is better by itself.
    pub(crate) fn counted(name: &str, counter: &str) -> Self {
        Self::new(name, "per operation", Direction::None, counter).per("operations").digits(4)
    }

    /// Divided by another figure; no value where that is 0.
    pub(crate) fn per(mut self, figure: &str) -> Self {
        self.per = Some(figure.to_owned());
        self
    }

    /// Multiplied.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.times = factor;
        self
    }

    /// With so many digits behind the point; 2 where nothing is said.
    pub(crate) fn digits(mut self, decimals: u8) -> Self {
        self.decimals = decimals;
        self
    }

    /// The one that verdicts are about.
    pub(crate) fn primary(mut self) -> Self {
        self.primary = true;
        self
    }

    /// Name and unit, for the head of a column; a figure that a program prints has no unit.
    pub(crate) fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }

    /// Its name with the unit, if it has one.
    pub(crate) fn heading(&self) -> String {
        match self.unit.is_empty() {
            true => self.name.clone(),
            false => format!("{}, {}", self.name, self.unit),
        }
    }

    /// Its value, `None` where the measurement lacks a figure or divides by 0.
    pub(crate) fn value(&self, measurement: &Measurement) -> Option<f64> {
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
        assert_eq!(score.per("nobody").value(&measurement), None);
    }
}
