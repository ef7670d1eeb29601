//! The lines of an experiment's table.

use quarry_replay::crew::{Load, Place};
use quarry_replay::file_loads::FileLoad;
use quarry_replay::kernels::{Scenario, Setting, WorkRow};
use serde::Deserialize;

/// Lines of an experiment's table that differ in one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    name: String,
    /// Which path of `paths.toml`; none where a load of file systems runs.
    path: Option<String>,
    /// Which load of `file_loads.toml`.
    load: Option<String>,
    #[serde(default)]
    bytes: Vec<u64>,
    #[serde(default)]
    length: Vec<u64>,
    #[serde(default)]
    rate: Vec<u64>,
    #[serde(default)]
    threads: bool,
    #[serde(default)]
    received: bool,
    quick: Option<Vec<u64>>,
    #[serde(default)]
    place: Place,
    declared_cpus: Option<u32>,
    /// The name in the document's table, where it is another.
    documented: Option<String>,
    /// The document's machine, where it is another.
    machine: Option<String>,
    /// The cost of a message, if it differs from that of the path.
    work: Option<WorkRow>,
}

/// One line of an experiment's table.
#[derive(Clone)]
pub(crate) struct Row {
    /// Its name in the document.
    pub(super) name: String,
    /// True if a short run takes it.
    pub(super) quick: bool,
    /// True if received messages are counted, and not those sent.
    pub(super) received: bool,
    /// CPUs that the kernel's formulas are told of, where they are not the experiment's.
    pub(super) declared_cpus: Option<u32>,
    /// Its name in the document's table.
    pub(super) documented: String,
    /// The document's machine, where it is not the experiment's.
    pub(super) machine: Option<&'static str>,
    runs: Runs,
    /// But for the amount.
    setting: Setting,
}

/// The kind of work that a row does.
#[derive(Clone, Copy)]
enum Runs {
    /// Walks a path of this name.
    Path(&'static str),
    /// Runs a load of this name.
    Load(&'static str),
}

impl Rows {
    /// Each of its lines.
    pub(super) fn each(&'static self) -> impl Iterator<Item = Row> {
        let first = |numbers: &[u64]| numbers.first().copied().unwrap_or(0);
        let lists = [&self.length, &self.rate, &self.bytes].into_iter();
        // Where nothing varies, the row has the number 0.
        let varied = lists.map(Vec::as_slice).find(|it| !it.is_empty()).unwrap_or(&[0]);
        varied.iter().map(move |&number| {
            let of = |list: &Vec<u64>| if *list == varied { number } else { first(list) };
            let load = match of(&self.rate) {
                _ if self.rate.is_empty() => None,
                0 => Some(Load::Max),
                rate => Some(Load::Rate(rate)),
            };
            let (bytes, length) = (of(&self.bytes) as usize, of(&self.length) as u32);
            let named = |name: &str| name.replace('#', &number.to_string());
            Row {
                name: named(&self.name),
                declared_cpus: self.declared_cpus,
                documented: named(self.documented.as_ref().unwrap_or(&self.name)),
                machine: self.machine.as_deref(),
                quick: self.quick.as_ref().is_none_or(|quick| quick.contains(&number)),
                received: self.received,
                runs: match (&self.path, &self.load) {
                    (Some(path), None) => Runs::Path(path),
                    (None, Some(load)) => Runs::Load(load),
                    _ => panic!("{}: a row has a path or a load", self.name),
                },
                setting: Setting {
                    bytes,
                    length,
                    load,
                    threads: self.threads,
                    amount: 0,
                    place: self.place,
                    work: self.work,
                },
            }
        })
    }
}

impl Row {
    /// Bits of a message's payload.
    pub(super) fn bits(&self) -> u64 {
        self.setting.bytes as u64 * 8
    }

    /// The scenario that runs, with an amount of work at a time, on the CPUs that were asked for;
    /// none where a load does.
    pub(super) fn scenario(&self, amount: u32, place: Option<Place>) -> Option<Scenario> {
        let Runs::Path(path) = self.runs else { return None };
        let place = place.unwrap_or(self.setting.place);
        Some(Scenario::of(path, &Setting { amount, place, ..self.setting }))
    }

    /// The load that runs, where it is no path.
    pub(super) fn load(&self) -> Option<FileLoad> {
        let Runs::Load(load) = self.runs else { return None };
        Some(FileLoad::of(load))
    }
}
