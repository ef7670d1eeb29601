//! `quarry simulate`: replays a recorded program on a machine of many CPUs.

use anyhow::{Result, bail};
use quarry_eras::pages::{Chosen, PAGE_POLICY_NAMES};
use quarry_eras::slab::{slab_names, slab_policy};
use quarry_harness::Usage;
use quarry_harness::destination::{Destination, Present};
use quarry_harness::picture::{Course, Picture};
use quarry_harness::table::{Entry, Table, counted, figure, words};
use quarry_lab::simulated::{FIGURES, WAITS, ask_all, costs_of, longest, waits};
use quarry_sim::simulate::{Answer, Cell, Load};
use quarry_sim::{Costs, Topology, Waiting};
use quarry_trace::Trace;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Replay a recorded program on a simulated machine of many CPUs, under several slab policies.
///
/// The program's threads are copied until every CPU has one; all copies share one heap. The
/// recorded time between two calls, but at most 100 us, counts as work. lab/docs/simulator.md says
/// what the results do not show.
#[derive(clap::Args)]
pub(crate) struct SimulateArgs {
    /// A trace that `quarry record` has written.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// CPUs of the machine. Machines of 1, 2, 4 .. CPUs up to this number are simulated, too.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: u32,
    /// Sockets; the CPUs are spread evenly over them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    sockets: u32,
    /// Slab policies.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "sheaf,slub-4.9,slab,slqb,slam"
    )]
    slab: Vec<String>,
    /// The policy of the pcp lists.
    #[arg(long, value_name = "NAME", default_value = "v6.18")]
    pages: String,
    /// The costs of the machine: a TOML file with fields of `Costs` (lab/docs/simulator.md).
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// About how many calls all copies of the program replay together on the largest machine. Each
    /// copy replays an equal share, from the middle of the trace, on machines of any size.
    #[arg(long, value_name = "N", default_value_t = 4_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// Seed of the moments at which the copies begin. The same seed gives the same result.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Draw the throughput by number of CPUs into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Serialize)]
struct Row {
    slab: String,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Serialize)]
struct Document<'a> {
    trace: &'a Path,
    command: &'a str,
    recorded_calls: usize,
    lost_calls: u64,
    cpus: u32,
    sockets: u32,
    pages: &'a str,
    seed: u64,
    cells: &'a [Row],
}

pub(crate) fn run(args: &SimulateArgs, out: &mut dyn Write) -> Result<()> {
    check_names(args)?;
    // Without a file, waiters for locks behave as with Quarry's own locks.
    let usual = Costs { waiting: Waiting::Futex, ..Costs::default() };
    let costs = costs_of(args.costs.as_deref(), usual)?;
    let trace = Trace::read(&args.trace).map_err(|error| Usage(error.to_string()))?;
    let open = |path: &PathBuf| Destination::open("--svg", path, Present::Replaced);
    let picture = args.svg.as_ref().map(open).transpose()?;
    let copies = (args.cpus as usize).div_ceil(trace.threads.len().max(1));
    let calls = (args.calls as usize / copies).max(1);
    let mut cells = Vec::new();
    for slab in &args.slab {
        cells.extend(machines(args).into_iter().map(|topology| Cell {
            load: Load::Trace(args.trace.clone()),
            topology,
            costs: costs.clone(),
            slab: slab.clone(),
            pages: args.pages.clone(),
            calls,
            seed: args.seed,
        }));
    }
    let answers = ask_all(&cells)?;
    let slabs = cells.into_iter().map(|cell| cell.slab);
    let rows: Vec<Row> = slabs.zip(answers).map(|(slab, answer)| Row { slab, answer }).collect();
    if let Some(picture) = picture {
        picture.write(drawing(args, &trace, &rows).svg()?.as_bytes())?;
    }
    if args.json {
        let document = Document {
            trace: &args.trace,
            command: &trace.command,
            recorded_calls: trace.calls(),
            lost_calls: trace.lost,
            cpus: args.cpus,
            sockets: args.sockets,
            pages: &args.pages,
            seed: args.seed,
            cells: &rows,
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    print(args, &trace, &rows, out)
}

fn check_names(args: &SimulateArgs) -> Result<()> {
    for slab in &args.slab {
        if slab_policy(slab).is_none() {
            let accepted = slab_names().collect::<Vec<_>>().join(", ");
            bail!(Usage(format!("--slab {slab}: no such policy; accepted: {accepted}")));
        }
    }
    if Chosen::named(&args.pages).is_none() {
        let (pages, accepted) = (&args.pages, PAGE_POLICY_NAMES);
        bail!(Usage(format!("--pages {pages}: no such policy; accepted: {accepted}")));
    }
    if !args.cpus.is_multiple_of(args.sockets) {
        let (cpus, sockets) = (args.cpus, args.sockets);
        bail!(Usage(format!("--cpus {cpus}: not a multiple of --sockets {sockets}")));
    }
    Ok(())
}

/// Machines of 1, 2, 4 .. CPUs, if the fewest sockets share them evenly, and of the wanted number.
fn machines(args: &SimulateArgs) -> Vec<Topology> {
    let of_socket = args.cpus / args.sockets;
    let powers = (0..u32::BITS).map(|shift| 1u32 << shift).take_while(|cpus| *cpus < args.cpus);
    let sockets = |cpus: u32| cpus.div_ceil(of_socket);
    let whole = powers.filter(|cpus| cpus.is_multiple_of(sockets(*cpus)));
    whole
        .chain([args.cpus])
        .map(|cpus| Topology::new(sockets(cpus), cpus / sockets(cpus)))
        .collect()
}

fn rows_of<'a>(rows: &'a [Row], slab: &str) -> impl Iterator<Item = &'a Answer> {
    rows.iter().filter(move |row| row.slab == slab).map(|row| &row.answer)
}

fn print(args: &SimulateArgs, trace: &Trace, rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let last = rows.iter().map(|row| &row.answer).max_by_key(|answer| answer.cpus);
    let Some(last) = last else { return Ok(()) };
    writeln!(
        out,
        "`{}`: {} of {}; {} on {} in {}, seed {}\n",
        trace.command,
        counted(trace.calls(), "call"),
        counted(trace.threads.len(), "thread"),
        if last.copies == 1 { "1 copy".to_owned() } else { format!("{} copies", last.copies) },
        counted(args.cpus, "CPU"),
        counted(args.sockets, "socket"),
        args.seed,
    )?;
    if trace.lost > 0 {
        writeln!(out, "Missing in the trace: {}.\n", counted(trace.lost, "call"))?;
    }
    let at_last = |slab: &String| {
        let first = rows_of(rows, slab).next()?;
        let last = rows_of(rows, slab).last()?;
        let speed = [last.calls_per_s / 1e6, last.calls_per_s / first.calls_per_s].map(figure);
        let figures = FIGURES.iter().map(|(_, of)| figure(of(last)));
        let waits = waits(last).map(|it| longest(&it));
        Some([slab.clone()].into_iter().chain(speed).chain(figures).chain(waits))
    };
    let speed = ["million calls/s", "times 1 CPU"].map(Entry::from);
    let figures = FIGURES.iter().map(|(head, _)| Entry::from(*head));
    let head = [words(counted(last.cpus, "CPU"))].into_iter().chain(speed).chain(figures);
    let head = head.chain(WAITS.map(words));
    writeln!(out, "{}", Table::of(head, args.slab.iter().filter_map(at_last)).text())?;
    let cpus = machines(args).into_iter().map(|machine| machine.cpus().to_string());
    let head = ["million calls/s, CPUs".to_owned()].into_iter().chain(cpus);
    let over_cpus = |slab: &String| {
        let rates = rows_of(rows, slab).map(|answer| figure(answer.calls_per_s / 1e6));
        [slab.clone()].into_iter().chain(rates).collect::<Vec<_>>()
    };
    writeln!(out, "\n{}", Table::of(head, args.slab.iter().map(over_cpus)).text())?;
    Ok(())
}

fn drawing(args: &SimulateArgs, trace: &Trace, rows: &[Row]) -> Picture {
    let program = trace.command.split(' ').next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let course = |slab: &String| Course {
        name: slab.clone(),
        points: rows_of(rows, slab)
            .map(|answer| (f64::from(answer.cpus), answer.calls_per_s / 1e6))
            .collect(),
    };
    Picture {
        title: format!("{program}: calls of malloc and free on simulated CPUs"),
        x: "CPUs",
        y: "million calls/s",
        lines: args.slab.iter().rev().map(course).collect(),
    }
}
