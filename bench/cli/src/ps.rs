//! `quarry ps`: lists the processes on Quarry.

use anyhow::Result;
use quarry_cli::{exit_status::say, output::columns};
use quarry_live::{Choice, Found, Label, bytes, change};
use std::io::Write;

const HEAD: [&str; 8] = ["PID", "RSS", "LIVE", "KEPT", "OTHER", "AGE", "NAME", "GROUP"];
/// Blanks before a column.
const GAP: usize = 2;
/// Steps that make the table narrower for a narrow terminal. Each has a column, and the number of
/// letters to which its entries are cut; with 0 the column is left out.
const CUTS: [(usize, usize); 7] = [(7, 8), (7, 0), (5, 0), (6, 8), (3, 0), (4, 0), (2, 0)];

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
    let all = hidden + found.len();
    // This user may not look at the processes left out here: any of them may run on Quarry or not.
    found.retain(|it| it.figures.as_ref().err().is_none_or(|problem| !problem.is_of_rights()));
    let hidden = all - found.len();
    if hidden > 0 {
        say(format_args!("processes that this user may not look at: {hidden}"));
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
    let head = HEAD.map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(found.iter().map(row)).collect();
    Ok(out.write_all(table(&rows, columns().map_or(usize::MAX, usize::from)).as_bytes())?)
}

/// Lines of at most `room` letters. For that, names are cut and columns left out; no number is cut.
fn table(rows: &[[String; 8]], room: usize) -> String {
    let longest = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut widths: [usize; 8] = std::array::from_fn(|column| longest(column) + GAP);
    for (column, least) in CUTS {
        let (width, all) = (widths[column], widths.iter().sum::<usize>());
        widths[column] = match all.saturating_sub(room.saturating_add(GAP)) {
            0 => width,
            _ if least == 0 => 0,
            excess => width.saturating_sub(excess).max(width.min(least + GAP)),
        };
    }
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).enumerate().filter(|(_, (_, width))| *width > 0);
        let cell = |(column, (text, width)): (usize, (&String, usize))| match column {
            0..6 => format!("{text:>width$}"),
            _ if text.len() + GAP > width => format!("  {}…", &text[..width - GAP - 1]),
            _ => format!("  {text:width$}", width = width - GAP),
        };
        let text: String = cells.map(cell).collect();
        text[GAP..].trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn row(found: &Found) -> [String; 8] {
    let figures = found.figures.as_ref().ok();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let age = figures.and_then(|it| it.age_ms);
    [
        found.process.who().pid.to_string(),
        or_none(found.process.resident().map(bytes)),
        or_none(figures.map(|it| bytes(it.live()))),
        or_none(figures.map(|it| bytes(it.kept()))),
        or_none(figures.and_then(|it| it.unaccounted()).map(change)),
        or_none(age.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100))),
        found.process.who().name.to_string(),
        or_none(found.process.group().as_ref().map(Label::to_string)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_cuts_names_and_leaves_out_columns_but_no_number() {
        let row = |name: &str, group: &str| {
            let numbers = ["4711", "1000.5 MiB", "12.3 MiB", "900 KiB", "-12.0 MiB", "10.5 s"];
            let words = [name, group];
            let mut all = numbers.iter().chain(&words).map(|it| (*it).to_owned());
            std::array::from_fn(|_| all.next().unwrap())
        };
        let rows = [HEAD.map(str::to_owned), row("redis-server", "redis.service"), row("-", "x")];
        for room in 26..120 {
            let text = table(&rows, room);
            assert!(text.lines().all(|line| line.chars().count() <= room), "{room}:\n{text}");
            let line = text.lines().nth(1).unwrap();
            assert!(line.starts_with("4711  1000.5 MiB") && line.contains("  redis-"), "{line}");
            for number in &rows[1][2..6] {
                assert!(line.contains(number) || room < 70, "{room}:\n{text}");
            }
            assert_eq!(text.lines().count(), rows.len());
        }
        assert!(table(&rows, 80).ends_with("…\n") || table(&rows, 80).contains("  redis-server  "));
        let wide = table(&rows, usize::MAX);
        assert!(wide.contains("  redis-server  redis.service\n"), "{wide}");
    }
}
