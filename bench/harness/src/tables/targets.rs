//! The table of a run's targets.

use crate::judge::{Reached, Success, Worst, written};
use crate::results::{Against, Over, Relation, Run, Target};
use crate::statistics::Estimate;
use crate::table::{self, Entry, Table, Tone, words};

const HOW_TO_READ: &str = "\
met: the whole 95 % interval lies at or below the aim; missed: above it; unclear: it spans the aim,
or what is named is lacking. Ratios and differences are paired within rounds (Hodges-Lehmann,
Wilcoxon); of several workloads it is the geometric mean of each round that counts. the best: on
every workload the peer that is lowest there, picked by the same samples, so that chance can only
flatter the peer. each: shown is the peer that decides. A/A: the copy in place of both.";

/// Returns the targets of a run with an explanation; `None` if it has no targets.
pub fn of(run: &Run) -> Option<(Table, String)> {
    let reached = Reached::all(run);
    if reached.is_empty() {
        return None;
    }
    let head = [
        words("work"),
        words("against"),
        Entry::from("at most"),
        Entry::from(format!("{} / peer [95 %]", run.meta.baseline)),
        words("verdict"),
        words("peer"),
        words("worst"),
        Entry::from("A/A"),
    ];
    let rows = reached.iter().map(|reached| row(reached, unit(reached.target, run)));
    let table = Table::of(head, rows);
    let count = |is: fn(&Success) -> bool| reached.iter().filter(|it| is(&it.success)).count();
    let (met, missed) = (count(|it| *it == Success::Met), count(|it| *it == Success::Missed));
    let rest = reached.len() - met - missed;
    Some((table, format!("{met} met, {missed} missed, {rest} neither.\n{HOW_TO_READ}")))
}

fn row(reached: &Reached<'_>, unit: &str) -> Vec<Entry> {
    let Reached { target, success, peer, worst, .. } = reached;
    let shown = |estimate: Option<Estimate>| written(estimate, unit, table::multiple);
    let peers = match (peer, worst) {
        (Some(peer), _) => peer.clone(),
        (None, Some(_)) => "best of each".to_owned(),
        (None, None) => String::new(),
    };
    let worst = worst.as_ref().map(|Worst { workload, peer: of, value }| {
        let value = table::multiple(*value);
        match (target.over, peer) {
            (Over::EachWorkload, _) => workload.clone(),
            (Over::Mean, Some(_)) => format!("{workload} {value}"),
            (Over::Mean, None) => format!("{workload} {value} ({of})"),
        }
    });
    let value = match reached.estimate {
        Some(_) => shown(reached.estimate),
        None => "-".to_owned(),
    };
    vec![
        words(&target.work),
        words(against(target)),
        Entry::from(aim(target.relation, target.at_most, unit)),
        Entry::from(value),
        verdict(success),
        words(peers),
        words(worst.unwrap_or_default()),
        Entry::from(shown(reached.noise)),
    ]
}

pub(super) fn unit<'a>(target: &Target, run: &'a Run) -> &'a str {
    match target.relation {
        Relation::Ratio => "",
        Relation::Difference => run.meta.metric(&target.metric).map_or("", |it| &it.unit),
    }
}

pub(super) fn aim(relation: Relation, at_most: f64, unit: &str) -> String {
    match relation {
        Relation::Ratio => table::figure(at_most),
        Relation::Difference => format!("{at_most:+} {unit}"),
    }
}

pub(super) fn against(target: &Target) -> String {
    match &target.against {
        Against::Best => "the best".to_owned(),
        Against::Each(all) => match &all[..] {
            [] => "each".to_owned(),
            [one] => one.clone(),
            several => format!("each of {}", several.join(", ")),
        },
    }
}

fn verdict(success: &Success) -> Entry {
    let tone = match success {
        Success::Met => Tone::Better,
        Success::Missed => Tone::Worse,
        Success::Unclear(_) | Success::NotRun => Tone::Words,
    };
    Entry::toned(tone, success.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::{Cells, run_of};
    use crate::results::{Direction, Metric};

    fn text(ours: f64) -> String {
        let cell = |name: &str, ns: f64| ("thread".to_owned(), 1, name.to_owned(), vec![ns; 6]);
        let cells: Cells = vec![cell("quarry", ours), cell("glibc", 10.0), cell("other", 20.0)];
        let metric = Metric::new("time", "ns", Direction::Lower, "value").primary();
        let mut run = run_of("peers", metric, &cells);
        let target = |work: &str, workload: &str| Target {
            work: work.to_owned(),
            workloads: vec![workload.to_owned()],
            metric: "time".to_owned(),
            against: Against::Best,
            over: Over::Mean,
            relation: Relation::Ratio,
            at_most: 1.0,
        };
        run.meta.targets = vec![target("a short-lived thread", "thread"), target("x", "fork")];
        let (table, legend) = of(&run).unwrap();
        format!("{}\n{legend}", table.text())
    }

    #[test]
    fn a_row_says_what_was_reached_against_whom() {
        let row = |text: &str| {
            let line = text.lines().find(|line| line.contains("a short-lived thread")).unwrap();
            line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>()
        };
        let of = |cells: &[&str]| cells.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
        let aim = ["", "a short-lived thread", "the best", "1.00"];
        let met = ["0.900 [0.900, 0.900]", "met", "glibc", "", "", ""];
        assert_eq!(row(&text(9.0)), of(&[&aim[..], &met].concat()));
        let missed = ["1.200 [1.200, 1.200]", "missed", "glibc", "", "", ""];
        assert_eq!(row(&text(12.0)), of(&[&aim[..], &missed].concat()));
        assert!(text(9.0).contains("1 met, 0 missed, 1 neither."), "{}", text(9.0));
        assert!(text(9.0).contains("| not run |"), "{}", text(9.0));
    }

    #[test]
    fn a_run_without_targets_has_no_table() {
        assert!(of(&crate::results::examples::run("a", &[("a", &[])])).is_none());
    }
}
