//! The documents' own tables: styles of `quarry lab compare`.
//!
//! ```text
//! published      every number of the documents' tables
//! mmtests        layout and rows of that tool in 2017
//! of_documents   the tables of documents 000 and 001 in that layout
//! tcp_rr         the table of document 002
//! will_it_scale  the table of document 004
//! ```
//!
//! A new style is a file here and a line in [`STYLES`].

mod mmtests;
mod of_documents;
pub(crate) mod published;
mod tcp_rr;
mod will_it_scale;

#[cfg(test)]
mod golden;

use crate::deviations;
use of_documents::Documented;
use quarry_harness::judge::Selection;
use quarry_harness::tables::Style;

pub(crate) const STYLES: [Style; 3] = [
    // As mmtests printed them in 2017: positive percentages are better.
    Style { name: "mmtests", tables: mmtests },
    // A row per number of tasks, medians, and the difference in percent.
    Style { name: "tcp-rr", tables: tcp_rr::table },
    // A block per number of tasks, means, deviations and speed-ups.
    Style { name: "will-it-scale", tables: will_it_scale::table },
];

/// The table of a selection, and below it the documents' tables for the same experiment.
fn mmtests(selection: &Selection<'_>) -> String {
    let mut text = mmtests::table(selection).to_string();
    text += &deviations::wins_and_losses(selection).map_or(String::new(), |it| format!("\n\n{it}"));
    let experiment = &selection.baseline().run.meta.experiment;
    for Documented { number, machine, table } in of_documents::tables(experiment) {
        text += &format!("\n\nAs document {number} has it ({machine}):\n\n{table}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples;

    #[test]
    fn every_style_has_the_copy_of_the_baseline() {
        let (base, new): (&[Option<f64>], &[Option<f64>]) = (&[Some(5.0)], &[Some(4.0)]);
        let run = examples::run("base", &[("base", base), ("new", new), ("base A/A", base)]);
        let selection = Selection::of(&run);
        for Style { name, tables } in STYLES {
            let text = tables(&selection);
            assert!(text.contains("base A/A") && text.contains("new"), "{name}: {text}");
        }
    }
}
