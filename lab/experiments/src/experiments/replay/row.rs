//! The lines of an experiment's table.

use quarry_replay::crew::{Load, Place};
use quarry_replay::file_loads::FileLoad;
use quarry_replay::kernels::{Cast, Scenario, Setting, WorkRow};
use serde::Deserialize;

/// Lines of an experiment's table that differ in one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    name: String,
    /// A path of a document's `paths.toml`; `None` for a load of file systems.
    path: Option<String>,
    /// A load of a document's `loads.toml`.
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
    /// The row's name in the document's table, if it is not `name`.
    documented: Option<String>,
    /// The document's machine, if it is not the experiment's.
    machine: Option<String>,
    /// The cost of a message, if it differs from the path's.
    work: Option<WorkRow>,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(super) name: String,
    pub(super) quick: bool,
    /// True if a rate counts received messages, false if it counts sent ones.
    pub(super) received: bool,
    /// CPUs that the kernel's formulas assume, if they are not the experiment's.
    pub(super) declared_cpus: Option<u32>,
    pub(super) documented: String,
    /// The document's machine, if it is not the experiment's.
    pub(super) machine: Option<&'static str>,
    runs: Runs,
    /// The setting, without the amount.
    setting: Setting,
}

#[derive(Clone, Copy)]
enum Runs {
    Path(&'static str),
    Load(&'static str),
}

impl Rows {
    pub(super) fn each(&'static self) -> impl Iterator<Item = Row> {
        let first = |numbers: &[u64]| numbers.first().copied().unwrap_or(0);
        let lists = [&self.length, &self.rate, &self.bytes].into_iter();
        // If nothing varies, there is one row with the number 0.
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
    pub(super) fn bits(&self) -> u64 {
        self.setting.bytes as u64 * 8
    }

    /// The scenario of the row, with an amount of work and the wanted place; `None` for a load.
    pub(super) fn scenario(&self, amount: u32, place: Option<Place>) -> Option<Scenario> {
        let Runs::Path(path) = self.runs else { return None };
        let place = place.unwrap_or(self.setting.place);
        Some(Scenario::of(path, &Setting { amount, place, ..self.setting }))
    }

    /// Returns whether its tasks are pairs of a sender and a receiver.
    pub(super) fn has_senders(&self, amount: u32) -> bool {
        self.scenario(amount, None).is_some_and(|it| matches!(it.cast, Cast::Crew(_)))
    }

    pub(super) fn load(&self) -> Option<FileLoad> {
        let Runs::Load(load) = self.runs else { return None };
        Some(FileLoad::of(load))
    }
}
