//! `quarry advise`: examines a program, searches, and prints the answer within the given time.

use super::candidates::{Candidate, Candidates};
use super::facts::Facts;
use super::plan::{Plan, plan};
use super::request::{AdviceEnding, AdviceRequest, Goal};
use super::search::{Samples, Search};
use super::telling::Telling;
use super::verdict::{Answer, Verdict, verdict};
use crate::allocator_spec::{self, BuiltIn};
use crate::allocators::QUARRY;
use crate::contenders::Contender;
use crate::first_look::{FirstLook, concerns_every_run};
use crate::input::{EMPTY_INPUT, Input};
use crate::interrupt::Interrupt;
use crate::launch::Program;
use crate::load::Load;
use crate::metrics::Wanted;
use crate::raw::{EXIT_STATUS, IGNORE_FAILURE};
use crate::readable::SHORT;
use crate::request::{Work, check_idle_for, line};
use crate::supervised_program::SupervisedProgram;
use crate::{allocators, closing, reach};
use anyhow::{Context, Result, bail};
use quarry_harness::destination::{Destination, NEW, Present};
use quarry_harness::results::{Direction, Variant};
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use quarry_harness::usage::Usage;
use std::cell::RefCell;
use std::io::Write;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Runs of the program that the budget must have room for.
const LONGEST_RUN: u32 = 10;
/// A candidate's run fails after this multiple of the baseline's time, but not before [`PATIENCE`].
const SLOWEST: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Name of the baseline if the program's allocator is not known yet, or cannot be replaced.
const WHAT_IT_HAS: &str = "what it has";

/// Advises on `work`, and prints to `out`.
///
/// # Errors
/// A fault of the request, or the reason why nothing could be measured.
pub fn advise(
    request: &AdviceRequest,
    work: &Work,
    built_in: &BuiltIn<'_>,
    out: &mut dyn Write,
) -> Result<AdviceEnding> {
    let wanted = Wanted::parse(&request.metric, request.latencies.clone())?;
    if wanted.figures.first().is_some_and(|figure| figure.direction == Direction::None) {
        bail!(Usage(format!(
            "--metric {}: no direction; accepted: 'higher:' or 'lower:' in front of the first",
            request.metric[0]
        )));
    }
    let candidates = || Candidates::named(&request.allocators, built_in);
    candidates()?;
    let json = request.json.as_deref();
    let json = json.map(|it| Destination::open("--json", it, Present::Replaced)).transpose()?;
    let html =
        request.html.as_deref().map(|it| Destination::open("--html", it, NEW)).transpose()?;
    let heaps: &[bool] = if request.aged { &[false, true] } else { &[false] };
    let mut of_runs = None;
    let mut tellings = Vec::new();
    for &is_aged in heaps {
        let began = Instant::now();
        let budget = request.budget / heaps.len() as u32;
        let command = line(&work.variant.command);
        let mut telling = Telling { command, candidates: candidates()?, ..Telling::default() };
        let one = Conduct { request, work, built_in, budget, is_aged, began };
        match one.conduct(&mut of_runs, wanted.clone(), &mut telling)? {
            Ok(verdict) => telling.verdict = verdict,
            Err(signal) => {
                writeln!(out, "interrupted before there was an answer")?;
                return Ok(AdviceEnding::Interrupted(signal));
            }
        }
        telling.spent = began.elapsed();
        tellings.push(telling);
    }
    let fresh = if request.aged { Some(tellings.remove(0)) } else { None };
    let telling = tellings.remove(0);
    telling.write(fresh.as_ref(), out)?;
    if let Some(json) = json {
        json.write(serde_json::to_string(&telling.as_json(fresh.as_ref()))?.as_bytes())?;
    }
    if let Some(html) = html {
        html.write(telling.page()?.as_bytes())?;
    }
    Ok(match telling.verdict.answer {
        Answer::Undecided => AdviceEnding::Undecided,
        Answer::Use | Answer::Keep => AdviceEnding::Answered,
    })
}

/// A verdict, or the signal that interrupted the search.
type Searched = Result<Result<Verdict, u32>>;

/// A search for the allocator of one program, on fresh or on aged heaps.
#[derive(Clone, Copy)]
struct Conduct<'a> {
    request: &'a AdviceRequest,
    work: &'a Work,
    built_in: &'a BuiltIn<'a>,
    /// The time that the search has from `began` on.
    budget: Duration,
    began: Instant,
    is_aged: bool,
}

impl Conduct<'_> {
    /// `of_runs` is what all searches share: the input can be read only once.
    fn conduct(
        &self,
        of_runs: &mut Option<(Input, Rc<Interrupt>)>,
        wanted: Wanted,
        telling: &mut Telling,
    ) -> Searched {
        let Conduct { request, work, budget, .. } = *self;
        let glibc = Contender::from(allocators::glibc());
        let library = glibc.allocator.file()?;
        if let Some(why) = reach::before_it_runs(&work.interpreter, &library) {
            return Ok(Ok(out_of_reach(WHAT_IT_HAS, &why)));
        }
        let timeout = (budget / LONGEST_RUN).max(PATIENCE);
        check_idle_for(request.idle_for, "a tenth of --budget", timeout)?;
        if of_runs.is_none() {
            let input = Input::find(request.input.as_deref())?;
            *of_runs = Some((input, Rc::new(Interrupt::listen()?)));
        }
        let (input, interrupt) = of_runs.as_ref().context("it was set")?;
        let load = Load::now().filter(Load::is_high);
        let program = Program {
            idle_for: request.idle_for,
            ..Program::of(work, input.path.clone(), timeout, request.ignore_failure)
        };
        let checks = request.check_output;
        let program =
            SupervisedProgram::new(vec![program], vec![glibc], wanted, checks, interrupt)?;
        let looked = Instant::now();
        let look = FirstLook::at(&program, 0, request.goal == Goal::Time);
        if let Some(signal) = interrupt.signal() {
            return Ok(Err(signal));
        }
        let look = match look {
            Ok(look) => look,
            Err(_) if looked.elapsed() >= program.programs[0].timeout => {
                let run = format!("a run is not done after {}", minutes(looked.elapsed()));
                return Ok(Ok(too_long(WHAT_IT_HAS, &run, load, budget, None)));
            }
            Err(error) if concerns_every_run(&error) => return Err(error),
            Err(error) => bail!("it fails on glibc: {}", with_remedy(&format!("{error:#}"))),
        };
        if input.is_empty {
            telling.notes.push(format!("{EMPTY_INPUT}."));
        }
        self.search(program, &look, load, interrupt, telling)
    }

    /// Searches with what the first look has shown; the program's first contender is glibc.
    fn search(
        &self,
        mut program: SupervisedProgram,
        look: &FirstLook,
        load: Option<Load>,
        interrupt: &Interrupt,
        telling: &mut Telling,
    ) -> Searched {
        let Conduct { request, built_in, budget, began, is_aged, .. } = *self;
        let library = program.contenders[0].allocator.file()?;
        let now = Instant::now();
        let own = match program.as_it_is(0) {
            Ok(own) => own,
            Err(NoSample::Failed(failure)) => bail!("it fails: {}", with_remedy(&failure)),
            Err(_) => return Ok(Err(interrupt.signal().unwrap_or_default())),
        };
        let mut cost = now.elapsed();
        if let Some(own) = own {
            program.contenders = vec![allocators::linked(&own).into()];
        }
        telling.baseline = program.contenders[0].name().to_owned();
        let facts = Facts::of(look);
        telling.facts = Some(facts.clone());
        if let Some(why) = look.no_verdict(&library, request.force) {
            let baseline = if why.can_be_forced { &telling.baseline } else { WHAT_IT_HAS };
            return Ok(Ok(out_of_reach(baseline, &why)));
        }
        if is_aged {
            program.programs[0].plan = Some(program.plan(0)?);
            let now = Instant::now();
            match program.sample(SampleKey { round: 1, workload: 0, tasks: 1, variant: 0 }) {
                Err(NoSample::Failed(failure)) => bail!("it fails on an aged heap: {failure}"),
                Err(_) => return Ok(Err(interrupt.signal().unwrap_or_default())),
                Ok(_) => cost = now.elapsed(),
            }
        }
        program.programs[0].timeout = (cost * SLOWEST).max(PATIENCE);
        telling.candidates.complete(&facts, &program.contenders[0], built_in)?;
        telling.notes.extend(notes(&facts, &program.contenders[0], load, request.force));
        telling.notes.extend(look.probe.inside());
        telling.notes.extend(leaks(&mut program, built_in, facts.hold_much()));
        let left = budget.saturating_sub(began.elapsed());
        let there = telling.candidates.there.len() as u32;
        if there == 0 {
            let why = "no other allocator is installed here";
            return Ok(Ok(Verdict::undecided(&telling.baseline, why)));
        }
        match plan(there, cost, left) {
            Err(needed) => {
                let run = format!("a run takes {}{}", minutes(cost), facts.delay());
                Ok(Ok(too_long(&telling.baseline, &run, load, budget, Some(needed))))
            }
            Ok(plan) => {
                telling.plan = Some(plan);
                self.test(plan, program, look, interrupt, telling)
            }
        }
    }

    fn test(
        &self,
        plan: Plan,
        mut program: SupervisedProgram,
        look: &FirstLook,
        interrupt: &Interrupt,
        telling: &mut Telling,
    ) -> Searched {
        let Conduct { request, budget, began, .. } = *self;
        let (metrics, why) =
            program.wanted.decided([look.probe.waits()].into_iter(), look.idles)?;
        telling.notes.push(format!("{why}."));
        let primary = metrics.iter().find(|it| it.primary).map(|it| it.name.clone());
        let memory = closing::memory_of(&metrics).map(|it| it.name.clone());
        telling.metrics = [primary, memory].map(Option::unwrap_or_default);
        let there = &telling.candidates.there;
        program.contenders.extend(there.iter().map(|it| it.contender.clone()));
        let baseline = program.contenders[0].variant.clone();
        let variant = |it: &Candidate| -> Variant { it.contender.variant.clone() };
        let search = Search {
            baseline,
            candidates: there.iter().map(variant).collect(),
            metrics: &metrics,
            goal: request.goal,
            plan,
            deadline: budget,
            seed: request.seed,
            samples: Rc::new(RealProgram {
                limit: program.programs[0].timeout,
                program: RefCell::new(program),
                began,
                deadline: budget,
            }),
        };
        let outcome = search.conduct()?;
        if let Some(signal) = interrupt.signal() {
            return Ok(Err(signal));
        }
        let verdict = match (&outcome.test, &outcome.first.baseline_failure) {
            (Some((candidate, run)), _) => {
                let name = there[*candidate].contender.name();
                verdict(run, name, plan.candidates as usize, request.goal)
            }
            (None, Some(why)) => {
                Verdict::undecided(&telling.baseline, &format!("it fails on that: {why}"))
            }
            (None, None) => {
                let first = outcome.first.seen.iter().find_map(|it| it.failure.as_deref());
                let why = first.unwrap_or("no round was completed");
                let why = format!("every candidate failed, such as by: {why}");
                Verdict::undecided(&telling.baseline, &why)
            }
        };
        telling.outcome = Some(outcome);
        Ok(Ok(verdict))
    }
}

/// Returns a line for each call site of memory that the program never frees, from one run on Quarry
/// with a heap profile; no line unless `is_much`, or if Quarry cannot serve the program.
fn leaks(program: &mut SupervisedProgram, built_in: &BuiltIn<'_>, is_much: bool) -> Vec<String> {
    let found = is_much.then(|| allocator_spec::find_named(QUARRY, built_in));
    let (Some(Ok(Ok(quarry))), Ok(folder)) = (found, tempfile::tempdir()) else {
        return Vec::new();
    };
    let file = folder.path().join("%p.raw").display().to_string();
    let settings = [("QUARRY_PROFILE", file.as_str()), ("QUARRY_PROFILE_MEAN", "64K")];
    let profiled = vec![quarry.with("quarry under its profile", &settings)];
    let others = mem::replace(&mut program.contenders, profiled);
    let taken = program.sample(SampleKey { round: 1, workload: 0, tasks: 1, variant: 0 });
    program.contenders = others;
    taken.map_or_else(|_| Vec::new(), |_| (built_in.held)(folder.path()))
}

fn out_of_reach(baseline: &str, why: &reach::NoVerdict) -> Verdict {
    let forced = if why.can_be_forced { "; --force measures all the same" } else { "" };
    let text = format!(
        "no other allocator would make a difference, as {}; what would help: {}{forced}",
        why.why, why.remedy
    );
    Verdict::keep(baseline, &text)
}

fn minutes(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    }
}

fn with_remedy(failure: &str) -> String {
    let remedy = if failure.contains(EXIT_STATUS) { IGNORE_FAILURE } else { "" };
    [failure, remedy].join(if remedy.is_empty() { "" } else { "; " })
}

/// `run` says how long a run takes.
fn too_long(
    baseline: &str,
    run: &str,
    load: Option<Load>,
    budget: Duration,
    needed: Option<Duration>,
) -> Verdict {
    let load = load.map_or(String::new(), |load| format!(" ({load} makes it longer)"));
    let needed = match needed {
        Some(needed) => format!("--budget {}m would do", needed.as_secs().div_ceil(60)),
        None => format!("--budget has to be more than {LONGEST_RUN} times as long as a run"),
    };
    let within = minutes(budget);
    let why =
        format!("{run}{load}, too long for a test within {within}; a shorter workload or {needed}");
    Verdict::undecided(baseline, &why)
}

fn notes(facts: &Facts, baseline: &Contender, load: Option<Load>, is_forced: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(load) = load {
        notes.push(format!(
            "Other work keeps this machine busy ({load}), so a run takes {:.3} s of wall time{}.",
            Duration::from_nanos(facts.wall_ns).as_secs_f64(),
            facts.delay()
        ));
    }
    if let Some(own) = &baseline.allocator.preload {
        notes.push(format!(
            "It links {}, so that is what others are compared with, and glibc is one of them.",
            own.display()
        ));
    }
    if Duration::from_nanos(facts.wall_ns) < SHORT {
        notes.push(format!(
            "too short: a run takes {:.1} ms, most of which is starting a process and loading its \
             libraries; the answer is about that, so give the program more to do",
            facts.wall_ns as f64 / 1e6
        ));
    }
    if facts.hold_much() {
        notes.push(format!(
            "{:.1} MiB were never freed, which no allocator changes",
            facts.held_bytes as f64 / f64::from(1 << 20)
        ));
    }
    if is_forced {
        notes.push("--force: an allocator may have hardly any influence on this".to_owned());
    }
    notes
}

/// The program on the baseline (the first contender) and on the candidates after it.
struct RealProgram {
    program: RefCell<SupervisedProgram>,
    began: Instant,
    /// Maximum time of one run; all runs must end before `deadline`, counted from `began`.
    limit: Duration,
    deadline: Duration,
}

impl Samples for RealProgram {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn sample(&self, candidate: Option<usize>, key: SampleKey) -> Result<Taken, NoSample> {
        let left = self.deadline.saturating_sub(self.elapsed());
        if left.is_zero() {
            return Err(NoSample::LeftOut);
        }
        self.program.borrow_mut().programs[0].timeout = self.limit.min(left);
        let variant = candidate.map_or(0, |candidate| candidate + 1);
        let taken = self.program.borrow().sample(SampleKey { variant, ..key });
        // A run that the deadline has cut off tells nothing about its allocator.
        let is_cut_off = left < self.limit && self.elapsed() >= self.deadline;
        match taken {
            Err(NoSample::Failed(_)) if is_cut_off => Err(NoSample::LeftOut),
            taken => taken,
        }
    }
}
