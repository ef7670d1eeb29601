//! `--calibrate`: the page allocator's share of a replay, so that anybody can check the constants.
//!
//! A profile of the threads would say more of this machine's scheduler than of the path: handing a
//! burst over costs as much as sending it. So one thread walks the path by itself, for each burst
//! the first leg and then the second: with other work, without it, and with the calls to the page
//! allocator timed.

use super::{Kind, Replaying};
use crate::replay::kernels::network::PACKET_WORK;
use crate::replay::kernels::{Cast, Scenario};
use crate::replay::solo::{Space, Timed};
use crate::replay::stack::Policies;
use anyhow::{Result, anyhow, bail};
use quarry_harness::environment::Environment;
use quarry_harness::results::Measurement;
use quarry_harness::table;
use std::io::Write;

/// Share of the page allocator in document 003: `__free_pages_ok` and `get_page_from_freelist`.
const DOCUMENT_SHARE: f64 = 0.123_699 + 0.115_231;

/// A scenario for one thread that goes round by itself.
pub(super) fn alone(scenario: Scenario) -> Scenario {
    let round = match scenario.cast {
        Cast::Crew { burst, .. } => burst,
        Cast::Solo { round, .. } => round,
    };
    let cast = Cast::Solo { round, timed: Timed::Both, space: Space::None };
    Scenario { cast, ..scenario }
}

impl<K: Kind> Replaying<K> {
    /// Measures the shares of all rows on these policies.
    pub(super) fn calibrate(
        &self,
        policies: &Policies,
        rows: &[String],
        out: &mut dyn Write,
    ) -> Result<()> {
        let header = [
            "row",
            "ns per packet",
            "in the page allocator",
            "its share",
            "share in document 003",
            "bytes of work for that share",
        ];
        let mut lines = Vec::new();
        for row in rows {
            lines.push(self.calibrated(policies, row)?);
        }
        let machine = Environment::capture().summary();
        let what = format!("{policies}, one thread; {PACKET_WORK} bytes of work on either side");
        writeln!(out, "{machine}\n{what}; the least of {} samples.\n", self.samples())?;
        writeln!(out, "{}", table::render(header.map(str::to_owned).to_vec(), lines))?;
        Ok(())
    }

    fn calibrated(&self, policies: &Policies, row: &str) -> Result<Vec<String>> {
        // What disturbs a sample only adds to it.
        let least = |more: &[&str], figure: &dyn Fn(&Measurement) -> f64| {
            let more: Vec<String> = more.iter().map(|&argument| argument.to_owned()).collect();
            let mut least = f64::INFINITY;
            for _ in 0..self.samples() {
                let taken = self.take(row, policies, 1, &more).map_err(|fault| anyhow!(fault))?;
                least = least.min(figure(&taken));
            }
            anyhow::Ok(least)
        };
        let cpu = |taken: &Measurement| taken.cpu_ns as f64 / taken.operations as f64;
        let in_pages =
            |taken: &Measurement| taken.figure("page_ns").unwrap_or(0.0) / taken.operations as f64;
        let total = least(&["--alone"], &cpu)?;
        let bare = least(&["--alone", "--work=0"], &cpu)?;
        let pages = least(&["--alone", "--timed"], &in_pages)?;
        if total <= bare {
            bail!("{row}: other work takes no time: the machine is too busy to calibrate");
        }
        let per_byte = (total - bare) / PACKET_WORK as f64;
        let fitting = (pages / DOCUMENT_SHARE - bare) / per_byte;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        Ok(vec![
            row.to_owned(),
            table::figure(total),
            table::figure(pages),
            percent(pages / total),
            percent(DOCUMENT_SHARE),
            format!("{:.0}", fitting.max(0.0)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::kernels::network::LINUX_2_6_29;

    #[test]
    fn one_thread_walks_in_the_same_bursts() {
        let alone = alone(LINUX_2_6_29.udp_stream(4096, None, 100));
        assert_eq!((alone.path.steps.len(), alone.path.work.sender), (4, 100));
        assert!(matches!(alone.cast, Cast::Solo { round: 30, timed: Timed::Both, .. }));
    }
}
