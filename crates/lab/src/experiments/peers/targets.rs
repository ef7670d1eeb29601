//! The table of targets of a run.

use super::EXPERIMENT;
use super::reached::{self, Reached};
use super::target::{Against, Over, Relation, TARGETS, Target};
use quarry_harness::results::Run;
use quarry_harness::statistics::Interval;
use quarry_harness::table;
use quarry_harness::targets::{Outcome, Row, Targets};

/// The targets of a run; `None` where its experiment has none.
pub(crate) fn of(run: &Run) -> Option<Targets> {
    if run.meta.experiment != EXPERIMENT {
        return None;
    }
    let baseline = &run.meta.baseline;
    let header = [
        "work",
        "against",
        "at most",
        &format!("{baseline} / peer [95 %]"),
        "verdict",
        "peer",
        "worst",
        "A/A",
    ];
    let row = |target: &Target| {
        let reached = reached::judge(target, run);
        Row { cells: cells(target, &reached), outcome: reached.outcome }
    };
    let rows: Vec<Row> = TARGETS.iter().map(row).collect();
    Some(Targets { header: header.map(str::to_owned).to_vec(), legend: legend(&rows), rows })
}

fn cells(target: &Target, reached: &Reached) -> Vec<String> {
    let Reached { outcome, value, interval, peer, worst, noise } = reached;
    let of = |value: f64| table::figure(value);
    let unit = match target.relation {
        Relation::Ratio => String::new(),
        Relation::Difference(unit) => format!(" {unit}"),
    };
    let with = |value: f64, interval: &Option<Interval>| match interval {
        Some(Interval { low, high }) => {
            format!("{} [{}, {}]{unit}", of(value), of(*low), of(*high))
        }
        None => format!("{}{unit}", of(value)),
    };
    let aim = match target.relation {
        Relation::Ratio => of(target.at_most),
        Relation::Difference(_) => format!("{:+}{unit}", target.at_most),
    };
    let named = match (peer, worst, target.over) {
        (Some(peer), _, _) => peer.clone(),
        (None, Some(_), Over::Mean) => "best of each".to_owned(),
        _ => String::new(),
    };
    let worst = worst.as_ref().map(|spot| match target.over {
        Over::EachWorkload => spot.workload.clone(),
        Over::Mean if peer.is_some() => format!("{} {}", spot.workload, of(spot.value)),
        Over::Mean => format!("{} {} ({})", spot.workload, of(spot.value), spot.peer),
    });
    vec![
        target.work.to_owned(),
        against(target.against),
        aim,
        value.map_or("-".to_owned(), |value| with(value, interval)),
        word(outcome),
        named,
        worst.unwrap_or_default(),
        noise.as_ref().map_or(String::new(), |(value, interval)| with(*value, interval)),
    ]
}

fn against(against: Against) -> String {
    match against {
        Against::Best => "the best".to_owned(),
        Against::Each([]) => "each".to_owned(),
        Against::Each([one]) => (*one).to_owned(),
        Against::Each(several) => format!("each of {}", several.join(", ")),
    }
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Met => "met".to_owned(),
        Outcome::Missed => "missed".to_owned(),
        Outcome::Unclear(why) if why.is_empty() => "unclear".to_owned(),
        Outcome::Unclear(why) => format!("unclear: {why}"),
        Outcome::NotRun => "not run".to_owned(),
    }
}

fn legend(rows: &[Row]) -> String {
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    let met = count(|it| *it == Outcome::Met);
    let missed = count(|it| *it == Outcome::Missed);
    let rest = rows.len() - met - missed;
    format!("{met} met, {missed} missed, {rest} neither.\n{HOW_TO_READ}")
}

const HOW_TO_READ: &str = "\
met: the whole 95 % interval lies at or below the aim; missed: above it; unclear: it spans the aim,
or what is named is lacking. Ratios and differences are paired within rounds (Hodges-Lehmann,
Wilcoxon); of several workloads it is the geometric mean of each round that counts. the best: on
every workload the peer that is lowest there, picked by the same samples, so that chance can only
flatter the peer. each: shown is the peer that decides. A/A: the copy in place of both.
Fast paths have their budgets of instructions in crates/preload/tests/fast_path.rs.";

#[cfg(test)]
mod tests {
    use super::super::TIME;
    use super::*;
    use quarry_harness::results::examples::{Cells, run_of};
    use quarry_harness::results::{Direction, Metric};

    fn thread_run(experiment: &str, ours: f64) -> Run {
        let cell = |name: &str, ns: f64| ("thread".to_owned(), 1, name.to_owned(), vec![ns; 6]);
        let cells: Cells = vec![cell("quarry", ours), cell("glibc", 10.0), cell("other", 20.0)];
        let metric = Metric::new(TIME, "ns", Direction::Lower, "value").primary();
        run_of(experiment, metric, &cells)
    }

    fn text(ours: f64) -> String {
        of(&thread_run("peers", ours)).unwrap().text()
    }

    #[test]
    fn a_row_says_what_was_reached_against_whom() {
        let row = |text: &str| {
            let line = text.lines().find(|line| line.contains("a short-lived thread")).unwrap();
            line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>()
        };
        let of = |cells: &[&str]| cells.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
        let aim = ["", "a short-lived thread", "the best", "1.00"];
        let met = ["0.90 [0.90, 0.90]", "met", "glibc", "", "", ""];
        assert_eq!(row(&text(9.0)), of(&[&aim[..], &met].concat()));
        let missed = ["1.20 [1.20, 1.20]", "missed", "glibc", "", "", ""];
        assert_eq!(row(&text(12.0)), of(&[&aim[..], &missed].concat()));
        let others = TARGETS.len() - 1;
        assert!(
            text(9.0).contains(&format!("1 met, 0 missed, {others} neither.")),
            "{}",
            text(9.0)
        );
        assert!(text(9.0).contains("| not run |"), "{}", text(9.0));
    }

    #[test]
    fn other_experiments_have_no_targets() {
        assert!(of(&thread_run("malloc-patterns", 9.0)).is_none());
    }
}
