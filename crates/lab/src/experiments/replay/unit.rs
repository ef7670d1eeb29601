//! Units of the originals, as metrics.

use quarry_harness::results::{Direction, Metric};

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
}
