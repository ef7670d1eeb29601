//! Counts the words of standard input, with Quarry as the global allocator, and prints whether the
//! table is in Quarry's memory: `cargo run --example words < README.md`.

use std::collections::BTreeMap;
use std::io;

#[global_allocator]
static A: quarry::Quarry = quarry::Quarry;

fn main() -> io::Result<()> {
    let text = io::read_to_string(io::stdin())?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (word, count) in words.iter().take(10) {
        println!("{count:>6} {word}");
    }
    println!("the text is in Quarry's memory: {}", quarry::Quarry::owns(text.as_ptr()));
    drop(words);
    drop(text);
    println!("returned to the system: {} KiB", quarry::Quarry::trim() / 1024);
    Ok(())
}
