//! Prints an answer with its evidence, as text and as JSON.

use super::candidates::Candidates;
use super::deploy::Deploy;
use super::facts::Facts;
use super::plan::Plan;
use super::search::{Looked, Outcome, StageResult};
use super::verdict::{Answer, Verdict};
use crate::judgement::Judgements;
use crate::readable::readable;
use anyhow::{Result, bail};
use quarry_harness::judge::Selection;
use quarry_harness::report;
use quarry_harness::results::{Metric, Run};
use quarry_harness::table::{self, Table};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

const SCHEMA: &str = "quarry-advice/1";

/// An answer with its evidence. If the search could not begin, most fields are empty.
#[derive(Default)]
pub(super) struct Telling {
    pub(super) command: String,
    pub(super) baseline: String,
    pub(super) verdict: Verdict,
    pub(super) facts: Option<Facts>,
    pub(super) candidates: Candidates,
    pub(super) plan: Option<Plan>,
    pub(super) outcome: Option<Outcome>,
    /// Names of the metrics of time and memory by which candidates are picked.
    pub(super) metrics: [String; 2],
    /// Remarks on the limits of the answer.
    pub(super) notes: Vec<String>,
    pub(super) spent: Duration,
}

impl fmt::Display for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.verdict.sentence)?;
        if let Some(facts) = &self.facts {
            writeln!(f, "Facts: {}.", facts.line())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        if let Some(outcome) = &self.outcome {
            self.write_test(f)?;
            self.write_looks(f, outcome)?;
        }
        self.write_others(f)?;
        if let Some((name, lines)) = self.deploy() {
            write_deploy(f, name, &lines)?;
        }
        Ok(())
    }
}

impl Telling {
    /// Prints everything; the advice for an aged heap has that for a fresh one beside it.
    pub(super) fn write(&self, fresh: Option<&Self>, out: &mut dyn Write) -> io::Result<()> {
        let Some(fresh) = fresh else { return write!(out, "{self}") };
        let sentences = [&self.verdict.sentence, &fresh.verdict.sentence];
        writeln!(out, "on an aged heap: {}\non a fresh heap: {}", sentences[0], sentences[1])?;
        write!(out, "\n## On an aged heap\n\n{self}\n## On a fresh heap\n\n{fresh}")
    }

    fn test(&self) -> Option<&(usize, Run)> {
        self.outcome.as_ref()?.test.as_ref()
    }

    fn name(&self, candidate: usize) -> &str {
        self.candidates.there[candidate].contender.name()
    }

    fn deploy(&self) -> Option<(&str, Deploy)> {
        let (candidate, _) = self.test().filter(|_| self.verdict.answer == Answer::Use)?;
        let contender = &self.candidates.there[*candidate].contender;
        Some((contender.name(), Deploy::of(contender)))
    }

    fn write_test(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((candidate, run)) = self.test() else { return Ok(()) };
        let shown = readable(run);
        writeln!(
            f,
            "\nThe test: {} beside {}, {} in shuffled order, seed {}; none of these runs \
             took part in picking it.\n",
            self.name(*candidate),
            run.meta.baseline,
            table::counted(run.rounds(), "round"),
            run.meta.seed
        )?;
        writeln!(f, "{}", test_table(&shown, self.name(*candidate)))
    }

    fn write_looks(&self, f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
        for (what, looked) in [("First", &outcome.first), ("Second", &outcome.second)] {
            if looked.rounds > 0 {
                writeln!(
                    f,
                    "\n{what} look: {}, as factors of those on {}; only to pick from.\n\n{}",
                    table::counted(looked.rounds, "round"),
                    self.baseline,
                    self.look_table(looked)
                )?;
            }
        }
        Ok(())
    }

    fn look_table(&self, looked: &Looked) -> String {
        let [time, memory] = self.metrics.each_ref().map(String::as_str);
        let head = ["candidate", time, memory, "looked at for"];
        let row = |seen: &StageResult| {
            let factor = |value: Option<f64>| value.map_or("-".to_owned(), table::multiple);
            let candidate = &self.candidates.there[seen.candidate];
            let why = match &seen.failure {
                Some(failure) => format!("out, it failed: {failure}"),
                None => candidate.why.clone(),
            };
            vec![candidate.contender.name().to_owned(), factor(seen.time), factor(seen.memory), why]
        };
        Table::of(head, looked.seen.iter().map(row)).text()
    }

    fn write_others(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.facts.is_none() {
            return Ok(());
        }
        writeln!(f)?;
        for candidate in self.for_want_of_time() {
            writeln!(f, "no time for: {candidate}")?;
        }
        for absent in &self.candidates.absent {
            writeln!(f, "absent: {absent}")?;
        }
        if !self.candidates.unpackaged.is_empty() {
            let names = self.candidates.unpackaged.join(", ");
            writeln!(
                f,
                "absent, and not in Debian: {names}; --allocators NAME=FILE takes any file"
            )?;
        }
        for unsuited in &self.candidates.unsuited {
            writeln!(f, "not looked at: {unsuited}")?;
        }
        Ok(())
    }

    /// Names of the candidates that were left out for lack of time.
    fn for_want_of_time(&self) -> Vec<&str> {
        let looked_at = self.plan.map_or(usize::MAX, |plan| plan.candidates as usize);
        let rest = self.candidates.there.iter().skip(looked_at);
        rest.map(|it| it.contender.name()).collect()
    }

    /// A page with the answer and the test. If nothing was tested, the error has the reason.
    pub(super) fn page(&self) -> Result<String> {
        let sentence = &self.verdict.sentence;
        let Some((_, run)) = self.test() else {
            bail!("--html: nothing was tested, so there is no page: {sentence}");
        };
        let mut run = readable(run);
        run.meta.experiment = format!("advise {}", self.command);
        run.warnings.clone_from(&self.notes);
        report::page(vec![("The test".to_owned(), run)], Some(sentence))
    }

    /// The answer as JSON; that of an aged heap holds that of a fresh one.
    pub(super) fn as_json(&self, fresh: Option<&Self>) -> Value {
        let seen = |looked: &Looked| {
            let of = |seen: &StageResult| {
                json!({
                    "candidate": self.name(seen.candidate),
                    "time": seen.time,
                    "memory": seen.memory,
                    "failure": seen.failure,
                })
            };
            json!({
                "rounds": looked.rounds,
                "candidates": looked.seen.iter().map(of).collect::<Vec<Value>>(),
            })
        };
        let evidence = self.test().map(|(candidate, run)| {
            let name = self.name(*candidate);
            let judgements = Judgements::of(run);
            let of_it = judgements.all().filter(|it| it.variant == name);
            json!({
                "candidate": name,
                "meta": run.meta,
                "verdicts": of_it.map(|it| it.json()).collect::<Vec<Value>>(),
                "failures": run.failures(),
                "samples": run.samples,
            })
        });
        let candidates = self.candidates.there.iter().map(|it| {
            json!({
                "name": it.contender.name(),
                "description": it.contender.variant.description,
                "why": it.why,
            })
        });
        json!({
            "schema": SCHEMA,
            "command": self.command,
            "baseline": self.baseline,
            "answer": self.verdict.answer,
            "use": self.deploy().map(|(name, _)| name.to_owned()),
            "sentence": self.verdict.sentence,
            "facts": self.facts,
            "notes": self.notes,
            "candidates": candidates.collect::<Vec<Value>>(),
            "absent": self.candidates.absent,
            "unpackaged": self.candidates.unpackaged,
            "not_looked_at": self.candidates.unsuited,
            "no_time_for": self.for_want_of_time(),
            "first_look": self.outcome.as_ref().map(|it| seen(&it.first)),
            "second_look": self.outcome.as_ref().map(|it| seen(&it.second)),
            "evidence": evidence,
            "deploy": self.deploy().map(|(_, lines)| lines),
            "spent_s": self.spent.as_secs_f64(),
            "fresh": fresh.map(|it| it.as_json(None)),
        })
    }
}

/// A row for each metric: the two medians, the estimated difference and the verdict.
fn test_table(run: &Run, name: &str) -> String {
    let (selection, judgements) = (Selection::of(run), Judgements::of(run));
    let head = [
        "figure",
        run.meta.baseline.as_str(),
        name,
        "difference with its 95 % interval",
        "verdict",
    ];
    let row = |metric: &Metric| {
        let judgement = judgements.get(&run.meta.workloads[0].name, name, metric)?;
        let median = |variant: &str| {
            let column = selection.column(variant);
            let median = column.and_then(|it| selection.median(it, selection.rows[0], metric));
            table::figure_or(median, "-")
        };
        Some(vec![
            metric.label(),
            median(&run.meta.baseline),
            median(name),
            judgement.change_text(),
            judgement.outcome.word().to_owned(),
        ])
    };
    Table::of(head, run.meta.metrics.iter().filter_map(row)).text()
}

fn write_deploy(f: &mut fmt::Formatter<'_>, name: &str, lines: &Deploy) -> fmt::Result {
    let indented = |text: &str| text.replace('\n', "\n    ");
    writeln!(f, "\nTo use {name}:")?;
    if let Some(install) = &lines.install {
        writeln!(f, "\n    {install}")?;
    }
    writeln!(f, "\nsystemd (systemctl edit NAME.service):\n\n    {}", indented(&lines.systemd))?;
    writeln!(f, "\nDocker (Dockerfile):\n\n    {}", indented(&lines.docker))?;
    writeln!(
        f,
        "\nKubernetes (in the container, from an image with these lines of Docker):\n\n    {}",
        indented(&lines.kubernetes)
    )
}
