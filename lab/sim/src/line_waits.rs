//! Waits for cache lines: how long tasks waited for a line to come from another core, and for
//! transfers of the line that were under way.

use crate::by_address::ByAddress;
use std::collections::BTreeMap;
use std::panic::Location;

/// The code that accesses a line; `None`: a lock, a sequence or the program.
pub(crate) type Place = Option<&'static Location<'static>>;

#[derive(Default)]
pub(crate) struct LineWaits {
    /// The code that makes the present access.
    pub(crate) place: Place,
    /// Names of lines, such as those of locks.
    names: ByAddress<String>,
    /// Waits of the program, for slots, and for what else has no name. There are many such lines.
    unnamed_ns: u64,
    /// For each line the nanoseconds of waiting, by the code that waited.
    waits: ByAddress<Vec<(Place, u64)>>,
}

impl LineWaits {
    /// Forgets all waits, and names these lines from now on.
    pub(crate) fn begin(&mut self, names: ByAddress<String>) {
        *self = Self { names, ..Self::default() };
    }

    /// Counts a wait of the present access.
    pub(crate) fn add(&mut self, line: usize, ns: u64) {
        if self.place.is_none() && !self.names.contains_key(&line) {
            self.unnamed_ns += ns;
            return;
        }
        let waits = self.waits.entry(line).or_default();
        match waits.iter_mut().find(|(place, _)| *place == self.place) {
            Some((_, sum)) => *sum += ns,
            None => waits.push((self.place, ns)),
        }
    }

    /// The waits in nanoseconds, the longest first. A line has the name of its lock, unless other
    /// code waited longest for it: that code is its name then. Lines of one name count together.
    pub(crate) fn by_name(&self) -> Vec<(String, u64)> {
        let mut sums = BTreeMap::from([("program and slots".to_owned(), self.unnamed_ns)]);
        for (line, waits) in &self.waits {
            let longest = waits.iter().max_by_key(|(place, ns)| (*ns, *place));
            let code = longest.and_then(|(place, _)| *place);
            let code = code.filter(|place| !place.file().ends_with("/lock.rs")).map(shown);
            let name = match (self.names.get(line).cloned(), code) {
                (Some(lock), Some(code)) => format!("{code} beside {lock}"),
                (lock, code) => lock.or(code).unwrap_or_default(),
            };
            let sum: u64 = waits.iter().map(|(_, ns)| ns).sum();
            *sums.entry(name).or_default() += sum;
        }
        let mut all: Vec<_> = sums.into_iter().collect();
        all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        all
    }
}

/// The file below `src`, and the line in it.
fn shown(place: &Location<'_>) -> String {
    let file = place.file().rsplit("src/").next().unwrap_or_default();
    format!("{file}:{}", place.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_name_or_that_of_the_longest_wait() {
        let mut waits = LineWaits::default();
        waits.add(1, 1_000);
        waits.begin([7, 9].map(|line| (line, "lock".to_owned())).into_iter().collect());
        let here = [Location::caller(), Location::caller()];
        for (line, place, ns) in [
            (1, Some(here[0]), 30),
            (2, Some(here[0]), 20),
            (3, Some(here[0]), 5),
            (3, Some(here[1]), 6),
            (7, Some(here[0]), 1),
            (7, None, 70),
            (9, Some(here[0]), 3),
            (9, None, 2),
            (8, None, 9),
        ] {
            waits.place = place;
            waits.add(line, ns);
        }
        let of = |name: &str| name.to_owned();
        let longest = waits.by_name();
        assert_eq!(longest[0], (of("lock"), 71));
        assert!(longest[1].0.starts_with("line_waits.rs:") && longest[1].1 == 61, "{longest:?}");
        assert_eq!(longest[2], (of("program and slots"), 9));
        assert!(longest[3].0.ends_with(" beside lock") && longest[3].1 == 5, "{longest:?}");
    }
}
