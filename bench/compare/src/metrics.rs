//! The metrics of each run, and which of them decides.
//!
//! CPU time decides where no thread waits, because other processes do not make it longer; else the
//! time on the wall clock does. `--metric` can name another one.

use crate::figure::{Figure, MEASURED};
use crate::latencies;
use anyhow::{Result, bail};
use quarry_harness::nearest;
use quarry_harness::results::{Direction, Metric};
use quarry_harness::usage::Usage;
use std::path::PathBuf;

/// The values of `--metric`, read.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Figures that the program prints.
    pub(super) figures: Vec<Figure>,
    /// The file of latencies that each run writes.
    pub(super) latencies: Option<PathBuf>,
    /// The metric that decides; `None`: the first figure with a direction, else a time.
    pub(super) decisive: Option<String>,
}

impl Wanted {
    /// Reads every `--metric`; fails on a mistake.
    pub(super) fn parse(texts: &[String], latencies: Option<PathBuf>) -> Result<Self> {
        let quantiles = latencies::names();
        let is_name =
            |text: &String| MEASURED.contains(&text.as_str()) || quantiles.contains(&text.as_str());
        let (named, regexes): (Vec<_>, Vec<_>) = texts.iter().cloned().partition(is_name);
        let figures = Figure::parse_all(&regexes)?;
        let wanted = Self { figures, latencies, decisive: named.first().cloned() };
        let all = wanted.metrics(true);
        let judged = all.iter().filter(|it| it.direction != Direction::None);
        let judged: Vec<&str> = judged.map(|it| it.name.as_str()).collect();
        match &named[..] {
            [] => {}
            [name] if judged.contains(&name.as_str()) => {}
            [name] if quantiles.contains(&name.as_str()) => bail!(Usage(format!(
                "--metric {name}: a quantile of no file; accepted with --latencies FILE"
            ))),
            [name] => {
                return Err(nearest::unknown("metric to decide by, --metric", name, &judged));
            }
            [one, other, ..] => bail!(Usage(format!(
                "--metric {one} and --metric {other}: only one decides; accepted: one name, beside \
                 regular expressions"
            ))),
        }
        Ok(wanted)
    }

    /// The metrics of every run. Those of the program's own come first.
    pub(super) fn metrics(&self, idles: bool) -> Vec<Metric> {
        let mib = 1.0 / f64::from(1 << 20);
        let lower = |name: &str, unit: &str, of: &str, times: f64, digits: u8| {
            Metric::new(name, unit, Direction::Lower, of).times(times).digits(digits)
        };
        let mut metrics: Vec<Metric> = self.figures.iter().map(Figure::metric).collect();
        if self.latencies.is_some() {
            metrics.extend(latencies::metrics());
        }
        metrics.extend([
            lower("wall", "s", "wall_ns", 1e-9, 3),
            lower("cpu", "s", "cpu_ns", 1e-9, 3),
            // The kernel splits CPU time between user and system by ticks of 1 to 10 ms.
            lower("user", "s", "user_ns", 1e-9, 3).near_zero(0.01),
            lower("sys", "s", "sys_ns", 1e-9, 3).near_zero(0.01),
            lower("peak RSS", "MiB", "peak_bytes", mib, 1).near_zero(0.1),
        ]);
        if idles {
            metrics.push(lower("idle RSS", "MiB", "idle_bytes", mib, 1).near_zero(0.1));
        }
        let count = |name: &str, of: &str| {
            Metric::new(name, "", Direction::None, of).digits(0).near_zero(10.0)
        };
        let huge = Metric::new("huge pages", "MiB", Direction::None, "huge_bytes").times(mib);
        metrics.extend([
            count("faults", "page_faults"),
            huge.digits(0).near_zero(2.0),
            count("switches", "switches"),
        ]);
        metrics
    }

    /// The metrics, of which one is primary, and the reason why. `waits` tells for each workload
    /// why its time on the wall clock decides, if it does.
    pub(super) fn decided(
        &self,
        waits: impl Iterator<Item = Option<String>>,
        idles: bool,
    ) -> Result<(Vec<Metric>, String)> {
        let mut metrics = self.metrics(idles);
        let own = self.metrics(false);
        let own = own.iter().take_while(|it| it.name != "wall");
        let own = own.filter(|it| it.direction != Direction::None).map(|it| it.name.clone());
        let (name, why) = match (&self.decisive, own.into_iter().next()) {
            (Some(name), _) => (name.clone(), "as --metric says".to_owned()),
            (None, Some(_)) if self.latencies.is_some() && !self.has_direction() => {
                (latencies::DECISIVE.to_owned(), "a quantile of --latencies".to_owned())
            }
            (None, Some(name)) => (name, "the first --metric with a direction".to_owned()),
            (None, None) => by_time(waits),
        };
        let Some(primary) = metrics.iter_mut().find(|it| it.name == name) else {
            bail!("--metric {name}: no process lived on after the program, so none was idle");
        };
        primary.primary = true;
        Ok((metrics, format!("{name} decides: {why}")))
    }

    fn has_direction(&self) -> bool {
        self.figures.iter().any(|it| it.direction != Direction::None)
    }
}

/// The kind of time that decides, and why; without a workload's first run, it is wall time.
fn by_time(waits: impl Iterator<Item = Option<String>>) -> (String, String) {
    let mut waits = waits.peekable();
    if waits.peek().is_none() {
        return ("wall".to_owned(), "no run shows whether the program waits".to_owned());
    }
    match waits.find_map(|waits| waits) {
        Some(why) => ("wall".to_owned(), why),
        None => (
            "cpu".to_owned(),
            "no thread waits, and other processes do not make CPU time longer".to_owned(),
        ),
    }
}

/// The metrics to judge: those with a direction, and the program's own.
pub(super) fn judged(metrics: &[Metric]) -> Vec<&Metric> {
    let own = metrics.iter().take_while(|it| it.name != "wall");
    let undirected = own.filter(|it| it.direction == Direction::None);
    undirected.chain(metrics.iter().filter(|it| it.direction != Direction::None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    fn parsed(texts: &[&str], latencies: bool) -> Result<Wanted> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Wanted::parse(&texts, latencies.then(|| PathBuf::from("file")))
    }

    fn decided(texts: &[&str], latencies: bool) -> String {
        parsed(texts, latencies).unwrap().decided(iter::empty(), false).unwrap().1
    }

    #[test]
    fn one_metric_decides() {
        assert!(decided(&[], false).starts_with("wall decides: no run shows"));
        assert_eq!(decided(&["cpu"], false), "cpu decides: as --metric says");
        assert_eq!(
            decided(&["peak RSS", "higher:(a)"], false),
            "peak RSS decides: as --metric says"
        );
        assert!(
            decided(&["(a)", "higher:(?<rate>b)"], false).starts_with("rate decides: the first")
        );
        assert_eq!(decided(&["(a)"], true), "p99 decides: a quantile of --latencies");
        assert_eq!(decided(&["p50"], true), "p50 decides: as --metric says");
        assert!(decided(&["lower:(?<x>b)"], true).starts_with("x decides: the first --metric"));
    }

    #[test]
    fn one_workload_that_waits_makes_wall_time_decide() {
        let wanted = Wanted::default();
        let of = |waits: &[Option<&str>]| {
            let waits = waits.iter().map(|it| it.map(str::to_owned));
            wanted.decided(waits, false).unwrap().1
        };
        assert!(of(&[None, None]).starts_with("cpu decides: no thread waits"));
        assert_eq!(of(&[None, Some("it sleeps")]), "wall decides: it sleeps");
    }

    #[test]
    fn wrong_names_say_what_is_accepted() {
        let error = |texts: &[&str]| parsed(texts, false).unwrap_err().to_string();
        assert_eq!(
            error(&["p99"]),
            "--metric p99: a quantile of no file; accepted with --latencies FILE"
        );
        assert!(error(&["faults"]).starts_with("no metric to decide by, --metric faults"));
        assert!(error(&["cpu", "wall"]).contains("only one decides"));
        let idle = parsed(&["idle RSS"], false).unwrap();
        let error = idle.decided(iter::empty(), false).unwrap_err().to_string();
        assert!(error.starts_with("--metric idle RSS: no process lived on"), "{error}");
    }

    #[test]
    fn what_has_no_direction_is_shown_where_the_program_says_it() {
        let wanted = parsed(&["(?<did>a)", "higher:(?<rate>b)"], false).unwrap();
        let metrics = wanted.metrics(true);
        let names: Vec<&str> = judged(&metrics).iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["did", "rate", "wall", "cpu", "user", "sys", "peak RSS", "idle RSS"]);
    }
}
