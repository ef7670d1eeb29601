//! A [`Table`] on the page.

use super::palette::Palette;
use crate::table::{Entry, Table, Tone};
use maud::{Markup, html};

/// Writes the table in a box; a click on its head sorts it. `kind` is its CSS class, `says` its
/// name for screen readers. On a phone each row becomes a list whose entries follow the heads of
/// their columns.
pub(super) fn grid(table: &Table, palette: &Palette, kind: &str, says: &str) -> Markup {
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
        div class={ "scroll " (kind) } tabindex="0" role="region" aria-label=(says) {
            table class=(kind) role="table" aria-label=(says) {
                thead role="rowgroup" {
                    tr role="row" {
                        @for head in &table.head {
                            th scope="col" role="columnheader" class=[class(head, head)] {
                                (head.text)
                                @if let Some(detail) = &head.detail { span.detail { (detail) } }
                            }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for row in &table.rows {
                        tr role="row" class=[row.iter().find(is_variant).map(colour)] {
                            @for (index, (entry, head)) in row.iter().zip(&table.head).enumerate() {
                                td role=(if index == 0 { "rowheader" } else { "cell" })
                                    data-head=(head.text) class=[class(entry, head)]
                                    title=[&entry.hint] {
                                    (entry.text)
                                    @if let Some(detail) = entry.detail.as_ref().filter(|it| {
                                        !it.is_empty()
                                    }) { span.detail { (detail) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
