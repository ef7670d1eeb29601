//! Draws the screen.

use super::rows::{self, Column, Row};
use super::view::View;
use quarry_harness::table::counted;
use quarry_live::{Snapshot, bytes, change, count, percentage};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Table};

/// Head, sort key, width and rank of a column, and the text that a row has in it, if any. A narrow
/// screen leaves out the columns of the highest ranks first.
type Place = (&'static str, Option<Column>, u16, u8, fn(&Row) -> Option<String>);

/// Each column is wide enough for its largest number, because a truncated number would be wrong.
/// The first column is wide enough for the longest name that Quarry gives.
const COLUMNS: [Place; 10] = [
    ("NAME", Some(Column::Name), 14, 0, |it| Some(it.name.clone())),
    ("SIZE", Some(Column::Size), 7, 5, |it| (it.size > 0).then(|| it.size.to_string())),
    ("LIVE", Some(Column::Live), 9, 1, |it| Some(bytes(it.live))),
    ("PARKED", Some(Column::Parked), 9, 3, |it| Some(bytes(it.parked))),
    ("DIRTY", Some(Column::Dirty), 9, 4, |it| Some(bytes(it.dirty))),
    ("GROWTH", Some(Column::Growth), 10, 2, |it| it.growth.map(change)),
    ("ALLOC/s", Some(Column::Allocs), 7, 7, |it| Some(count(it.rates?.0))),
    ("FREE/s", None, 7, 9, |it| Some(count(it.rates?.1))),
    ("%FAST", Some(Column::Fast), 5, 6, |it| Some(it.fast?.0.to_string())),
    ("", None, 3, 8, |it| Some(it.fast?.1.to_string())),
];

fn columns_within(width: u16) -> Vec<Place> {
    let fits = |rank: u8| {
        let kept = COLUMNS.iter().filter(|it| it.3 <= rank);
        // One blank column separates two columns.
        kept.map(|(_, _, width, rank, _)| width + u16::from(*rank > 0)).sum::<u16>() <= width
    };
    let most = (0..=9).rev().find(|rank| fits(*rank)).unwrap_or(0);
    COLUMNS.into_iter().filter(|it| it.3 <= most).collect()
}

const HELP: &str = "\
 q Esc   quit              space  pause
 n name      s size        l live       p parked
 d dirty     g growth      a allocations
 c share of the fast path  i  turn the order round
 + -     slower, faster    arrows, PgUp, PgDn, Home

 live      what the program has
 parked    freed by it, and held for its next requests
 dirty     in slabs beside these, or free and not purged
 growth    live beyond live at each process's first look
 returned  free, not resident: given back to the
           system, or never touched
 other     the rest of RSS: code, stacks, memory not
           from malloc, what is touched of descriptors;
           below 0: live memory is not all touched yet
 interrupted  sequences that slow paths replaced:
           a debugger steps the thread, or signals storm
 refused   threads on locked slots: the kernel did not
           register them for restartable sequences
 rates     need a second look; counts are published
           at most every 100 ms, on slow paths";

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let summary = summary(view, frame.area().width);
    let [lines, rows] = [summary.len(), view.rows.len()].map(|it| u16::try_from(it).unwrap_or(0));
    let height = frame.area().height;
    // On a screen with few lines, the rows of the table get half of them.
    let lines = lines.min(height.saturating_sub(rows + 1).max(height / 2));
    let [head, table] =
        Layout::vertical([Constraint::Length(lines), Constraint::Min(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(summary), head);
    draw_table(frame, view, table);
    if view.shows_help {
        draw_help(frame);
    }
}

/// The lines above the table.
pub(super) fn summary(view: &View, width: u16) -> Vec<Line<'static>> {
    let snapshot = &view.snapshot;
    let budget = &snapshot.budget;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (state, style) = match &view.problem {
        Some(problem) => (problem.clone(), bold),
        None if view.is_paused => ("paused (space)".to_owned(), bold),
        None if view.is_still => (String::new(), bold),
        None => (format!("every {} s, h for help", view.delay.as_secs_f64()), Style::new()),
    };
    let [used, headroom] = [budget.used, budget.headroom().unwrap_or(0)].map(bytes);
    let limit = budget.limit.map_or(format!("{used}, no limit"), |limit| {
        let share = percentage(budget.used, limit);
        format!("{used} of {} ({share} %), headroom {headroom}", bytes(limit))
    });
    let (allocs, frees) = rows::fast_of_all(snapshot);
    let [live, parked, dirty] = [snapshot.live(), snapshot.parked(), snapshot.dirty()].map(bytes);
    let [descriptors, returned] = [snapshot.descriptors(), snapshot.free_returned()].map(bytes);
    let on = format!("{} on {}", snapshot.process.backend, counted(snapshot.process.cpus, "CPU"));
    let trouble = [("slot_interrupted", "interrupted too often"), ("rseq_refused", "refused")];
    let trouble = trouble.map(|(event, what)| match snapshot.event(event) {
        0 => String::new(),
        times => format!("; {} {what}", count(times)),
    });
    let trouble = trouble.concat();
    let parts = [
        ("quarry top  ", snapshot.heading()),
        ("Memory  ", format!("{live} live, {parked} parked, {dirty} dirty{}", resident(snapshot))),
        ("Used    ", format!("{limit}; descriptors {descriptors}, returned {returned}")),
        ("Fast    ", format!("{allocs} % of allocations, {frees} % of frees; {on}{trouble}")),
        ("", state),
    ];
    let mut lines = Vec::new();
    for (label, text) in parts {
        let style = if label.is_empty() { style } else { Style::new() };
        let texts = wrapped(&text, usize::from(width).saturating_sub(label.len()));
        for (line, text) in texts.into_iter().enumerate() {
            let start = format!("{:1$}", if line == 0 { label } else { "" }, label.len());
            lines.push(Line::from(vec![Span::styled(start, bold), Span::styled(text, style)]));
        }
    }
    lines
}

/// Lines of at most `room` letters, as far as words allow. None ends between a number and its unit.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut whole) = (vec![String::new()], String::new());
    for word in text.split_inclusive(' ') {
        whole += word;
        if word.strip_suffix(' ').is_some_and(|it| it.ends_with(|it: char| it.is_ascii_digit())) {
            continue;
        }
        let all = |line: &String| line.chars().chain(whole.trim_end().chars()).count();
        match lines.last_mut().filter(|line| line.is_empty() || all(line) <= room) {
            Some(line) => *line += &whole,
            None => lines.push(whole.clone()),
        }
        whole.clear();
    }
    lines
}

/// Resident memory as the kernel counts it, and the part that is not Quarry's.
fn resident(of: &Snapshot) -> String {
    let told = |(rss, other)| format!(", {} other = {} RSS", change(other), bytes(rss));
    of.resident.zip(of.unaccounted()).map_or_else(String::new, told)
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let columns = columns_within(area.width);
    let aligned = |head: &str, text: String| {
        let side = if head == "NAME" { Alignment::Left } else { Alignment::Right };
        Cell::from(Text::from(text).alignment(side))
    };
    let heads = columns.iter().map(|(head, sorted_by, ..)| {
        let is_sorted = *sorted_by == Some(view.column);
        let style = if is_sorted { reversed.add_modifier(Modifier::BOLD) } else { reversed };
        aligned(head, (*head).to_owned()).style(style)
    });
    let shown = view.rows.iter().skip(view.first).take(usize::from(area.height));
    let lines = shown.map(|row| {
        let text = |of: &Place| of.4(row).unwrap_or_else(|| "-".to_owned());
        ratatui::widgets::Row::new(columns.iter().map(|it| aligned(it.0, text(it))))
    });
    let widths = columns.iter().map(|column| match *column {
        (_, _, width, 0, _) => Constraint::Min(width),
        (_, _, width, ..) => Constraint::Length(width),
    });
    let head = ratatui::widgets::Row::new(heads).style(reversed);
    frame.render_widget(Table::new(lines, widths).header(head), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(0) + 2;
    let columns = HELP.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let columns = u16::try_from(columns).unwrap_or(0) + 3;
    let area = frame.area();
    let (width, height) = (columns.min(area.width), lines.min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect::new(area.x + x, area.y + y, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_live::{Budget, Cache, Event, Memory};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use std::time::Duration;

    fn example() -> View {
        let cache = |name: &str, object_bytes, live| Cache {
            name: name.into(),
            object_bytes,
            live,
            parked: 64,
            frames_per_slab: 1,
            slabs: 200,
            allocs: 1000,
            fast_allocs: 990,
            ..Cache::default()
        };
        let snapshot = Snapshot {
            age_ms: Some(35),
            resident: Some(4 << 20),
            caches: vec![cache("kmalloc-64", 64, 12_000), cache("kmalloc-8", 8, 3)],
            memory: Memory { objects: 768_024, blocks: 1 << 20, ..Memory::default() },
            budget: Budget { limit: Some(1 << 30), used: 1 << 29 },
            ..Snapshot::default()
        };
        View::new(vec![snapshot], Column::Live, Duration::from_secs(1))
    }

    fn drawn(view: &View, columns: u16, lines: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_has_totals_and_size_classes() {
        let text = drawn(&example(), 110, 12);
        for part in [
            "0.035 s old",
            "1.8 MiB live",
            "512.0 MiB of 1.0 GiB (50 %), headroom 512.0 MiB",
            "99 % of allocations",
            "NAME",
            "+2.3 MiB other = 4.0 MiB RSS",
            "GROWTH",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let line = text.lines().find(|line| line.contains("kmalloc-64")).expect("its line");
        let words: Vec<&str> = line.trim_matches('"').split_whitespace().collect();
        assert_eq!(
            words,
            [
                "kmalloc-64",
                "64",
                "750.0",
                "KiB",
                "4.0",
                "KiB",
                "46.0",
                "KiB",
                "-",
                "-",
                "-",
                "99",
                "0"
            ]
        );
    }

    #[test]
    fn threads_that_sequences_do_not_serve_are_shown() {
        for (name, said) in
            [("slot_interrupted", "; 527 interrupted too often"), ("rseq_refused", "; 527 refused")]
        {
            let mut view = example();
            assert!(!drawn(&view, 110, 12).contains(said));
            view.snapshot.events = vec![Event { name: name.into(), count: 527, is_gauge: false }];
            let text = drawn(&view, 110, 12);
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_narrow_screen_leaves_out_columns_and_cuts_no_number() {
        let whole = drawn(&example(), 110, 12);
        let words = |text: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains("kmalloc-64")).expect("its line");
            line.trim_matches('"').split_whitespace().map(str::to_owned).collect()
        };
        let all = words(&whole);
        for columns in 14..110 {
            let text = drawn(&example(), columns, 12);
            let shown = words(&text);
            assert!(shown.iter().all(|word| all.contains(word)), "{columns}: {shown:?}");
        }
        let heads = drawn(&example(), 80, 12);
        for head in ["SIZE", "LIVE", "PARKED", "DIRTY", "GROWTH", "ALLOC/s", "%FAST"] {
            assert!(heads.contains(head), "{head}\n{heads}");
        }
        assert!(!heads.contains("FREE/s"));
    }

    #[test]
    fn a_narrow_screen_shows_all_of_the_summary_and_what_grows() {
        let words = |columns| {
            let text = drawn(&example(), columns, 30);
            let (summary, _) = text.split_once("NAME").expect("a table");
            summary.replace('"', " ").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        for columns in 30..110 {
            assert_eq!(words(columns), words(200), "{columns}");
        }
        for columns in 60..=80 {
            let text = drawn(&example(), columns, 30);
            for part in ["1.8 MiB", "+2.3 MiB", "4.0 MiB", "512.0 MiB", "1.0 GiB", "0.035 s"] {
                assert!(text.contains(part), "{columns}: {part} is broken\n{text}");
            }
            for head in ["NAME", "LIVE", "PARKED", "DIRTY", "GROWTH"] {
                assert!(text.contains(head), "{columns}: {head}\n{text}");
            }
        }
    }

    #[test]
    fn any_size_of_a_screen_is_drawn() {
        let mut view = example();
        view.is_ended_by(KeyEvent::from(KeyCode::Char('h')));
        for (columns, lines) in [(1, 1), (3, 2), (20, 5), (200, 3), (60, 60)] {
            drawn(&view, columns, lines);
        }
        assert!(drawn(&view, 110, 30).contains("turn the order round"));
    }
}
