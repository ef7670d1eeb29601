//! The state of the screen, and its reactions to keys.

use super::rows::{self, Column, Row};
use clap::ValueEnum;
use quarry_live::{Snapshot, total};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

pub(super) struct View {
    pub(super) snapshot: Snapshot,
    pub(super) rows: Vec<Row>,
    /// The figures of each process at the first and at the last reading, in the same order.
    firsts: Vec<Snapshot>,
    lasts: Vec<Snapshot>,
    taken: Instant,
    pub(super) column: Column,
    is_inverted: bool,
    pub(super) is_paused: bool,
    /// True if it is drawn only once.
    pub(super) is_still: bool,
    pub(super) shows_help: bool,
    pub(super) first: usize,
    pub(super) delay: Duration,
    pub(super) problem: Option<String>,
}

impl View {
    pub(super) fn new(processes: Vec<Snapshot>, column: Column, delay: Duration) -> Self {
        let snapshot = total::of(&processes);
        let rows = rows::rows(&snapshot);
        let mut view = Self {
            snapshot,
            firsts: processes.clone(),
            lasts: processes,
            rows,
            taken: Instant::now(),
            column,
            is_inverted: false,
            is_paused: false,
            is_still: false,
            shows_help: false,
            first: 0,
            delay,
            problem: None,
        };
        view.sort();
        view
    }

    /// The view of one of several processes, with the rows that have grown or shrunk.
    pub(super) fn part(&self, pid: u32) -> Option<Self> {
        let of = |all: &[Snapshot]| all.iter().find(|it| it.process.pid == pid).cloned();
        let (first, last) = (of(&self.firsts)?, of(&self.lasts)?);
        let mut view = Self::new(vec![first], self.column, self.delay);
        view.update(&[last]);
        view.rows.retain(|row| row.growth != Some(0));
        view.rows.iter_mut().for_each(|row| row.rates = None);
        view.is_still = true;
        (self.lasts.len() > 1).then_some(view)
    }

    /// Takes newer figures, unless the screen is paused.
    pub(super) fn update(&mut self, processes: &[Snapshot]) {
        self.problem = None;
        if self.is_paused {
            return;
        }
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.taken).as_millis();
        let first = |of: &Snapshot| self.firsts.iter().find(|it| it.process.pid == of.process.pid);
        self.firsts = processes.iter().map(|it| first(it).unwrap_or(it).clone()).collect();
        let snapshot = total::of(processes);
        let mut rows = rows::rows(&snapshot);
        rows::set_rates(&mut rows, &self.rows, u64::try_from(passed).unwrap_or(u64::MAX));
        rows::set_growth(&mut rows, &rows::rows(&total::of(&self.firsts)));
        (self.rows, self.snapshot, self.taken) = (rows, snapshot, now);
        self.lasts = processes.to_vec();
        self.sort();
    }

    /// Obeys a key. Returns true if it ends the screen.
    pub(super) fn is_ended_by(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return true,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('h' | '?') => self.shows_help = !self.shows_help,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('i') => self.is_inverted = !self.is_inverted,
            KeyCode::Char('+') => self.delay = (self.delay * 2).min(DELAYS.1),
            KeyCode::Char('-') => self.delay = (self.delay / 2).max(DELAYS.0),
            KeyCode::Char(letter) => {
                let column = Column::KEYS.find(letter).map(|at| Column::value_variants()[at]);
                self.column = column.unwrap_or(self.column);
            }
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first += 1,
            KeyCode::PageUp => self.first = self.first.saturating_sub(10),
            KeyCode::PageDown => self.first += 10,
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        self.first = self.first.min(self.rows.len().saturating_sub(1));
        self.sort();
        false
    }

    fn sort(&mut self) {
        rows::sort(&mut self.rows, self.column, self.is_inverted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_live::{Cache, Identity};

    fn cache(name: &str, live: u64) -> Cache {
        Cache { name: name.into(), object_bytes: 8, live, slabs: 1, ..Cache::default() }
    }

    #[test]
    fn keys_sort_pause_and_quit() {
        let snapshot = |live| Snapshot {
            caches: vec![cache("a", live), cache("b", 2)],
            ..Snapshot::default()
        };
        let mut view = View::new(vec![snapshot(1)], Column::Live, Duration::from_secs(1));
        assert_eq!(view.rows[0].name, "b");
        let press = |view: &mut View, code| view.is_ended_by(KeyEvent::from(code));
        assert!(!press(&mut view, KeyCode::Char('n')));
        assert_eq!(view.column, Column::Name);
        press(&mut view, KeyCode::Char(' '));
        view.update(&[snapshot(100)]);
        assert_eq!(view.snapshot.caches[0].live, 1, "it is paused");
        press(&mut view, KeyCode::Char(' '));
        view.update(&[snapshot(100)]);
        assert_eq!(view.snapshot.caches[0].live, 100);
        for _ in 0..100 {
            press(&mut view, KeyCode::Char('+'));
            press(&mut view, KeyCode::PageDown);
        }
        assert_eq!(view.delay, DELAYS.1);
        assert_eq!(view.first, view.rows.len() - 1);
        assert!(press(&mut view, KeyCode::Char('q')));
    }

    #[test]
    fn growth_is_that_of_the_processes_that_are_there() {
        let of = |pid, live| Snapshot {
            process: Identity { pid, ..Identity::default() },
            caches: vec![cache("a", live)],
            ..Snapshot::default()
        };
        let mut view = View::new(vec![of(1, 1000)], Column::Name, Duration::from_secs(1));
        let mut growth = |processes: &[Snapshot]| {
            view.update(processes);
            view.rows.iter().find(|it| it.name == "a").and_then(|it| it.growth)
        };
        assert_eq!(growth(&[of(1, 1001)]), Some(8));
        assert_eq!(growth(&[of(2, 3)]), Some(0), "another process is in its place");
        assert_eq!(growth(&[of(2, 5), of(3, 7)]), Some(16), "one more has come");
        assert_eq!(growth(&[of(3, 6)]), Some(-8), "and stays");
    }
}
