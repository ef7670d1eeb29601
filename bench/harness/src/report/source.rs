//! The source of a run (command, input, date), and its verdicts as Markdown.

use super::verdicts;
use crate::judge::Selection;
use crate::results::Run;
use crate::results::origin::joined;
use crate::table::{Entry, counted};
use maud::{Markup, html};

/// Returns the measured program as a shell reads it; `None` if the run has no single program.
pub(super) fn program(run: &Run) -> Option<String> {
    let recorded = run.meta.origin.as_ref().filter(|origin| !origin.program.is_empty());
    // Early runs have the program among their options.
    recorded
        .map(|origin| joined(&origin.program))
        .or_else(|| run.meta.options.get("command").cloned())
}

/// The source of each run of a selection, with a button that copies its command.
pub(super) fn sources(selection: &Selection<'_>, number: usize) -> Markup {
    let runs = &selection.runs;
    html! {
        div.sources {
            @for (index, (name, run)) in runs.iter().enumerate() {
                dl.source {
                    @if runs.len() > 1 { dt { "Run" } dd { (name) } }
                    (source(run, runs.len() > 1, &format!("command-{number}-{index}")))
                }
            }
        }
    }
}

/// Names the program only if the page has several runs: otherwise the heading has it already.
fn source(run: &Run, is_one_of_several: bool, id: &str) -> Markup {
    let origin = run.meta.origin.as_ref();
    let stdin = origin.and_then(|origin| origin.stdin.as_ref());
    html! {
        @if let Some(program) = program(run).filter(|_| is_one_of_several) {
            dt { "Program" } dd { code { (program) } }
        }
        @if let Some(stdin) = stdin { dt { "Standard input" } dd { (stdin) } }
        dt { "Date" }
        dd { @if let Some(origin) = origin { (origin.date()) } @else { "not recorded" } }
        dt { "Machine" } dd { (run.meta.environment.summary()) }
        dt { "Samples" }
        dd {
            (counted(run.rounds(), "round")) " of " (run.meta.rounds)
            ", shuffled with seed " (run.meta.seed)
        }
        @if let Some(origin) = origin {
            dt { "Command" }
            dd {
                code #(id) { (origin.shell()) }
                " " (copy_button(id, "Copy command"))
            }
        }
    }
}

pub(super) fn markdown(selection: &Selection<'_>, number: usize) -> Markup {
    let id = format!("markdown-{number}");
    html! {
        details.markdown {
            summary { "As Markdown " (copy_button(&id, "Copy Markdown")) }
            pre #(id) tabindex="0" { (text(selection)) }
        }
    }
}

/// The page's script shows this button; a reader without scripts selects the text.
fn copy_button(of: &str, says: &str) -> Markup {
    html! { button.copy type="button" data-copies=(of) hidden { (says) } }
}

fn text(selection: &Selection<'_>) -> String {
    let (_, run) = selection.runs[0];
    let subject = program(run).map_or(run.meta.experiment.clone(), |it| fenced(&it));
    let mut lines =
        vec![format!("**{subject}: {}**", escaped(&selection.headline())), String::new()];
    let table = verdicts::matrix(selection);
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    lines.push(row(table.head.iter().map(|it| escaped(&it.text)).collect()));
    lines.push(row(vec!["---".to_owned(); table.head.len()]));
    for entries in &table.rows {
        let cell = |entry: &Entry| match &entry.detail {
            Some(detail) => escaped(format!("{} {detail}", entry.text).trim_end()),
            None => escaped(&entry.text),
        };
        lines.push(row(entries.iter().map(cell).collect()));
    }
    let baseline = escaped(&selection.baseline().label);
    lines.push(String::new());
    lines.push(format!(
        "In relation to {baseline}: Hodges-Lehmann estimates of paired runs with 95 % intervals."
    ));
    for (_, run) in &selection.runs {
        let date = run.meta.origin.as_ref().map(|it| format!("{}; ", it.date()));
        let machine = escaped(&run.meta.environment.summary());
        let rounds = counted(run.rounds(), "round");
        lines.push(format!("{}{machine}; {rounds}.", date.unwrap_or_default()));
        if let Some(origin) = &run.meta.origin {
            lines.push(format!("\n{}", fenced(&origin.shell())));
        }
    }
    lines.join("\n") + "\n"
}

/// Escapes the letters that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '*' | '_' | '`' | '<' | '\\' => escaped.extend(['\\', letter]),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Writes code between backticks, one more than the longest row of backticks inside it.
fn fenced(code: &str) -> String {
    let longest = code.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let room = if longest > 0 { " " } else { "" };
    format!("{fence}{room}{}{room}{fence}", code.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::run;

    #[test]
    fn markdown_is_a_table_whatever_names_contain() {
        let values = [Some(1.0); 6];
        let mut run = run("a|b", &[("a|b", &values), ("*c*", &[Some(2.0); 6])]);
        run.meta.options.insert("command".to_owned(), "say `x`".to_owned());
        let text = text(&Selection::of(&run));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "**`` say `x` ``: \\*c\\* is worse than a\\|b in time: +100.0 % [+100.0, +100.0]**"
        );
        assert_eq!(lines[2], "| variant | time, ns per operation |");
        assert_eq!(lines[3], "| --- | --- |");
        assert_eq!(lines[4], "| \\*c\\* | ▼ worse 2.000 [2.000, 2.000] |");
        assert!(lines[6].starts_with("In relation to a\\|b: "), "{text}");
    }
}
