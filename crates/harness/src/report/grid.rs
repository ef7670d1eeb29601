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
        let tone = match entry.tone {
            Tone::Better => "better",
            Tone::Worse => "worse",
            Tone::Muted => "muted",
            Tone::Variant => "variant",
            Tone::Words | Tone::Number => "",
        };
        let is_left = [entry, head].iter().any(|it| it.tone == Tone::Words);
        let side = if is_left { "words" } else { "" };
        let of_column = if is_variant(&head) { colour(head) } else { String::new() };
        let classes = [tone, side, &of_column].into_iter().filter(|class| !class.is_empty());
        Some(classes.collect::<Vec<&str>>().join(" ")).filter(|classes| !classes.is_empty())
    };
    html! {
        div class={ "scroll " (kind) } tabindex="0" {
            table class=(kind) {
                thead {
                    tr {
                        @for head in &table.head {
                            th scope="col" class=[class(head, head)] { (head.text) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr class=[row.iter().find(is_variant).map(colour)] {
                            @for (entry, head) in row.iter().zip(&table.head) {
                                td class=[class(entry, head)] title=[&entry.hint] { (entry.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}
