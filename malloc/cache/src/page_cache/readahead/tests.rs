//! Windows of known traces, and of random traces compared with a naive model.

use super::{Need, ReadAhead, Trigger, Window};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A file whose pages a reader uses one by one, through a cache without a limit.
struct Reader {
    readahead: ReadAhead,
    most: u32,
    cached: BTreeSet<u64>,
    marked: BTreeSet<u64>,
    windows: Vec<Window>,
}

impl Reader {
    fn new(most: u32) -> Self {
        let (cached, marked) = (BTreeSet::new(), BTreeSet::new());
        Self { readahead: ReadAhead::default(), most, cached, marked, windows: Vec::new() }
    }

    fn request(&mut self, index: u64, pages: u32, trigger: Trigger) {
        let need = Need { index, pages, most: self.most, trigger };
        let window = self.readahead.window(need, |index| self.cached.contains(&index));
        self.readahead.validate(self.most).unwrap();
        self.cached.extend(window.start..window.start + u64::from(window.pages));
        self.marked.extend(window.marker);
        self.windows.push(window);
    }

    /// Uses one page. Returns whether the reader had to wait for it.
    fn read(&mut self, index: u64) -> bool {
        let missed = !self.cached.contains(&index);
        if missed {
            self.request(index, 1, Trigger::Miss);
            self.cached.insert(index);
        }
        if self.marked.remove(&index) {
            self.request(index, 1, Trigger::Marker);
        }
        missed
    }

    fn sizes(&self) -> Vec<(u64, u32, Option<u64>)> {
        self.windows.iter().map(|window| (window.start, window.pages, window.marker)).collect()
    }
}

#[test]
fn a_file_that_is_read_through_doubles_its_windows_and_waits_once() {
    let mut reader = Reader::new(32);
    let waits: Vec<u64> = (0..160).filter(|index| reader.read(*index)).collect();
    assert_eq!(waits, [0], "later pages are there before they are used");
    let expected = [(0, 4, 1), (4, 8, 4), (12, 16, 12), (28, 32, 28), (60, 32, 60), (92, 32, 92)];
    let expected = expected.map(|(start, pages, marker)| (start, pages, Some(marker)));
    assert_eq!(reader.sizes()[..6], expected);
}

#[test]
fn random_pages_come_alone() {
    let mut reader = Reader::new(32);
    for index in [700, 30, 555, 90, 211, 1000, 64] {
        assert!(reader.read(index));
    }
    assert!(reader.windows.iter().all(|window| window.pages == 1 && window.marker.is_none()));
}

#[test]
fn a_second_neighbour_begins_a_stream_anywhere() {
    let mut reader = Reader::new(32);
    assert!(reader.read(500) && reader.read(501));
    assert_eq!(reader.sizes(), [(500, 1, None), (501, 4, Some(502))]);
    assert!((502..600).all(|index| !reader.read(index)));
}

#[test]
fn two_streams_that_interleave_keep_their_windows() {
    let mut reader = Reader::new(32);
    for index in 0..64 {
        reader.read(index);
        reader.read(10_000 + index);
    }
    let (first, second): (Vec<Window>, Vec<Window>) =
        reader.windows.iter().partition(|window| window.start < 10_000);
    for windows in [&first, &second] {
        let largest = windows.iter().map(|window| window.pages).max();
        assert!(largest >= Some(16), "the windows grow: {windows:?}");
        assert!(windows.len() < 20, "pages come together: {windows:?}");
    }
}

#[test]
fn a_large_request_is_one_window() {
    let mut reader = Reader::new(32);
    reader.request(96, 100, Trigger::Miss);
    assert_eq!(reader.sizes(), [(96, 32, Some(112))], "at most so many at a time");
    let mut small = Reader::new(1);
    small.request(0, 1, Trigger::Miss);
    assert_eq!(small.sizes(), [(0, 1, None)], "where no page may be read ahead");
}

#[test]
fn a_window_ends_with_its_file() {
    let window = Window { start: 10, pages: 8, marker: Some(14) };
    assert_eq!(window.before(100), window);
    assert_eq!(window.before(15), Window { pages: 5, ..window });
    assert_eq!(window.before(12), Window { start: 10, pages: 2, marker: None });
    assert_eq!(window.before(3).pages, 0);
}

/// The same rules without a record of window sizes. The model keeps the pages of the last window in
/// two sets, and searches these sets.
#[derive(Default)]
struct Model {
    asked: BTreeSet<u64>,
    ahead: BTreeSet<u64>,
    last_miss: Option<(u64, u32)>,
}

impl Model {
    fn all(&self) -> BTreeSet<u64> {
        self.asked.union(&self.ahead).copied().collect()
    }

    fn grown(size: usize, most: usize) -> usize {
        if size * 16 < most / 16 * 16 {
            size * 4
        } else if size <= most / 2 {
            size * 2
        } else {
            most
        }
    }

    fn set(&mut self, request: u64, start: u64, size: usize, ahead: usize, most: usize) {
        let (mut size, mut ahead) = (size, ahead);
        if request == start && size == ahead {
            let more = Self::grown(size, most);
            (size, ahead) =
                if size + more <= most { (size + more, more) } else { (most, most / 2) };
        }
        let pages: Vec<u64> = (start..start + size as u64).collect();
        self.asked = pages[..size - ahead].iter().copied().collect();
        self.ahead = pages[size - ahead..].iter().copied().collect();
    }

    /// The pages of the window, and the page to mark.
    fn window(&mut self, need: Need, cached: &BTreeSet<u64>) -> (Vec<u64>, Option<u64>) {
        let (index, pages, most) = (need.index, need.pages as usize, need.most as usize);
        let known = self.all();
        let behind = known.last().map(|last| last + 1);
        let marker = self.ahead.first().copied().or(behind);
        let last_miss = self.last_miss;
        if need.trigger == Trigger::Miss {
            self.last_miss = Some((index, need.pages));
        }
        if index != 0 && (Some(index) == behind || behind.is_some() && Some(index) == marker) {
            let size = Self::grown(known.len(), most);
            self.set(index, behind.unwrap(), size, size, most);
        } else if need.trigger == Trigger::Marker {
            let Some(gap) = (index + 1..=index + most as u64).find(|page| !cached.contains(page))
            else {
                return (Vec::new(), None);
            };
            let size = Self::grown(((gap - index) as usize + pages).min(most), most);
            self.set(index, gap, size, size, most);
        } else {
            let follows = last_miss.is_some_and(|(missed, pages)| {
                let last = missed + u64::from(pages) - 1;
                index == last || index == last + 1
            });
            if index == 0 || pages > most || follows {
                let mut size = 1;
                while size < pages.min(most) {
                    size *= 2;
                }
                let size = if size <= most / 32 {
                    size * 4
                } else if size <= most / 4 {
                    size * 2
                } else {
                    most
                };
                let ahead = if size > pages { size - pages } else { size };
                self.set(index, index, size, ahead, most);
            } else {
                let mut history = 0;
                while history < most
                    && (history as u64) < index
                    && cached.contains(&(index - 1 - history as u64))
                {
                    history += 1;
                }
                if history <= pages {
                    return ((index..index + pages as u64).collect(), None);
                }
                if history as u64 == index {
                    history *= 2;
                }
                self.set(index, index, (history + pages).min(most), 1, most);
            }
        }
        (self.all().into_iter().collect(), self.ahead.first().copied())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn windows_are_those_of_the_model(
        most in prop::sample::select(vec![1u32, 2, 3, 8, 24, 32, 100, 128]),
        steps in prop::collection::vec((0u64..6, 0u64..200, 1u32..40, any::<bool>()), 1..120),
    ) {
        let mut readahead = ReadAhead::default();
        let mut model = Model::default();
        let mut cached = BTreeSet::new();
        let mut marked = None;
        let mut next = 0;
        for (kind, place, pages, evict) in steps {
            let (index, trigger) = match kind {
                0 => (place, Trigger::Miss),
                1 => (place, Trigger::Marker),
                2 | 3 => (marked.take().unwrap_or(next), Trigger::Marker),
                _ => (next, Trigger::Miss),
            };
            let pages = if kind == 5 { pages } else { 1 };
            let need = Need { index, pages, most, trigger };
            let window = readahead.window(need, |index| cached.contains(&index));
            let expected = model.window(need, &cached);
            let end = window.start + u64::from(window.pages);
            prop_assert_eq!(((window.start..end).collect(), window.marker), expected, "{:?}", need);
            prop_assert!(readahead.validate(most).is_ok());
            prop_assert!(window.marker.is_none_or(|marker| (window.start..end).contains(&marker)));
            if evict {
                cached.retain(|page| page % 3 != 0);
            }
            cached.extend(window.start..end);
            marked = window.marker.or(marked);
            next = end.max(index + 1);
        }
    }
}
