//! Turns of phrase that a reader stumbles over. Each has a highest number of places, which only
//! falls: a change that removes some places lowers it. A sentence names its actor and says what it
//! does, and a comment on an item begins with a noun or a verb.

use quarry_tidy::rust::{RustFile, words};

/// A turn of phrase, and how many places may have it.
struct Phrase {
    /// Its forms, in lower case.
    forms: &'static [&'static str],
    /// Words before a form with which it is plain English.
    fine_after: &'static str,
    /// What to write.
    better: &'static str,
    most: usize,
}

const fn phrase(forms: &'static [&'static str], better: &'static str, most: usize) -> Phrase {
    Phrase { forms, fine_after: "\0", better, most }
}

const PHRASES: [Phrase; 7] = [
    phrase(&["nobody", "somebody"], "no task, another process, a reader", 44),
    phrase(&["whoever"], "the task that", 1),
    phrase(&["behind"], "after or beyond, where it means that", 71),
    phrase(&["to be had"], "available", 0),
    phrase(&["in the place of"], "in place of, instead of", 1),
    phrase(&["says so", "says of", "says that", "say so"], "returns, reports or shows", 4),
    Phrase { fine_after: "there ", ..phrase(&["is none", "are none"], "is not one", 0) },
];

/// Comments that open with one of these words name no thing.
const OPENINGS: [&str; 3] = ["What ", "Who ", "Whether "];
const MOST_OPENINGS: usize = 3;

fn places(text: &str, phrase: &Phrase) -> usize {
    let is_odd = |at: &usize| !text[..*at].ends_with(phrase.fine_after);
    phrase.forms.iter().map(|form| words(text, form).iter().filter(|it| is_odd(it)).count()).sum()
}

fn openings(text: &str) -> usize {
    let comment = |line: &str| {
        let rest = line.trim_start().strip_prefix("//")?;
        let rest = rest.strip_prefix(['/', '!']).unwrap_or(rest).strip_prefix(' ')?;
        OPENINGS.iter().any(|word| rest.starts_with(word)).then_some(())
    };
    text.lines().filter_map(comment).count()
}

#[test]
fn odd_turns_of_phrase_only_fall() {
    let own = "scripts/tidy/tests/prose.rs";
    let files: Vec<RustFile> = RustFile::all().into_iter().filter(|it| it.path != own).collect();
    let mut risen = Vec::new();
    let mut count = |name: String, better: &str, most: usize, found: usize| {
        println!("{name}: {found} of {most}");
        if found > most {
            risen.push(format!("  {found} places have {name}, and {most} may: write {better}"));
        }
    };
    for phrase in &PHRASES {
        let found = files.iter().map(|it| places(&it.text.to_lowercase(), phrase)).sum();
        count(format!("{:?}", phrase.forms), phrase.better, phrase.most, found);
    }
    let found = files.iter().map(|file| openings(&file.text)).sum();
    let name = format!("comments that open with {OPENINGS:?}");
    count(name, "the noun or the verb first", MOST_OPENINGS, found);
    assert!(risen.is_empty(), "odd turns of phrase:\n{}", risen.join("\n"));
}

#[test]
fn phrases_and_openings_are_found() {
    let none = PHRASES.last().expect("there are some");
    assert_eq!(places("an empty one is none, and there is none", none), 1);
    assert_eq!(places("nobody, busybody: somebody", &PHRASES[0]), 2);
    assert_eq!(openings("/// What it does.\n    // Who?\n//! Whether so.\n// Whatever"), 2);
}
