//! Reads the statistics that a program has written to `QUARRY_STATS=FILE`.

use std::path::Path;

/// Start of the line about ignored wrong sizes, which is printed only if there were some.
const WRONG_SIZES: &str = "wrong sizes given to delete or free_sized, and ignored: ";

/// The tables of all processes of a run, one after the other in one file.
pub(crate) struct Stats {
    text: String,
}

impl Stats {
    /// Reads the file; the error says why there are no tables.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(file) {
            Ok(text) if text.contains("slabinfo - version") => Ok(Self { text }),
            Ok(text) => Err(format!("no slabinfo in the statistics:\n{text}")),
            Err(error) => Err(format!("the program left no statistics: {error}")),
        }
    }

    /// The text of all tables.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Allocations by slab caches, summed over the processes.
    pub(crate) fn object_allocs(&self) -> u64 {
        self.text.lines().filter_map(allocs_of_line).sum()
    }

    /// Frees that named a wrong size, summed over the processes.
    pub(crate) fn wrong_sizes(&self) -> u64 {
        let counts = self.text.lines().filter_map(|line| line.strip_prefix(WRONG_SIZES));
        counts.map(|count| count.parse::<u64>().expect("a number")).sum()
    }

    /// Sequences that were interrupted too often, summed over the processes.
    pub(crate) fn interrupted(&self) -> u64 {
        self.count("interrupted")
    }

    /// The number in lines that begin with `name`, summed over the processes.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let counts = self.text.lines().filter_map(|line| line.trim().strip_prefix(name));
        counts.map(|count| count.trim().parse::<u64>().expect("a number")).sum()
    }

    /// Number of processes that have written tables.
    pub(crate) fn processes(&self) -> usize {
        self.of_processes().count()
    }

    /// Allocations by slab caches in the process with most of them.
    pub(crate) fn object_allocs_of_the_busiest(&self) -> u64 {
        self.of_processes()
            .map(|text| text.lines().filter_map(allocs_of_line).sum())
            .max()
            .unwrap_or(0)
    }

    fn of_processes(&self) -> impl Iterator<Item = &str> {
        self.text.split("slabinfo - version").skip(1)
    }
}

/// The first number after `: operations` in a line of `slabinfo`.
fn allocs_of_line(line: &str) -> Option<u64> {
    let (cache, operations) = line.split_once(": operations ")?;
    if cache.starts_with('#') {
        return None;
    }
    operations.split_whitespace().next()?.parse().ok()
}

#[test]
fn counts_allocations_of_all_caches() {
    let text = "slabinfo - version: 2.1\n# name : operations <alloc> <free>\n\
                kmalloc-8 1 2 8 : slabdata 1 1 0 : operations 10 9 99 99\n\
                kmalloc-16 1 2 16 : slabdata 1 1 0 : operations 5 5 99 99\n";
    let stats = Stats { text: text.repeat(2) + "slabinfo - version" };
    assert_eq!(stats.object_allocs(), 30);
    assert_eq!(stats.object_allocs_of_the_busiest(), 15);
    assert_eq!(stats.processes(), 3);
}
