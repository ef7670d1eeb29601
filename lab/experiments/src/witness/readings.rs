//! Counts that the kernel keeps for the whole machine: `/proc/vmstat`, `/proc/zoneinfo` and
//! `/proc/slabinfo`.

use std::collections::BTreeMap;
use std::fs;

/// Events of `/proc/vmstat` that have no tracepoint here.
const EVENTS: [&str; 4] = ["pgfault", "pgfree", "pgactivate", "thp_fault_alloc"];

/// Name of the figure [`PageLists::high`] in a sample.
pub(crate) const HIGH: &str = "high mark of page lists";

fn events(text: &str) -> BTreeMap<&'static str, u64> {
    let count = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        let name = EVENTS.iter().find(|known| **known == name)?;
        Some((*name, count.parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

/// The per-CPU lists of the largest zone, as `/proc/zoneinfo` has them for the zone's first CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageLists {
    pub(crate) zone: String,
    /// Maximum number of pages on the lists before the CPU gives some back.
    pub(crate) high: u64,
    /// Pages that move in one batch.
    pub(crate) batch: u64,
    managed: u64,
}

impl PageLists {
    /// Reads the file; `None` if there is no such file.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/zoneinfo").ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let mut zones: Vec<Self> = Vec::new();
        for line in text.lines() {
            if let Some((_, name)) = line.split_once(", zone") {
                zones.push(Self { zone: name.trim().to_owned(), ..Self::default() });
            }
            let Some(zone) = zones.last_mut() else { continue };
            let mut words = line.split_whitespace();
            let (name, count) = (words.next(), words.next().and_then(|it| it.parse().ok()));
            match (name, count) {
                (Some("managed"), Some(count)) => zone.managed = count,
                (Some("high:"), Some(count)) if zone.high == 0 => zone.high = count,
                (Some("batch:"), Some(count)) if zone.batch == 0 => zone.batch = count,
                _ => {}
            }
        }
        zones.into_iter().max_by_key(|zone| zone.managed)
    }
}

/// Name, in a sample, of this figure: slabs created in the window less those freed, at least 0.
pub(crate) const SLABS: &str = "slabs added";

/// Slabs of all caches.
fn slabs(text: &str) -> Option<u64> {
    let slabs =
        text.lines().filter_map(|line| line.split_once(": slabdata")?.1.split_whitespace().nth(1));
    slabs.filter_map(|count| count.parse().ok()).reduce(|sum: u64, count| sum + count)
}

/// Reads the files; the result has nothing of a file that is absent or may not be read.
#[derive(Default)]
pub(super) struct Readings {
    events: BTreeMap<&'static str, u64>,
    lists: Option<PageLists>,
    slabs: Option<u64>,
}

impl Readings {
    pub(super) fn now() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (events, slabs) = (events(&text("/proc/vmstat")), slabs(&text("/proc/slabinfo")));
        Self { events, lists: PageLists::now(), slabs }
    }

    /// The counts since an earlier reading, the present page lists, and their earlier high mark.
    pub(super) fn since(&self, earlier: &Self) -> Vec<(&'static str, u64)> {
        let mut counted = Vec::new();
        for (name, count) in &self.events {
            let before = earlier.events.get(name).copied().unwrap_or(0);
            counted.push((*name, count.saturating_sub(before)));
        }
        if let Some(lists) = &self.lists {
            counted.extend([(HIGH, lists.high), ("batch of page lists", lists.batch)]);
        }
        counted.extend(earlier.lists.iter().map(|lists| ("high mark before", lists.high)));
        let slabs = self.slabs.zip(earlier.slabs);
        counted.extend(slabs.map(|(after, before)| (SLABS, after.saturating_sub(before))));
        counted
    }
}

/// Bytes of memory and number of nodes of this machine.
pub(crate) fn machine() -> (u64, u8) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let names = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_node =
        |name: &String| name.strip_prefix("node").is_some_and(|it| it.parse::<u8>().is_ok());
    let nodes = names.filter(is_node).count();
    (kib.unwrap_or(0) << 10, u8::try_from(nodes.max(1)).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_those_since_a_reading() {
        let of = |text| Readings { events: events(text), ..Readings::default() };
        let before = of("nr_free_pages 5\npgfree 10\npgfault 100\n");
        let after = of("nr_free_pages 9\npgfree 10\npgfault 142\n");
        assert_eq!(after.since(&before), [("pgfault", 42), ("pgfree", 0)]);
    }

    #[test]
    fn slabs_are_those_of_all_caches() {
        let line = |name: &str, count: u32| {
            format!("{name} 7 8 64 64 1 : tunables 0 0 0 : slabdata 1 {count} 0\n")
        };
        let text =
            "slabinfo - version: 2.1\n# name <active_objs> : slabdata <active_slabs> <num>\n";
        assert_eq!(slabs(&(text.to_owned() + &line("a", 3) + &line("b", 4))), Some(7));
        assert_eq!(slabs(text), None);
    }

    #[test]
    fn lists_are_those_of_the_largest_zone() {
        let zone = |name: &str, managed: u32, high: u32| {
            let lists = format!("cpu: 0\n count: 3\n high: {high}\n batch: 63\n cpu: 1\n high: 5");
            format!("Node 0, zone {name}\n pages free 7\n high 9\n managed {managed}\n {lists}\n")
        };
        let text = zone("DMA32", 100, 61) + &zone("Normal", 1000, 1996);
        let lists = PageLists::of(&text).unwrap();
        assert_eq!((lists.zone.as_str(), lists.high, lists.batch), ("Normal", 1996, 63));
        assert_eq!(PageLists::of(""), None);
    }
}
