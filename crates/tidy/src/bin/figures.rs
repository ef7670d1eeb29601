//! Writes the figures of README.md and of the pages that it links to, from the recorded runs. With
//! `--check` it writes nothing, and fails if a page differs.

use quarry_tidy::figures::blocks::Records;
use quarry_tidy::figures::{PAGES, fill};
use quarry_tidy::workspace::root;
use std::fs;
use std::process::ExitCode;

fn run(check: bool) -> Result<(), String> {
    let root = root();
    let records = Records::read(&root)?;
    for page in PAGES {
        let path = root.join(page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let filled = fill(&text, &records).map_err(|error| format!("{page}: {error}"))?;
        if filled == text {
            continue;
        }
        if check {
            return Err(format!("{page}: not what was recorded; run 'make figures'"));
        }
        fs::write(&path, filled).map_err(|error| format!("{page}: {error}"))?;
        println!("{page}: filled");
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.as_slice() {
        [] => false,
        [option] if option == "--check" => true,
        _ => {
            eprintln!("figures: {arguments:?} is not understood; --check is accepted");
            return ExitCode::FAILURE;
        }
    };
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}
