//! The whole HTML file.

use super::palette::Palette;
use super::{section, source};
use crate::judge::Selection;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Forbids the browser to fetch anything, whatever the names in the results contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

pub(super) fn whole(selections: &[Selection<'_>]) -> Markup {
    let palette = palette(selections);
    let titles: Vec<String> = selections.iter().map(title).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (whole_title(selections, &titles)) }
                style { (PreEscaped(STYLE)) (palette.style()) }
            }
            body {
                header {
                    p.brand { "Quarry" }
                    button #theme type="button" hidden { "Theme: as the system" }
                }
                @if titles.len() > 1 {
                    nav aria-label="Experiments" {
                        @for (number, title) in titles.iter().enumerate() {
                            a href=(format!("#experiment-{number}")) { (title) }
                        }
                    }
                }
                main {
                    @for (number, selection) in selections.iter().enumerate() {
                        (section::section(selection, &titles[number], number, &palette))
                    }
                }
                footer {
                    p.note { "Made by quarry " (env!("CARGO_PKG_VERSION")) "." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn title(selection: &Selection<'_>) -> String {
    let (_, run) = selection.runs()[0];
    source::program(run).unwrap_or_else(|| run.meta.experiment.clone())
}

fn whole_title(selections: &[Selection<'_>], titles: &[String]) -> String {
    match selections {
        [selection] => format!("{}: {}", titles[0], selection.headline()),
        _ => format!("Quarry: {}", titles.join(", ")),
    }
}

/// Assigns colours to the baseline first, then to the other variants in the order of their runs.
fn palette(selections: &[Selection<'_>]) -> Palette {
    let mut palette = Palette::default();
    for column in selections.iter().flat_map(|selection| &selection.columns) {
        palette.add(&column.label, &column.variant.name, column.variant.copy_of.is_some());
    }
    palette
}
