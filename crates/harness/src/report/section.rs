//! The runs of one experiment: warnings, tables, pictures, environment.

use super::card::Card;
use super::grid::grid;
use super::palette::Palette;
use super::{axes, boxes, counters, curves, memory, scatter};
use crate::environment::Environment;
use crate::judge::{Judgement, MARGIN, Outcome, Row, Selection};
use crate::results::{Meta, Run};
use crate::table::{Entry, Table, Tone, variant, words};
use crate::tables::{modern, targets_of};
use maud::{Markup, html};

/// Heading of the pictures with two axes.
const TRADEOFFS: &str = "Speed against memory";

/// The section of one selection; `number` makes its name in the page unique.
pub(super) fn section(selection: &Selection<'_>, number: usize, palette: &Palette) -> Markup {
    let meta = &selection.baseline().run.meta;
    let labels: Vec<&str> = selection.columns.iter().map(|column| column.label.as_str()).collect();
    html! {
        section id=(format!("experiment-{number}")) {
            h2 { (meta.experiment) }
            p.note {
                (counted(meta.workloads.len(), "workload")) ", "
                @if selection.has_tasks() {
                    (counted(meta.tasks.len(), "number")) " of tasks, "
                }
                (counted(labels.len(), "variant")) ", "
                (counted(meta.rounds as usize, "round")) ", baseline "
                b { (selection.baseline().label) }
            }
            (warnings(selection))
            @for (_, run) in selection.runs() { (targets(run, palette)) }
            (palette.legend(&labels))
            (glance(selection, palette))
            (pictures(selection, palette))
            (verdicts(selection, palette))
            (environments(selection.runs()))
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn warnings(selection: &Selection<'_>) -> Markup {
    let findings = selection.runs().iter().flat_map(|(name, run)| {
        run.meta.environment.findings.iter().map(move |finding| format!("{name}: {finding}"))
    });
    let all: Vec<String> = selection.warnings().iter().cloned().chain(findings).collect();
    html! {
        @if !all.is_empty() {
            details.warnings open[!selection.warnings().is_empty()] {
                summary { (counted(all.len(), "thing")) " to know before reading on" }
                ul { @for warning in &all { li { (warning) } } }
            }
        }
    }
}

/// The targets of a run, where it has any.
fn targets(run: &Run, palette: &Palette) -> Markup {
    html! {
        @if let Some((table, legend)) = targets_of(run) {
            h3 { "Targets" }
            (grid(&table, palette, "wide targets"))
            p.note { (legend) }
        }
    }
}

/// All verdicts in as little room as they need.
fn glance(selection: &Selection<'_>, palette: &Palette) -> Markup {
    let others = &selection.columns[1..];
    let head = others.iter().map(|column| variant(&column.label));
    let row = |(name, rows): (String, Vec<Row<'_>>)| {
        let brief = |column| brief(&selection.judge(column, &rows, selection.metric));
        std::iter::once(words(name)).chain(others.iter().map(brief)).collect()
    };
    let rows: Vec<Vec<Entry>> = selection.subjects().into_iter().map(row).collect();
    let table = Table::of(std::iter::once(words("workload")).chain(head), rows);
    html! {
        h3 { "At a glance" }
        p.note {
            (selection.metric.name) " as a multiple of " b { (selection.baseline().label) }
            (axes::better(selection.metric.direction)) ". ▲ better, ▼ worse, = within "
            (format!("{:.0}", MARGIN * 100.0)) " %, ↑ higher, ↓ lower, ? undecided."
        }
        (grid(&table, palette, "wide glance"))
    }
}

/// The centre with a sign for the verdict. The copy of the baseline is no rival: its entry shows
/// the noise.
fn brief(judgement: &Judgement) -> Entry {
    let (mark, name, tone) = match judgement.outcome {
        Outcome::NoVerdict(_) => return Entry::from("–"),
        _ if judgement.is_copy => ("", "copy", Tone::Muted),
        Outcome::Better => (" ▲", "better", Tone::Better),
        Outcome::Worse => (" ▼", "worse", Tone::Worse),
        Outcome::Same => (" =", "same", Tone::Number),
        Outcome::Higher => (" ↑", "higher", Tone::Number),
        Outcome::Lower => (" ↓", "lower", Tone::Number),
        outcome => (" ?", outcome.word(), Tone::Muted),
    };
    let hint = format!("{name}: {}", judgement.text());
    Entry { text: judgement.centre_text() + mark, tone, hint: Some(hint) }
}

/// The table of `quarry lab compare`, with its legend.
fn verdicts(selection: &Selection<'_>, palette: &Palette) -> Markup {
    html! {
        h3 { "Medians and verdicts" }
        (grid(&modern::table(selection), palette, "wide verdicts"))
        p.note { (modern::legend(selection)) }
    }
}

fn pictures<'a>(selection: &'a Selection<'a>, palette: &Palette) -> Markup {
    let each = |of: &dyn Fn(Row<'a>) -> Option<Card>| -> Vec<Card> {
        selection.rows.iter().filter_map(|row| of(*row)).collect()
    };
    let mut workloads: Vec<&str> = selection.rows.iter().map(|row| row.workload).collect();
    workloads.dedup();
    let curves =
        workloads.iter().filter_map(|name| curves::card(selection, name, palette)).collect();
    let groups: [(&str, &str, Vec<Card>); 5] = [
        ("Samples", samples_note(selection), each(&|row| boxes::card(selection, row, palette))),
        ("Scaling", "", curves),
        ("Memory over time", "", each(&|row| memory::card(selection, row, palette))),
        (TRADEOFFS, "", tradeoffs(selection, palette)),
        ("Counters", "", each(&|row| counters::card(selection, row, palette))),
    ];
    html! {
        @for (title, note, cards) in &groups {
            @if !cards.is_empty() {
                h3 { (title) }
                @if !note.is_empty() { p.note { (note) } }
                div.cards { @for card in cards.iter().take(most(title)) { (card.markup()) } }
                @if cards.len() > most(title) {
                    details.more {
                        summary { "Each workload" }
                        div.cards {
                            @for card in cards.iter().skip(most(title)) { (card.markup()) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns how many pictures of a kind are open at once: of trade-offs the one over all workloads,
/// and as many others as fill a row.
fn most(title: &str) -> usize {
    if title == TRADEOFFS { 3 } else { usize::MAX }
}

fn samples_note(selection: &Selection<'_>) -> &'static str {
    match selection.copy() {
        Some(_) => {
            "Every dot is a sample; box: quartiles; whiskers: the last samples within 1.5 times \
             the box. × is the ratio to the baseline. The grey band is the noise: there an equal \
             copy of the baseline lies, with 95 %; it needs six rounds."
        }
        None => {
            "Every dot is a sample; box: quartiles; whiskers: the last samples within 1.5 times \
             the box. × is the ratio to the baseline. No copy of the baseline ran along, so the \
             noise is not known."
        }
    }
}

/// Returns a picture of all rows together, then one of each.
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

/// Lists everything recorded of a run but its samples.
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
