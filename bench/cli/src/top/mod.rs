//! `quarry top`: shows a process's memory by size class, on a screen that refreshes itself. Order
//! of the modules: `rows`; `view`; `screen`; `call_sites`.

mod call_sites;
mod rows;
mod screen;
mod view;

use crate::live::{CoreFile, Running};
use anyhow::Result;
use call_sites::CallSites;
use quarry_cli::output;
use quarry_harness::Usage;
use quarry_live::{Problem, Process, Snapshot, Who, core_dump, total};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::{cursor, execute};
use ratatui::{DefaultTerminal, backend::TestBackend};
use rows::Column;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use view::View;

/// Longest wait for a key. A signal is noticed after this delay at the latest.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// At most this many processes are profiled, because each profile takes CPU time until it ends.
const MOST_PROFILES: usize = 32;
/// Width of the text of `--once`: all columns, with room for a long name.
const ONCE_COLUMNS: u16 = 100;

/// Memory of a running process by size class, refreshed: live, parked and dirty bytes.
///
/// Keys: q quits, h shows all keys, n s l p d g a c sort by name, size, live, parked, dirty,
/// growth, allocations and fast-path share.
///
/// With --sort growth processes are profiled meanwhile. At the end the command prints the table,
/// and then for each process the call sites of memory that was allocated since the first reading
/// and is still in use; with several processes, each also has its own table. With --once the second
/// reading comes --delay after the first: `quarry top --once --sort growth --delay 300`.
///
/// With --core it prints the last figures of a process that has crashed, once.
#[derive(clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    file: CoreFile,
    /// Seconds between two refreshes, or between the two readings of --once --sort growth.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = delay)]
    delay: Duration,
    /// Sort by this column first.
    #[arg(short, long, value_name = "COLUMN", default_value = "live")]
    sort: Column,
    /// Print one screen as text and end.
    #[arg(short, long)]
    once: bool,
    /// Print all statistics once, as JSON, one line for each process.
    #[arg(long, conflicts_with = "sort")]
    json: bool,
}

fn delay(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|it| (0.1..=3600.0).contains(it));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "accepted: 0.1 to 3600".to_owned())
}

/// Shows the screen until a key, a signal or the end of the process.
pub(crate) fn run(args: &TopArgs, out: &mut dyn Write) -> Result<()> {
    if let Some(file) = &args.file.core {
        return print_core(args, core_dump::read(file)?, out);
    }
    let Running { choice, tree } = &args.running;
    let choice = choice.settled()?;
    let process = choice.pid.map(Process::new).transpose()?;
    let read = || choice.read(*tree).map(|it| it.snapshots);
    let first = read()?;
    if args.json {
        return Ok(out.write_all(total::of(&first).json.as_bytes())?);
    }
    if !args.once && !io::stdout().is_terminal() {
        return Err(Usage("standard output is not a terminal; use --once".to_owned()).into());
    }
    let is_of_growth = args.sort == Column::Growth;
    let profiled = first.iter().filter(|_| is_of_growth).take(MOST_PROFILES);
    let sites: Vec<CallSites> = profiled.map(|it| CallSites::of(&it.process)).collect();
    let mut view = View::new(first, args.sort, args.delay);
    if args.once && is_of_growth {
        std::thread::sleep(args.delay);
        view.update(&read()?);
    }
    if !args.once {
        let signals = Signals::listen()?;
        let mut terminal = ratatui::try_init()?;
        let ended = watch(process.as_ref(), &read, &mut view, &mut terminal, &signals);
        ratatui::restore();
        let _ = execute!(io::stdout(), cursor::Show);
        match ended? {
            End::Key => {}
            End::Signal(signal) => return Ok(low_level::emulate_default_handler(signal)?),
            End::Process(who) => {
                let _ = writeln!(io::stderr(), "quarry: {who} has ended");
            }
        }
    }
    view.is_still = true;
    if args.once || is_of_growth {
        print_once(&view, out)?;
    }
    sites.iter().for_each(CallSites::end);
    for of in sites {
        if let Some(part) = view.part(of.process.pid) {
            writeln!(out)?;
            print_once(&part, out)?;
        }
        of.print(out)?;
    }
    Ok(())
}

fn print_core(args: &TopArgs, figures: Vec<Snapshot>, out: &mut dyn Write) -> Result<()> {
    if args.json {
        return Ok(out.write_all(total::of(&figures).json.as_bytes())?);
    }
    if args.sort == Column::Growth {
        return Err(Usage("--core has one reading, and no growth".to_owned()).into());
    }
    let mut view = View::new(figures, args.sort, args.delay);
    view.is_still = true;
    print_once(&view, out)
}

fn print_once(view: &View, out: &mut dyn Write) -> Result<()> {
    let columns = output::columns().unwrap_or(ONCE_COLUMNS).min(ONCE_COLUMNS);
    let lines = u16::try_from(screen::summary(view, columns).len() + 1 + view.rows.len())?;
    let mut terminal = ratatui::Terminal::new(TestBackend::new(columns, lines))?;
    terminal.draw(|frame| screen::draw(frame, view))?;
    let buffer = terminal.backend().buffer();
    for line in buffer.content.chunks(usize::from(columns)) {
        let text: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

enum End {
    Key,
    Signal(i32),
    Process(Who),
}

fn watch(
    process: Option<&Process>,
    read: &dyn Fn() -> Result<Vec<Snapshot>, Problem>,
    view: &mut View,
    terminal: &mut DefaultTerminal,
    signals: &Signals,
) -> Result<End> {
    let mut refreshed = Instant::now();
    loop {
        terminal.draw(|frame| screen::draw(frame, view))?;
        let due = refreshed + view.delay;
        let patience = due.saturating_duration_since(Instant::now()).min(BETWEEN_LOOKS);
        if event::poll(patience)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && view.is_ended_by(key)
        {
            return Ok(End::Key);
        }
        let signal = signals.0.load(Ordering::Relaxed);
        if signal != 0 {
            return Ok(End::Signal(signal as i32));
        }
        if signals.1.swap(false, Ordering::Relaxed) {
            // While this process was stopped, another one may have written over the screen.
            *terminal = ratatui::try_init()?;
            terminal.clear()?;
        }
        if Instant::now() >= due {
            refreshed = Instant::now();
            match (read(), process.filter(|it| !it.is_alive())) {
                (_, Some(process)) => return Ok(End::Process(process.who().clone())),
                (Ok(processes), _) => view.update(&processes),
                (Err(problem), _) => view.problem = Some(problem.to_string()),
            }
        }
    }
}

/// The last signal that asked this process to end, and whether this process went on after a stop.
#[derive(Default)]
struct Signals(Arc<AtomicUsize>, Arc<AtomicBool>);

impl Signals {
    fn listen() -> io::Result<Self> {
        let signals = Self::default();
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            flag::register_usize(signal, Arc::clone(&signals.0), signal.unsigned_abs() as usize)?;
        }
        flag::register(SIGCONT, Arc::clone(&signals.1))?;
        Ok(signals)
    }
}
