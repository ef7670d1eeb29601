//! A picture with its caption and its numbers.

use super::grid::grid;
use super::palette::Palette;
use crate::table::{Table, counted};
use maud::{Markup, html};
use std::fmt::Write;

/// Width of pictures in units of about a pixel: a phone shows one picture, a screen several.
pub(super) const WIDTH: f64 = 380.0;
/// Average width of a letter in pictures, in a wide typeface.
pub(super) const LETTER: f64 = 7.3;

#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) table: Table,
    /// The table to download, if it is longer than the shown one.
    pub(super) download: Option<Table>,
}

impl From<Table> for Data {
    fn from(table: Table) -> Self {
        Self { table, download: None }
    }
}

pub(super) struct Card {
    pub(super) title: String,
    /// Meaning of the axes, and the better direction.
    pub(super) note: String,
    /// The picture in words, for screen readers.
    pub(super) alt: Vec<String>,
    pub(super) height: f64,
    pub(super) picture: Markup,
    pub(super) data: Data,
}

impl Card {
    pub(super) fn markup(&self) -> Markup {
        let frame = format!("0 0 {WIDTH} {:.0}", self.height);
        html! {
            figure.card {
                figcaption {
                    h4 { (self.title) }
                    @if !self.note.is_empty() { p.note { (self.note) } }
                }
                svg viewBox=(frame) role="img"
                    aria-label=(self.says()) {
                    (self.picture)
                }
                (self.data.markup(&self.title))
            }
        }
    }
}

impl Card {
    fn says(&self) -> String {
        let lines = [&self.title, &self.note].into_iter().chain(&self.alt);
        let lines = lines.filter(|line| !line.is_empty()).map(String::as_str);
        lines.collect::<Vec<&str>>().join(". ")
    }
}

impl Data {
    fn markup(&self, title: &str) -> Markup {
        let all = self.download.as_ref().unwrap_or(&self.table);
        html! {
            details.data {
                summary { "Data" }
                a download=(file_name(title)) href=(uri(all)) {
                    "Download " (counted(all.rows.len(), "row")) " as CSV"
                }
                @if self.download.is_some() { p.note { "The table shows a selection." } }
                (grid(&self.table, &Palette::default(), "", &format!("Data of {title}")))
            }
        }
    }
}

fn uri(table: &Table) -> String {
    let mut text = String::new();
    for row in std::iter::once(&table.head).chain(&table.rows) {
        let cells: Vec<String> = row.iter().map(|entry| csv_cell(&entry.text)).collect();
        text += &cells.join(",");
        text.push('\n');
    }
    format!("data:text/csv;charset=utf-8,{}", percent_encoded(&text))
}

/// Writes a cell as in RFC 4180, with an apostrophe before what a spreadsheet takes for a formula.
fn csv_cell(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let text = match text.starts_with(['=', '+', '-', '@']) && !is_number {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' | b'/' | b':' => {
                encoded.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

fn file_name(title: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' };
    let name: String = title.chars().map(letter).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    format!("{}.csv", words.join("-"))
}

pub(super) fn points(places: impl Iterator<Item = (f64, f64)>) -> String {
    places.map(|(x, y)| format!("{},{} ", px(x), px(y))).collect()
}

pub(super) fn px(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_safe_for_its_readers() {
        let rows = [vec!["=HYPERLINK(1)", "-1.5"], vec!["say \"x\"\n", "1"]];
        let table = Table::of(["a,b", "<b>"], rows);
        let uri = uri(&table);
        let expected = "%22a,b%22,%3Cb%3E%0A%27%3DHYPERLINK%281%29,-1.5%0A\
                        %22say%20%22%22x%22%22%0A%22,1%0A";
        assert_eq!(uri, format!("data:text/csv;charset=utf-8,{expected}"));
        let html = Data::from(table).markup("A \"title\" & more").into_string();
        assert!(html.contains(">&lt;b&gt;</th>"), "{html}");
        assert!(html.contains("download=\"a-title-more.csv\""), "{html}");
    }
}
