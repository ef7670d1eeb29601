//! `quarry lab run scaling`, with what `make lab` has built.

use crate::support::{Workshop, lab, lab_is_built};
use quarry_harness::results::{self, Cell};

/// The most that a call may cost on 64 simulated CPUs, in CPU time, times its cost on one. These
/// are the present figures (lab/results/scaling.md) with some room: a change of the code moves them
/// by a tenth, because runs of many tasks are chaotic. The aim is 1.6 for each.
const MOST: [(&str, f64); 2] = [("phases", 6.0), ("mixed", 9.0)];

#[test]
fn calls_on_64_cpus_cost_no_more_than_today() {
    if !lab_is_built() {
        return;
    }
    let shop = Workshop::new();
    let place = shop.path("run");
    let only = MOST.map(|(pattern, _)| pattern).join(",");
    let mut command = lab();
    command.args(["run", "scaling", "--tasks=1,64", "--only", &only]).arg("--out").arg(&place);
    let printed = command.assert().success();
    let printed = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
    let run = results::read(&place).unwrap();
    for (workload, most) in MOST {
        let cost = |tasks| {
            let cell = Cell { workload, tasks, variant: "sheaf" };
            run.median(cell, run.meta.primary()).unwrap()
        };
        let ratio = cost(64) / cost(1);
        println!("{workload}: {:.1} ns on 1 CPU, {ratio:.1} times that on 64", cost(1));
        assert!((0.9..most).contains(&ratio), "{workload}: {ratio}, at most {most}\n{printed}");
    }
    for (pattern, lock) in MOST.map(|(pattern, _)| (pattern, "->")) {
        let is_row = |line: &&str| line.contains(pattern) && line.contains(lock);
        assert!(printed.lines().any(|line| is_row(&line)), "{pattern}: {printed}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let said = |option: &str| {
        let done = lab().args(["run", "scaling", "--quick", option]).assert().failure();
        String::from_utf8_lossy(&done.get_output().stderr).into_owned()
    };
    assert!(said("--variants=foo").contains("no variant --variants foo"));
    assert!(said("--only=fazes").contains("no pattern --only fazes"));
    assert!(said("--costs=/no/such/file").contains("--costs /no/such/file"));
    assert!(said("--traces=/no/such/file").contains("/no/such/file"));
}
