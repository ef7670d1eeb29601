//! A sample: a load on a memory for some hours of simulated time, observed once a minute.

use super::load::Load;
use super::memory::{Memory, Variant};
use anyhow::Result;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_mm::frame::FRAME_SHIFT;
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub(crate) const LOOKED_AT: [u8; 3] = [3, 4, 9];

/// Name of a figure: share of free memory in blocks of at least this order, mean of the last half.
pub(crate) fn available(order: u8) -> String {
    format!("free in order {order}+")
}

/// Name of the figure: the share of this order's requests that were served.
pub(crate) fn served(order: u8) -> String {
    format!("order {order} served")
}

/// Name of a series: each minute's per mille of free memory in blocks of at least this order.
pub(crate) fn course(order: u8) -> String {
    format!("course of order {order}")
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DaySample {
    pub(crate) variant: Variant,
    pub(crate) mib: u32,
    pub(crate) hours: u32,
    pub(crate) seed: u64,
}

impl Work for DaySample {
    const NAME: &'static str = "fragmentation";

    fn measure(self) -> Result<Measurement> {
        let frames = self.mib << (20 - FRAME_SHIFT);
        let memory = Memory::build(&self.variant, frames)?;
        let mut load = Load::new(&memory, frames, self.seed);
        let mut looks: [Vec<u64>; LOOKED_AT.len()] = Default::default();
        let start = Instant::now();
        for _ in 0..self.hours * 60 {
            (0..60).for_each(|_| load.tick());
            for (looks, order) in looks.iter_mut().zip(LOOKED_AT) {
                looks.push((memory.available(order) * 1000.0).round() as u64);
            }
        }
        load.end();
        let ns = start.elapsed().as_nanos() as u64;
        memory.check_at_end()?;
        let taken = load.served.iter().map(|it| it.served).sum();
        let window = Measurement::of_window(taken, ns, ns, ns, &self.variant.name);
        let mut measurement = Measurement { verified: load.given_back, ..window };
        for (looks, order) in looks.into_iter().zip(LOOKED_AT) {
            let second_half = &looks[looks.len() / 2..];
            let mean = second_half.iter().sum::<u64>() as f64 / second_half.len() as f64;
            measurement.figures.insert(available(order), mean / 10.0);
            let counts = load.served[usize::from(order)];
            let part = counts.served as f64 / counts.requests.max(1) as f64;
            measurement.figures.insert(served(order), part * 100.0);
            measurement.series.insert(course(order), looks);
        }
        Ok(measurement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(name: &str, seed: u64) -> Measurement {
        let (variant, _) = Variant::named(name, "v6.18").expect("a variant");
        DaySample { variant, mib: 256, hours: 1, seed }.measure().expect("it ends")
    }

    /// The results that do not depend on real time.
    fn seen(of: &Measurement) -> String {
        format!("{:?} {:?} {} {}", of.series, of.figures, of.operations, of.verified)
    }

    #[test]
    fn the_same_seed_makes_the_same_hour() {
        let first = hour("v6.18", 7);
        assert_eq!(seen(&first), seen(&hour("v6.18", 7)));
        assert_ne!(seen(&first), seen(&hour("v6.18", 8)));
    }

    #[test]
    fn every_variant_gets_back_what_it_gave() {
        for name in ["v6.18", "order0", "one-type", "no-reserve", "contained"] {
            let measurement = hour(name, 1);
            assert!(measurement.operations > 10_000, "{name}: {}", measurement.operations);
            assert_eq!(measurement.verified, measurement.operations, "{name}");
            for order in LOOKED_AT {
                let looks = &measurement.series[&course(order)];
                assert_eq!(looks.len(), 60);
                assert!(looks.iter().all(|look| *look <= 1000), "{name}: {looks:?}");
            }
        }
    }

    /// Frames in blocks of order 9 are also frames in blocks of at least order 4.
    #[test]
    fn less_is_available_in_higher_orders() {
        let measurement = hour("v6.18", 3);
        let of = |order| measurement.figures[&available(order)];
        assert!(of(3) >= of(4) && of(4) >= of(9), "{:?}", measurement.figures);
    }
}
