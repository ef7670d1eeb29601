//! `quarry ps`: lists the processes on Quarry.

use anyhow::Result;
use quarry_harness::table::{Entry, Table, words};
use quarry_live::{Choice, Found, Label, bytes, change};
use std::io::{self, Write};

/// List the processes that run on Quarry, the largest first.
///
/// RSS is counted by the kernel. LIVE is memory of malloc that the program has, KEPT what it has
/// freed and Quarry keeps for its next requests. OTHER is the rest of RSS: code, stacks, memory not
/// from malloc, touched descriptors; below 0, live memory that was not touched yet. AGE is that of
/// the figures. A process without figures has published nothing; `quarry top --pid N` says why.
#[derive(clap::Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    choice: Choice,
    /// Print all statistics as JSON, one line for each process.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PsArgs, out: &mut dyn Write) -> Result<()> {
    let (mut found, hidden) = args.choice.find()?;
    if hidden > 0 {
        let _ =
            writeln!(io::stderr(), "quarry: processes that this user may not look at: {hidden}");
    }
    if found.is_empty() {
        return Err(args.choice.nothing().into());
    }
    if args.json {
        let figures = found.iter().filter_map(|it| it.figures.as_ref().ok());
        let lines: String = figures.map(|it| it.json.as_str()).collect();
        return Ok(out.write_all(lines.as_bytes())?);
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.process.resident()));
    let mut head: Vec<Entry> =
        ["PID", "RSS", "LIVE", "KEPT", "OTHER", "AGE"].map(Entry::from).into();
    head.extend(["NAME", "GROUP"].map(words));
    let table = Table { head, rows: found.iter().map(row).collect() };
    Ok(writeln!(out, "{}", table.plain())?)
}

fn row(found: &Found) -> Vec<Entry> {
    let figures = found.figures.as_ref().ok();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let age = figures.and_then(|it| it.age_ms);
    let row = [
        found.process.who().pid.to_string(),
        or_none(found.process.resident().map(bytes)),
        or_none(figures.map(|it| bytes(it.memory.live()))),
        or_none(figures.map(|it| bytes(it.memory.kept()))),
        or_none(figures.and_then(|it| it.unaccounted()).map(change)),
        or_none(age.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100))),
        found.process.who().name.to_string(),
        or_none(found.process.group().as_ref().map(Label::to_string)),
    ];
    row.map(Entry::from).into()
}
