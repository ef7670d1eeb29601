//! `quarry top`: shows a process's memory by size class, on a screen that refreshes itself. Order
//! of the modules: `rows`; `view`; `screen`; `call_sites`.

mod call_sites;
mod rows;
mod screen;
mod view;

use crate::live::Running;
use anyhow::Result;
use call_sites::CallSites;
use quarry_harness::Usage;
use quarry_live::{Problem, Process, Snapshot, Who, total};
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
use view::{Reaction, View};

/// Longest wait for a key. A signal is noticed after this delay at the latest.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Width of the text of `--once`: all columns, with room for a long name.
const ONCE_COLUMNS: u16 = 100;

/// Memory of a running process by size class, refreshed: live, parked and dirty bytes.
///
/// Keys: q quits, h shows all keys, n s l p d g a c sort by name, size, live, parked, dirty,
/// growth, allocations and fast-path share.
///
/// With --sort growth the process is profiled meanwhile. At the end the table is printed with the
/// call sites of memory that was allocated since the first reading and is still in use. With --once
/// the second reading comes --delay after the first: `quarry top --once --sort growth --delay 300`.
#[derive(clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    running: Running,
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
    #[arg(long)]
    json: bool,
}

fn delay(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|it| (0.1..=3600.0).contains(it));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "accepted: 0.1 to 3600".to_owned())
}

/// Shows the screen until a key, a signal or the end of the process.
pub(crate) fn run(args: &TopArgs, out: &mut dyn Write) -> Result<()> {
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
    let sites = is_of_growth.then(|| CallSites::of(&choice));
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
    if args.once || is_of_growth {
        print_once(&view.still(), out)?;
    }
    sites.map_or(Ok(()), |sites| sites.print(out))
}

fn print_once(view: &View, out: &mut dyn Write) -> Result<()> {
    let lines = u16::try_from(view.rows.len()).unwrap_or(u16::MAX).saturating_add(screen::HEAD);
    let mut terminal = ratatui::Terminal::new(TestBackend::new(ONCE_COLUMNS, lines))?;
    terminal.draw(|frame| screen::draw(frame, view))?;
    let buffer = terminal.backend().buffer();
    for line in buffer.content.chunks(usize::from(ONCE_COLUMNS)) {
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
            && view.react(key) == Reaction::Quit
        {
            return Ok(End::Key);
        }
        if let Some(signal) = signals.last() {
            return Ok(End::Signal(signal));
        }
        if signals.has_continued() {
            // While this process was stopped, another one may have written over the screen.
            *terminal = ratatui::try_init()?;
            terminal.clear()?;
        }
        if Instant::now() >= due {
            refreshed = Instant::now();
            match (read(), process.filter(|it| !it.is_alive())) {
                (_, Some(process)) => return Ok(End::Process(process.who().clone())),
                (Ok(processes), _) => view.update(&processes),
                (Err(problem), _) => view.fail(problem.to_string()),
            }
        }
    }
}

struct Signals {
    last: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let signals = Self { last: Arc::default(), continued: Arc::default() };
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            let number = usize::try_from(signal).unwrap_or_default();
            flag::register_usize(signal, Arc::clone(&signals.last), number)?;
        }
        flag::register(SIGCONT, Arc::clone(&signals.continued))?;
        Ok(signals)
    }

    /// The last signal that asks this process to end.
    fn last(&self) -> Option<i32> {
        let signal = self.last.load(Ordering::Relaxed);
        i32::try_from(signal).ok().filter(|signal| *signal != 0)
    }

    fn has_continued(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }
}
