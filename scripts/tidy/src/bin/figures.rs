//! Writes the figures of README.md and of the pages that it links to, from the recorded runs.

use quarry_tidy::figures::blocks::Records;
use quarry_tidy::figures::{PAGES, fill};
use quarry_tidy::workspace::root;
use std::fs;
use std::process::ExitCode;

fn run() -> Result<(), String> {
    let root = root();
    let records = Records::read(&root)?;
    for page in PAGES {
        let path = root.join(page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let filled = fill(&text, &records).map_err(|error| format!("{page}: {error}"))?;
        if filled != text {
            fs::write(&path, filled).map_err(|error| format!("{page}: {error}"))?;
            println!("{page}: filled");
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}
