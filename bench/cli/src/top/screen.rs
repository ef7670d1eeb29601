//! Draws the screen.

use super::rows::{self, Column, Row};
use super::view::View;
use quarry_live::{Snapshot, bytes, change, count, percentage};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Table};

/// Lines above the rows: five of text and the table's head.
pub(super) const HEAD: u16 = 6;

struct Place {
    head: &'static str,
    sorted_by: Option<Column>,
    width: Constraint,
    /// On a narrow screen, columns with a higher rank are left out first.
    rank: u8,
}

const fn place(head: &'static str, sorted_by: Option<Column>, width: u16, rank: u8) -> Place {
    Place { head, sorted_by, width: Constraint::Length(width), rank }
}

/// Least width of the column of names: it fits the longest name that Quarry gives.
const NAME_COLUMNS: u16 = 14;

/// Each column fits its largest number: a truncated number would be wrong.
const COLUMNS: [Place; 10] = [
    Place {
        head: "NAME",
        sorted_by: Some(Column::Name),
        width: Constraint::Min(NAME_COLUMNS),
        rank: 0,
    },
    place("SIZE", Some(Column::Size), 7, 4),
    place("LIVE", Some(Column::Live), 9, 1),
    place("PARKED", Some(Column::Parked), 9, 2),
    place("DIRTY", Some(Column::Dirty), 9, 3),
    place("GROWTH", Some(Column::Growth), 10, 5),
    place("ALLOC/s", Some(Column::Allocs), 7, 7),
    place("FREE/s", None, 7, 9),
    place("%FAST", Some(Column::Fast), 5, 6),
    place("", None, 3, 8),
];

fn columns_within(width: u16) -> Vec<usize> {
    let width_of = |place: &Place| match place.width {
        // One blank column separates two columns.
        Constraint::Length(width) => width + 1,
        _ => NAME_COLUMNS,
    };
    let fits = |rank: u8| {
        let kept = COLUMNS.iter().filter(|it| it.rank <= rank);
        kept.map(width_of).sum::<u16>() <= width
    };
    let most = (0..=9).rev().find(|rank| fits(*rank)).unwrap_or(0);
    (0..COLUMNS.len()).filter(|column| COLUMNS[*column].rank <= most).collect()
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
 rates     need a second look; counts are published
           at most every 100 ms, on slow paths";

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, table] =
        Layout::vertical([Constraint::Length(HEAD - 1), Constraint::Min(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(view)), head);
    draw_table(frame, view, table);
    if view.shows_help {
        draw_help(frame);
    }
}

fn head_lines(view: &View) -> Vec<Line<'_>> {
    let snapshot = &view.snapshot;
    let (memory, budget) = (&snapshot.memory, &snapshot.budget);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let state = match &view.problem {
        Some(problem) => Span::styled(problem, bold),
        None if view.is_paused => Span::styled("paused (space)", bold),
        None if view.is_still => Span::raw(""),
        None => Span::raw(format!("every {} s, h for help", view.delay.as_secs_f64())),
    };
    let limit = match (budget.limit, budget.headroom()) {
        (Some(limit), Some(headroom)) => format!(
            "{} of {} ({} %), headroom {}",
            bytes(budget.used),
            bytes(limit),
            percentage(budget.used, limit),
            bytes(headroom)
        ),
        _ => format!("{}, no limit", bytes(budget.used)),
    };
    let (allocs, frees) = rows::fast_of_all(snapshot);
    vec![
        Line::from(vec![Span::styled("quarry top  ", bold), Span::raw(snapshot.heading())]),
        Line::from(vec![
            Span::styled("Memory  ", bold),
            Span::raw(format!(
                "{} live, {} parked, {} dirty{}",
                bytes(memory.live()),
                bytes(memory.parked.saturating_add(memory.mappings_kept)),
                bytes(dirty(snapshot)),
                resident(snapshot)
            )),
        ]),
        Line::from(vec![
            Span::styled("Used    ", bold),
            Span::raw(format!(
                "{limit}; descriptors {}, returned {}",
                bytes(memory.descriptors),
                bytes(memory.free_returned)
            )),
        ]),
        Line::from(vec![
            Span::styled("Fast    ", bold),
            Span::raw(format!(
                "{allocs} % of allocations, {frees} % of frees; {} on {} CPUs",
                snapshot.process.backend, snapshot.process.cpus
            )),
        ]),
        Line::from(state),
    ]
}

/// Resident memory as the kernel counts it, and the part that is not Quarry's.
fn resident(of: &Snapshot) -> String {
    let both = of.resident.zip(of.unaccounted());
    both.map_or_else(String::new, |(rss, other)| {
        format!(", {} other = {} RSS", change(other), bytes(rss))
    })
}

/// Bytes that hold no data of the program, and that Quarry could return to the system.
fn dirty(snapshot: &Snapshot) -> u64 {
    let it = &snapshot.memory;
    let parts = [it.free_in_slabs, it.empty_slabs, it.around_objects, it.page_lists, it.free_dirty];
    parts.into_iter().fold(0, u64::saturating_add)
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let columns = columns_within(area.width);
    let heads = columns.iter().map(|column| {
        let Place { head, sorted_by, .. } = COLUMNS[*column];
        let is_sorted = sorted_by == Some(view.column);
        let style = if is_sorted { reversed.add_modifier(Modifier::BOLD) } else { reversed };
        let side = if head == "NAME" { Alignment::Left } else { Alignment::Right };
        Cell::from(Text::from(head).alignment(side)).style(style)
    });
    let shown = view.rows.iter().skip(view.first).take(usize::from(area.height));
    let lines = shown.map(|row| {
        let all = cells(row).into_iter().enumerate();
        let kept = all.filter(|(column, _)| columns.contains(column)).map(|(_, cell)| cell);
        ratatui::widgets::Row::new(kept)
    });
    let widths = columns.iter().map(|column| COLUMNS[*column].width);
    let head = ratatui::widgets::Row::new(heads).style(reversed);
    frame.render_widget(Table::new(lines, widths).header(head), area);
}

fn cells(row: &Row) -> [Cell<'_>; COLUMNS.len()] {
    let right = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    let or_none = |value: Option<String>| right(value.unwrap_or_else(|| "-".to_owned()));
    [
        Cell::from(row.name.as_str()),
        or_none((row.size > 0).then(|| row.size.to_string())),
        right(bytes(row.live)),
        right(bytes(row.parked)),
        right(bytes(row.dirty)),
        or_none(row.growth.map(change)),
        or_none(row.rates.map(|(allocs, _)| count(allocs))),
        or_none(row.rates.map(|(_, frees)| count(frees))),
        or_none(row.fast.map(|(allocs, _)| allocs.to_string())),
        or_none(row.fast.map(|(_, frees)| frees.to_string())),
    ]
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
    use quarry_live::{Budget, Cache, Memory};
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
            budget: Budget { limit: Some(1 << 30), used: 1 << 29, ..Budget::default() },
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
    fn any_size_of_a_screen_is_drawn() {
        let mut view = example();
        view.react(KeyEvent::from(KeyCode::Char('h')));
        for (columns, lines) in [(1, 1), (3, 2), (20, 5), (200, 3), (60, 60)] {
            drawn(&view, columns, lines);
        }
        assert!(drawn(&view, 110, 30).contains("turn the order round"));
    }
}
