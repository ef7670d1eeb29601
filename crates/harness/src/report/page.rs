//! The whole file.

use super::palette::Palette;
use super::section;
use crate::judge::Selection;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing is fetched, whatever names in the results contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page of all selections.
pub(super) fn whole(selections: &[Selection<'_>]) -> Markup {
    let palette = palette(selections);
    let names: Vec<&str> = selections
        .iter()
        .map(|selection| selection.baseline().run.meta.experiment.as_str())
        .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Quarry lab: " (names.join(", ")) }
                style { (PreEscaped(STYLE)) (palette.style()) }
            }
            body {
                header {
                    h1 { "Quarry lab" }
                    button #theme type="button" hidden { "Theme: as the system" }
                }
                @if names.len() > 1 {
                    nav {
                        @for (number, name) in names.iter().enumerate() {
                            a href=(format!("#experiment-{number}")) { (name) }
                        }
                    }
                }
                main {
                    @for (number, selection) in selections.iter().enumerate() {
                        (section::section(selection, number, &palette))
                    }
                }
                footer {
                    p.note { "Made by quarry " (env!("CARGO_PKG_VERSION")) ", quarry lab report." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Baselines first, then the others in the order of their runs.
fn palette(selections: &[Selection<'_>]) -> Palette {
    let mut palette = Palette::default();
    for column in selections.iter().flat_map(|selection| &selection.columns) {
        palette.add(&column.label, column.variant.copy_of.is_some());
    }
    palette
}
