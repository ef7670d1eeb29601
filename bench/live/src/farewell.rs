//! The output of `quarry run --stats` for processes that ended without printing their statistics.

use crate::activity;
use crate::snapshot::{Snapshot, sum};
use crate::watch::{Ended, Member};
use crate::{buddyinfo, lockstat, slabinfo, total, vmstat};
use std::fmt::Write;

/// The text for a program whose first process is `root`: the tables of `root` unless it printed
/// them, then a line for each process and a total if there were several. `None` without either.
#[must_use]
pub fn text(root: u32, ended: &Ended) -> Option<String> {
    let mut text = String::new();
    let spoke = |it: &&Member| it.was_replaced || it.figures.is_last;
    let last =
        ended.processes.iter().filter(|it| it.figures.process.pid == root).rfind(|it| !spoke(it));
    if let Some(Member { figures, .. }) = last {
        text = of_one(figures);
    }
    let all = ended.processes.len() + ended.summed.as_ref().map_or(0, |(_, count)| *count);
    if all > 1 {
        list(ended, all, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

/// A line of JSON for each process that printed no statistics.
#[must_use]
pub fn json(ended: &Ended) -> String {
    let silent = ended.processes.iter().filter(|it| !it.figures.is_last);
    silent.map(|it| it.figures.json.as_str()).collect()
}

/// The text for one process that printed no statistics.
#[must_use]
pub fn of_one(of: &Snapshot) -> String {
    let (process, heading) = (&of.process, of.heading());
    let mut text = format!(
        "quarry: {}[{}] ended without its own statistics (a signal, or _exit)\nquarry: {heading}\n",
        process.name, process.pid
    );
    tables(of, &mut text);
    text
}

fn tables(of: &Snapshot, text: &mut String) {
    let active = activity::table("", &of.caches);
    let events = vmstat::text(of);
    let events = events.split_inclusive('\n').filter(|it| !it.ends_with(" 0\n")).collect();
    for table in [slabinfo::text(of), active, buddyinfo::text(of), events, lockstat::text(of)] {
        let _ = write!(text, "\n{table}");
    }
}

fn list(ended: &Ended, all: usize, text: &mut String) {
    let _ = writeln!(text, "\nquarry: {all} processes or programs, memory in KiB");
    let _ = writeln!(
        text,
        "{:<24} {:>10} {:>10} {:>12} {:>12} {:>7}  figures",
        "process", "live", "kept", "allocs", "frees", "%fast"
    );
    for Member { figures, was_replaced, .. } in &ended.processes {
        let it = &figures.process;
        let end = if *was_replaced { "until its exec".to_owned() } else { figures.age() };
        line(&format!("{}[{}]", it.name, it.pid), figures, &end, text);
    }
    if let Some((sum, count)) = &ended.summed {
        line(&format!("{count} more"), sum, &sum.age(), text);
    }
    let apart = ended.processes.iter().map(|it| &it.figures);
    let summed = ended.summed.as_ref().map(|(sum, _)| sum);
    let total = total::of(&apart.chain(summed).cloned().collect::<Vec<_>>());
    line("total", &total, "", text);
}

fn line(name: &str, of: &Snapshot, end: &str, text: &mut String) {
    let caches = |count: fn(&crate::Cache) -> u64| sum(of.caches.iter().map(count));
    let (allocs, frees) = (caches(|it| it.allocs), caches(|it| it.frees));
    let fast = sum([caches(|it| it.fast_allocs), caches(|it| it.fast_frees)]);
    let fast = crate::percentage(fast, sum([allocs, frees]));
    let line = format!(
        "{name:<24} {:>10} {:>10} {allocs:>12} {frees:>12} {fast:>7}  {end}",
        of.live() / 1024,
        of.kept() / 1024
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Cache, Identity};
    use quarry_record::Memory;

    fn process(pid: u32, name: &str, is_last: bool) -> Snapshot {
        let cache = Cache {
            name: "malloc-64".into(),
            allocs: 100,
            fast_allocs: 90,
            frees: 50,
            fast_frees: 45,
            ..Cache::default()
        };
        Snapshot {
            process: Identity { pid, name: name.into(), ..Identity::default() },
            age_ms: Some(35),
            is_last,
            caches: vec![cache],
            memory: Memory { objects: 2048, ..Memory::default() },
            ..Snapshot::default()
        }
    }

    fn of(processes: Vec<Snapshot>) -> Option<String> {
        text(7, &ended(processes))
    }

    fn ended(processes: Vec<Snapshot>) -> Ended {
        let member = |figures| Member { figures, ..Member::default() };
        Ended { processes: processes.into_iter().map(member).collect(), summed: None }
    }

    #[test]
    fn a_process_that_spoke_for_itself_is_not_repeated() {
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![process(7, "sort", true)]), None);
    }

    #[test]
    fn a_killed_process_has_its_tables() {
        let text = of(vec![process(7, "sort", false)]).expect("something to say");
        assert!(text.starts_with("quarry: sort[7] ended without its own statistics"), "{text}");
        assert!(text.contains("sort[7], 0.035 s old"), "{text}");
        assert!(text.contains("slabinfo - version: 2.1\n") && text.contains("lock_stat version"));
        assert!(!text.contains("processes"));
    }

    #[test]
    fn several_processes_have_a_total() {
        let all = vec![process(7, "sh", true), process(9, "cat", false)];
        let text = of(all).expect("something to say");
        let lines: Vec<&str> = text.trim_start().lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(lines[2])[..6], ["sh[7]", "2", "0", "100", "50", "90"]);
        assert!(lines[3].starts_with("cat[9]") && lines[3].ends_with("0.035 s old"));
        assert_eq!(words(lines[4])[..6], ["total", "4", "0", "200", "100", "90"]);
        let mut ended = ended(vec![process(7, "sh", false)]);
        ended.summed = Some((process(1, "cc", true), 500));
        ended.processes[0].was_replaced = true;
        let text = super::text(7, &ended).expect("something to say");
        assert!(!text.contains("without its own") && text.contains("until its exec"), "{text}");
        assert!(text.contains("501 processes") && text.contains("\n500 more"), "{text}");
    }
}
