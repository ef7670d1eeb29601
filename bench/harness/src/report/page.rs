//! The whole HTML file.

use super::grid::grid;
use super::palette::Palette;
use super::{section, source};
use crate::judge::Selection;
use crate::picture::Picture;
use crate::table::Table;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Forbids the browser to load anything, whatever the names in the results contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

pub(super) fn whole(selections: &[Selection<'_>]) -> Markup {
    let palette = palette(selections);
    let titles: Vec<String> = selections.iter().map(title).collect();
    let nav = html! {
        @if titles.len() > 1 {
            nav aria-label="Experiments" {
                @for (number, title) in titles.iter().enumerate() {
                    a href=(format!("#experiment-{number}")) { (title) }
                }
            }
        }
    };
    let sections = selections.iter().enumerate();
    let sections = sections.map(|(at, it)| section::section(it, &titles[at], at, &palette));
    framed(&whole_title(selections, &titles), &palette, nav, sections)
}

/// Makes a page of remarks, pictures of lines, and named tables, in the style of the pages of runs.
/// Pictures without data are left out.
pub fn sheet(
    title: &str,
    remarks: &[String],
    pictures: &[Picture],
    tables: &[(String, Table)],
) -> String {
    let pictures = pictures.iter().filter_map(|it| it.svg().ok());
    let palette = Palette::default();
    let body = html! {
        section {
            h1 { (title) }
            @for remark in remarks { p.note { (remark) } }
            @for svg in pictures { div.card { (PreEscaped(svg)) } }
            @for (name, table) in tables {
                h3 { (name) }
                (grid(table, &palette, "wide", name))
            }
        }
    };
    framed(title, &palette, Markup::default(), std::iter::once(body)).into_string()
}

fn framed(
    title: &str,
    palette: &Palette,
    nav: Markup,
    sections: impl Iterator<Item = Markup>,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (palette.style()) }
            }
            body {
                header {
                    p.brand { "Quarry" }
                    button #theme type="button" hidden { "Theme: as the system" }
                }
                (nav)
                main { @for section in sections { (section) } }
                footer {
                    p.note { "Made by quarry " (env!("CARGO_PKG_VERSION")) "." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn title(selection: &Selection<'_>) -> String {
    let (_, run) = selection.runs[0];
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

#[cfg(test)]
mod tests {
    use super::STYLE;

    /// Long names may be broken anywhere, but a table would then make a column of letters of them.
    #[test]
    fn the_heads_of_tables_are_broken_between_words() {
        let rules = STYLE.lines().enumerate().filter(|(_, line)| line.contains("overflow-wrap"));
        let rules: Vec<(usize, &str)> = rules.collect();
        let everywhere = rules.iter().find(|(_, line)| line.contains("anywhere")).unwrap().0;
        let heads = rules.iter().find(|(_, line)| line.starts_with("th, ")).unwrap();
        assert!(heads.0 > everywhere && heads.1.contains("overflow-wrap: break-word"), "{heads:?}");
    }
}
