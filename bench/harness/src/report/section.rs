//! The section of one experiment: warnings, tables, pictures, environment.

use super::card::Card;
use super::forest::{self, Subject};
use super::grid::grid;
use super::palette::Palette;
use super::{axes, boxes, counters, curves, memory, scatter, source, verdicts};
use crate::environment::Environment;
use crate::judge::{Row, Selection};
use crate::results::{Direction, Meta, Metric, Run};
use crate::table::counted;
use crate::tables::{modern, targets_of};
use maud::{Markup, html};

/// Headings of more letters than this are set in smaller type.
const LONG: usize = 70;
const TRADEOFFS: &str = "Speed against memory";
/// Pictures in a row of a wide screen, and pictures of trade-offs that the page shows at first.
const ROW: usize = 3;

/// The section of one selection; `number` makes its ids unique in the page.
pub(super) fn section(
    selection: &Selection<'_>,
    title: &str,
    number: usize,
    palette: &Palette,
) -> Markup {
    let meta = &selection.baseline().run.meta;
    let (_, first) = selection.runs[0];
    let targets = selection.runs.iter().filter_map(|(_, run)| targets_of(run));
    let labels: Vec<&str> = selection.columns.iter().map(|column| column.label.as_str()).collect();
    html! {
        section id=(format!("experiment-{number}")) {
            h1 class=[(title.chars().count() > LONG).then_some("long")] {
                @if source::program(first).is_some() { code { (title) } } @else { (title) }
            }
            p.verdict { (selection.headline()) "." }
            p.note {
                @if title != meta.experiment { (meta.experiment) ": " }
                (counted(meta.workloads.len(), "workload")) ", "
                @if selection.has_tasks() {
                    (counted(meta.tasks.len(), "number")) " of tasks, "
                }
                (counted(labels.len(), "variant")) ", "
                (counted(meta.rounds, "round")) ", baseline "
                b { (selection.baseline().label) }
            }
            (source::sources(selection, number))
            (source::markdown(selection, number))
            (warnings(selection))
            @for (table, legend) in targets {
                h3 { "Targets" }
                (grid(&table, palette, "wide targets", "Targets"))
                p.note { (legend) }
            }
            (palette.legend(&labels))
            (matrix(selection, palette))
            (intervals(selection, palette))
            (pictures(selection, palette))
            h3 { "Medians and verdicts" }
            (grid(&modern::table(selection), palette, "wide verdicts", "Medians and verdicts"))
            p.note { (modern::legend(selection)) }
            (environments(&selection.runs))
        }
    }
}

fn warnings(selection: &Selection<'_>) -> Markup {
    let findings = selection.runs.iter().flat_map(|(name, run)| {
        run.meta.environment.findings.iter().map(move |finding| format!("{name}: {finding}"))
    });
    let all: Vec<String> = selection.warnings.iter().cloned().chain(findings).collect();
    html! {
        @if !all.is_empty() {
            details.warnings open[!selection.warnings.is_empty()] {
                summary { (counted(all.len(), "thing")) " to know before reading on" }
                ul { @for warning in &all { li { (warning) } } }
            }
        }
    }
}

/// Every verdict in every metric, then every verdict on each workload.
fn matrix<'a>(selection: &Selection<'a>, palette: &Palette) -> Markup {
    let metric = selection.metric;
    let others = verdicts::further(selection);
    let over = match selection.rows.len() {
        1 => String::new(),
        rows => format!(", geometric means of {rows} workloads"),
    };
    let baseline = &selection.baseline().label;
    let glance = |metric: &Metric| {
        html! {
            p.note {
                (metric.name) " as a multiple of " b { (baseline) } (axes::better(metric.direction))
                ". " (verdicts::legend()) "."
            }
            (grid(
                &verdicts::glance(selection, metric),
                palette,
                "wide glance",
                &format!("{} of each workload", metric.name),
            ))
        }
    };
    html! {
        h3 { "Verdicts on everything that was measured" }
        p.note {
            "In relation to " b { (baseline) } (over) ": estimate and 95 % interval. "
            (verdicts::legend()) "."
        }
        (grid(&verdicts::matrix(selection), palette, "wide matrix", "Verdicts"))
        @if selection.rows.len() > 1 {
            h3 { "At a glance" }
            (glance(metric))
            @if !others.is_empty() {
                details.more {
                    summary { "The same for " (counted(others.len(), "other metric")) }
                    @for metric in &others { h4 { (metric.name) } (glance(metric)) }
                }
            }
        }
    }
}

/// Pictures of intervals; they come before those of samples, because they show the verdicts.
fn intervals<'a>(selection: &Selection<'a>, palette: &Palette) -> Markup {
    let of = |metric: &'a Metric| -> Vec<Card> {
        let subjects = selection.subjects_of(metric).into_iter().map(|(name, rows)| {
            let title = if selection.rows.len() == 1 { metric.label() } else { name };
            Subject { title, rows, metric }
        });
        let mut subjects: Vec<Subject<'a>> = subjects.collect();
        subjects.sort_by_key(|subject| subject.rows.len() == 1);
        subjects.iter().filter_map(|subject| forest::card(selection, subject, palette)).collect()
    };
    let is_single = selection.rows.len() == 1;
    let others = verdicts::said_metrics(selection).into_iter().filter(|it| !it.primary);
    let others: Vec<(&str, Vec<Card>)> = others
        .filter(|metric| is_single || metric.direction != Direction::None)
        .map(|metric| (metric.name.as_str(), of(metric)))
        .filter(|(_, cards)| !cards.is_empty())
        .collect();
    let first = of(selection.metric);
    html! {
        @if !first.is_empty() || !others.is_empty() {
            h3 { "Intervals" }
            p.note {
                "Each mark is the estimate of a variant in relation to the baseline, each line its \
                 95 % interval: the numbers that decide the verdicts. A line that crosses the \
                 baseline's decides nothing. Light grey: what counts as the same; darker: the \
                 noise, which an equal copy of the baseline shows."
            }
            div.cards {
                @for card in &first { (card.markup()) }
                @if is_single {
                    @for card in others.iter().flat_map(|(_, cards)| cards) { (card.markup()) }
                }
            }
            @if !is_single {
                @for (name, cards) in &others {
                    details.more {
                        summary { "Intervals of " (name) }
                        div.cards { @for card in cards { (card.markup()) } }
                    }
                }
            }
        }
    }
}

struct Group {
    title: String,
    note: String,
    cards: Vec<Card>,
}

fn pictures<'a>(selection: &'a Selection<'a>, palette: &Palette) -> Markup {
    let each = |of: &dyn Fn(Row<'a>) -> Option<Card>| -> Vec<Card> {
        selection.rows.iter().filter_map(|row| of(*row)).collect()
    };
    let mut workloads: Vec<&str> = selection.rows.iter().map(|row| row.workload).collect();
    workloads.dedup();
    let curves =
        workloads.iter().filter_map(|name| curves::card(selection, name, palette)).collect();
    let further = if selection.rows.len() == 1 { verdicts::further(selection) } else { Vec::new() };
    let samples = std::iter::once(selection.metric)
        .chain(further)
        .flat_map(|metric| each(&|row| boxes::card(selection, row, metric, palette)));
    let kinds: [(&str, String, Vec<Card>); 5] = [
        ("Samples", samples_note(selection), samples.collect()),
        ("Scaling", String::new(), curves),
        (
            "Memory over time",
            memory::note(selection),
            each(&|row| memory::card(selection, row, palette)),
        ),
        (TRADEOFFS, String::new(), tradeoffs(selection, palette)),
        ("Counters", String::new(), each(&|row| counters::card(selection, row, palette))),
    ];
    let mut groups: Vec<Group> = Vec::new();
    for (title, note, cards) in kinds.into_iter().filter(|(.., cards)| !cards.is_empty()) {
        match groups.last_mut().filter(|last| last.cards.len() + cards.len() <= ROW) {
            Some(last) => {
                last.title += &format!(" · {title}");
                last.note += &format!(" {note}");
                last.cards.extend(cards);
            }
            None => groups.push(Group { title: title.to_owned(), note, cards }),
        }
    }
    html! { @for group in &groups { (group.markup()) } }
}

impl Group {
    fn markup(&self) -> Markup {
        let most = if self.title == TRADEOFFS { ROW } else { usize::MAX };
        html! {
            h3 { (self.title) }
            @if !self.note.trim().is_empty() { p.note { (self.note.trim()) } }
            div.cards { @for card in self.cards.iter().take(most) { (card.markup()) } }
            @if self.cards.len() > most {
                details.more {
                    summary { "Each workload" }
                    div.cards { @for card in self.cards.iter().skip(most) { (card.markup()) } }
                }
            }
        }
    }
}

fn samples_note(selection: &Selection<'_>) -> String {
    let noise = match selection.copy() {
        Some(_) => {
            "The grey band is the noise: there an equal copy of the baseline lies, with 95 %; it \
             needs six rounds."
        }
        None => "No copy of the baseline ran along, so the noise is not known.",
    };
    format!(
        "Every dot is a sample; box: quartiles; whiskers: the last samples within 1.5 times the \
         box; figure: the median, which describes the samples and decides nothing. {noise}"
    )
}

/// Returns a picture of all rows together, then one of each row.
fn tradeoffs<'a>(selection: &Selection<'a>, palette: &Palette) -> Vec<Card> {
    let rows = &selection.rows;
    let name =
        |row: &Row<'_>| format!("{}, speed against memory", row.label(selection.has_tasks()));
    let one = |row: &Row<'a>| scatter::card(selection, &[*row], &name(row), palette);
    let all = match rows.len() {
        1 => None,
        count => scatter::card(
            selection,
            rows,
            &format!("All {count} workloads, geometric mean of speed and memory"),
            palette,
        ),
    };
    all.into_iter().chain(rows.iter().filter_map(one)).collect()
}

fn environments(runs: &[(&str, &Run)]) -> Markup {
    html! {
        h3 { "Where it was measured" }
        div.cards {
            @for (name, run) in runs {
                div.card.environment {
                    h4 { (name) }
                    p.note { (run.meta.environment.summary()) }
                    details {
                        summary { "Everything recorded" }
                        dl { @for (term, text) in facts(run) { dt { (term) } dd { (text) } } }
                    }
                }
            }
        }
    }
}

fn facts(run: &Run) -> Vec<(String, String)> {
    let Meta { environment, variants, options, seed, rounds, schema, .. } = &run.meta;
    let Environment { cpu, cpus, kernel, glibc, distribution, thp, governor, load, .. } =
        environment;
    let numbers: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let virtual_machine = if environment.virtual_machine { "yes" } else { "no" };
    let mut facts = vec![
        ("CPU", cpu.clone()),
        ("CPUs", numbers.join(", ")),
        ("virtual machine", virtual_machine.to_owned()),
        ("kernel", kernel.clone()),
        ("distribution", distribution.clone()),
        ("glibc", glibc.clone()),
        ("transparent huge pages", thp.clone()),
        ("governor", governor.clone().unwrap_or_else(|| "not shown".to_owned())),
        ("load before", load.clone()),
        ("Quarry", environment.quarry.clone()),
        ("Quarry's options", environment.quarry_options.join(" ")),
        ("seed", seed.to_string()),
        ("rounds asked for", rounds.to_string()),
        ("rounds taken", run.rounds().to_string()),
        ("schema", schema.clone()),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    let known = facts.into_iter().map(|(term, text)| (term.to_owned(), text));
    let options = options.iter().map(|(key, value)| (format!("option {key}"), value.clone()));
    let variants = variants.iter().map(|it| (it.name.clone(), it.description.clone()));
    known.chain(options).chain(variants).collect()
}
