//! Lines of the table, and the columns to sort by.

use quarry_live::{Cache, Snapshot, percentage};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Column {
    Name,
    Size,
    Live,
    Parked,
    Dirty,
    Growth,
    Allocs,
    Fast,
}

impl Column {
    /// The keys that sort by each column, in the order of the variants.
    pub(super) const KEYS: &str = "nslpdgac";
}

/// A size class, or a kind of larger requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(super) name: String,
    /// Bytes of an object; 0 if objects differ in size.
    pub(super) size: u64,
    pub(super) live: u64,
    pub(super) parked: u64,
    pub(super) dirty: u64,
    /// Live bytes beyond those of the first reading, once there is a second one.
    pub(super) growth: Option<i64>,
    pub(super) allocs: u64,
    pub(super) frees: u64,
    /// Percentages of allocations and frees that a fast path served; `None` without a fast path.
    pub(super) fast: Option<(u64, u64)>,
    pub(super) rates: Option<(u64, u64)>,
}

impl Row {
    fn of_cache(cache: &Cache) -> Self {
        Self {
            name: cache.name.to_string(),
            size: cache.object_bytes,
            live: cache.live_bytes(),
            parked: cache.parked_bytes(),
            dirty: cache.dirty_bytes(),
            allocs: cache.allocs,
            frees: cache.frees,
            fast: Some(cache.fast_percentages()),
            ..Self::default()
        }
    }

    fn key(&self, column: Column) -> i128 {
        let sum = |(one, other): (u64, u64)| one.saturating_add(other);
        match column {
            Column::Name => 0,
            Column::Size => self.size.into(),
            Column::Live => self.live.into(),
            Column::Parked => self.parked.into(),
            Column::Dirty => self.dirty.into(),
            Column::Growth => self.growth.unwrap_or(0).into(),
            Column::Allocs => sum(self.rates.unwrap_or((self.allocs, self.frees))).into(),
            Column::Fast => self.fast.map_or(0, sum).into(),
        }
    }
}

/// The rows of a process: its size classes, then the larger requests.
pub(super) fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let memory = &snapshot.memory;
    let larger = |name: &str, [live, parked, dirty]: [u64; 3], allocs: &str, frees: &str| {
        let (allocs, frees) = (snapshot.event(allocs), snapshot.event(frees));
        Row { name: name.to_owned(), live, parked, dirty, allocs, frees, ..Row::default() }
    };
    let mut rows: Vec<Row> = snapshot.caches.iter().map(Row::of_cache).collect();
    let blocks = [memory.blocks, memory.page_lists, memory.free_dirty];
    rows.push(larger("(blocks)", blocks, "block_allocs", "block_frees"));
    let mappings = [memory.mappings, memory.mappings_cached, 0];
    rows.push(larger("(mappings)", mappings, "mapping_allocs", "mapping_frees"));
    if memory.page_cache > 0 {
        let pages = [memory.page_cache, 0, 0];
        rows.push(larger("(page cache)", pages, "page_cache_taken", "page_cache_released"));
    }
    rows
}

/// Computes rates from the rows of `ms` milliseconds ago.
pub(super) fn set_rates(rows: &mut [Row], before: &[Row], ms: u64) {
    let rate = |now: u64, before: u64| {
        let rate = u128::from(now.saturating_sub(before)) * 1000 / u128::from(ms.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    for row in rows {
        let earlier = before.iter().find(|it| it.name == row.name && it.size == row.size);
        row.rates = earlier.map(|it| (rate(row.allocs, it.allocs), rate(row.frees, it.frees)));
    }
}

/// Computes the growth since the rows of the first reading.
pub(super) fn set_growth(rows: &mut [Row], first: &[Row]) {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    for row in rows {
        let earlier = first.iter().find(|it| it.name == row.name && it.size == row.size);
        row.growth = Some(signed(row.live) - earlier.map_or(0, |it| signed(it.live)));
    }
}

/// Sorts by a column: names ascending, numbers descending; reversed if `inverted`.
pub(super) fn sort(rows: &mut [Row], column: Column, inverted: bool) {
    rows.sort_by(|one, other| {
        let order = match column {
            Column::Name => one.name.cmp(&other.name),
            _ => other.key(column).cmp(&one.key(column)),
        };
        if inverted { order.reverse() } else { order }
    });
}

pub(super) fn fast_of_all(snapshot: &Snapshot) -> (u64, u64) {
    let sum = |of: fn(&Cache) -> u64| snapshot.caches.iter().map(of).fold(0, u64::saturating_add);
    (
        percentage(sum(|it| it.fast_allocs), sum(|it| it.allocs)),
        percentage(sum(|it| it.fast_frees), sum(|it| it.frees)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_have_rates() {
        let row = |name: &str, live, allocs| Row {
            name: name.to_owned(),
            live,
            allocs,
            ..Row::default()
        };
        let mut rows = [row("a", 1, 150), row("b", 3, 20), row("c", 2, u64::MAX)];
        set_rates(&mut rows, &[row("a", 0, 50), row("b", 0, 30), row("c", 0, 0)], 500);
        assert_eq!(rows[0].rates, Some((200, 0)));
        assert_eq!(rows[1].rates, Some((0, 0)), "a count that fell is another process's");
        assert_eq!(rows[2].rates, Some((u64::MAX, 0)));
        let names = |rows: &[Row]| -> String { rows.iter().map(|it| it.name.as_str()).collect() };
        set_growth(&mut rows, &[row("a", 0, 0), row("b", 9, 0)]);
        assert_eq!([rows[0].growth, rows[1].growth, rows[2].growth], [Some(1), Some(-6), Some(2)]);
        sort(&mut rows, Column::Growth, false);
        assert_eq!(names(&rows), "cab", "a class that is new has grown by all that it has");
        sort(&mut rows, Column::Live, false);
        assert_eq!(names(&rows), "bca");
        sort(&mut rows, Column::Name, true);
        assert_eq!(names(&rows), "cba");
        sort(&mut rows, Column::Allocs, false);
        assert_eq!(names(&rows), "cab");
    }
}
