//! A [`Table`] on the page.

use super::palette::Palette;
use crate::table::{Entry, Table, Tone};
use maud::{Markup, html};

/// The table in a box of its own that scrolls where it is too wide; its head sorts it. `kind` is
/// its class.
pub(super) fn grid(table: &Table, palette: &Palette, kind: &str) -> Markup {
    let is_variant = |entry: &&Entry| entry.tone == Tone::Variant;
    let colour = |entry: &Entry| palette.class(&entry.text);
    let class = |entry: &Entry, head: &Entry| {
        let tone = match (&entry.tone, &head.tone) {
            (Tone::Better, _) => "better",
            (Tone::Worse, _) => "worse",
            (Tone::Muted, _) => "muted",
            (Tone::Variant, _) => "words variant",
            (Tone::Words, _) | (Tone::Number, Tone::Words) => "words",
            (Tone::Number, _) => "",
        };
        let of_column = if is_variant(&head) { colour(head) } else { String::new() };
        format!("{tone} {of_column}").trim().to_owned()
    };
    html! {
        div class={ "scroll " (kind) } tabindex="0" {
            table class=(kind) {
                thead {
                    tr {
                        @for head in &table.head {
                            th scope="col" class=(class(head, head)) { (head.text) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr class=[row.iter().find(is_variant).map(colour)] {
                            @for (entry, head) in row.iter().zip(&table.head) {
                                td class=(class(entry, head)) title=[&entry.hint] { (entry.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}
