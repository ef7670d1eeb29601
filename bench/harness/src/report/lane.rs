//! The text above a variant's part of a picture; it is never cut off.

use super::card::{LETTER, WIDTH, px};
use crate::judge::{Judgement, Outcome};
use maud::{Markup, html};

const LINE: f64 = 15.0;
/// Factor by which bold letters, used for verdicts, are wider.
const BOLD: f64 = 1.15;
const MARGIN: f64 = 4.0;

/// The name of a variant at the left and its judgement at the right, on as many lines as they need.
pub(super) struct Head {
    lines: Vec<(String, String)>,
}

impl Head {
    pub(super) fn new(name: &str, said: &str) -> Self {
        let room = WIDTH - 2.0 * MARGIN;
        if extent(name) + extent(said) * BOLD + 2.0 * LETTER <= room {
            return Self { lines: vec![(name.to_owned(), said.to_owned())] };
        }
        let names = wrapped(name, room).into_iter().map(|line| (line, String::new()));
        let says = wrapped(said, room / BOLD).into_iter().map(|line| (String::new(), line));
        Self { lines: names.chain(says).collect() }
    }

    pub(super) fn height(&self) -> f64 {
        LINE * self.lines.len() as f64
    }

    /// Draws the lines from `top` downwards; `class` is the judgement's CSS class.
    pub(super) fn markup(&self, top: f64, class: &str) -> Markup {
        html! {
            @for (index, (name, said)) in self.lines.iter().enumerate() {
                @let y = px(top + 12.0 + LINE * index as f64);
                @if !name.is_empty() { text.name x=(px(MARGIN)) y=(y) { (name) } }
                @if !said.is_empty() {
                    text class=(class) x=(px(WIDTH - MARGIN)) y=(y) text-anchor="end" { (said) }
                }
            }
        }
    }
}

/// The CSS class of a judgement in words.
pub(super) fn class(judgement: &Judgement) -> &'static str {
    match judgement.outcome {
        Outcome::Better if !judgement.is_copy => "said better",
        Outcome::Worse if !judgement.is_copy => "said worse",
        _ => "said",
    }
}

/// Stacks parts of these heights from `top`. Returns the top of each, and the last bottom.
pub(super) fn stacked(top: f64, heights: impl Iterator<Item = f64>) -> (Vec<f64>, f64) {
    let mut bottom = top;
    let mut tops = Vec::new();
    for height in heights {
        tops.push(bottom);
        bottom += height;
    }
    (tops, bottom)
}

/// Returns an upper estimate of a text's width.
pub(super) fn extent(text: &str) -> f64 {
    text.chars().map(width).sum()
}

fn width(letter: char) -> f64 {
    let letters = match letter {
        'W' | 'M' | '@' | '%' | 'm' | 'w' => 1.6,
        'A'..='Z' | '<' | '>' | '=' | '+' | '~' | '_' | '&' => 1.3,
        ' '..='~' => 1.0,
        // This range contains scripts whose letters are as wide as they are high.
        '\u{80}'..='\u{10ff}' => 1.4,
        _ => 2.0,
    };
    letters * LETTER
}

/// Breaks a text into lines within a width: after a separator, or within a long word.
pub(super) fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut word) = (String::new(), String::new());
    for letter in text.chars() {
        if extent(&word) + width(letter) > room {
            lines.extend(Some(std::mem::take(&mut line)).filter(|line| !line.is_empty()));
            lines.push(std::mem::take(&mut word));
        }
        word.push(letter);
        if extent(&line) + extent(&word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if [' ', ',', ':', '=', '/', '-', '_', '+', ';'].contains(&letter) {
            line += &std::mem::take(&mut word);
        }
    }
    line += &word;
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_is_on_some_line_and_every_line_fits() {
        let long = "jemalloc:MALLOC_CONF=background_thread:true,dirty_decay_ms:1000 and more";
        let endless = "x".repeat(200);
        for text in [long, &endless, "", "short", "äöü 漢字漢字漢字漢字漢字漢字漢字漢字"]
        {
            for room in [60.0, 120.0, 372.0] {
                let lines = wrapped(text, room);
                let bare = |text: &str| text.replace(' ', "");
                assert_eq!(bare(&lines.concat()), bare(text), "{lines:?}");
                assert!(lines.iter().all(|line| extent(line) <= room), "{lines:?}");
            }
        }
        assert_eq!(wrapped("one two", 40.0), ["one", "two"]);
    }

    #[test]
    fn what_fits_stands_on_one_line() {
        assert_eq!(Head::new("glibc", "1.000").height(), LINE);
        assert_eq!(
            Head::new(&"n".repeat(40), "1.000 [0.999, 1.001] undecided").height(),
            2.0 * LINE
        );
    }
}
