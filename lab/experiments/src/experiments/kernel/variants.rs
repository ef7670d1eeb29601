//! The variants: the running kernel, counted or not, with its own or other settings, and stacks.

use crate::experiments::plan::each_once;
use crate::witness::tracepoints::{Events, Refusal};
use crate::witness::{guest, knob};
use anyhow::{Result, bail};
use quarry_harness::results::Variant;
use quarry_harness::usage::Usage;
use quarry_replay::policies::Policies;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const KERNEL: &str = "kernel";
pub(super) const UNCOUNTED: &str = "kernel-uncounted";
/// The names of kernels of --guests begin with this; the name of the kernel's folder follows.
pub(super) const GUEST: &str = "linux-";

/// Settings that a variant may change for its samples: NAME in `VARIANT-NAME-NUMBER`, the setting's
/// file, and the least number.
const SETTINGS: [(&str, &str, u32); 5] = [
    // All pcp lists of a zone together hold up to the zone's pages divided by this number. Below 8
    // the kernel accepts only 0, which means up to the zone's low watermark.
    ("fraction", "/proc/sys/vm/percpu_pagelist_high_fraction", 8),
    ("cpu-partial", "/sys/kernel/slab/*/cpu_partial", 0),
    ("min-partial", "/sys/kernel/slab/*/min_partial", 0),
    ("order", "/sys/kernel/slab/*/order", 0),
    ("mglru", "/sys/kernel/mm/lru_gen/enabled", 0),
];

/// A setting's file and value.
pub(super) type Setting = (PathBuf, String);

#[derive(Clone)]
pub(super) enum Contender {
    Kernel {
        counted: bool,
        setting: Option<Setting>,
    },
    /// A kernel in an emulated machine: the folder with its files.
    Guest {
        folder: PathBuf,
        setting: Option<Setting>,
    },
    Stack(Policies),
}

/// Splits `VARIANT-NAME-NUMBER` into the variant and the setting; `None` if there is no setting.
fn setting(name: &str) -> Option<Result<(&str, Setting)>> {
    SETTINGS.iter().find_map(|(of, file, least)| {
        let (variant, number) = name.split_once(&format!("-{of}-"))?;
        Some(match number.parse::<u32>() {
            Ok(value) if value >= *least => Ok((variant, (file.into(), number.to_owned()))),
            _ => {
                Err(Usage(format!("--variants {name}: accepted are numbers from {least} on"))
                    .into())
            }
        })
    })
}

impl Contender {
    fn named(name: &str, guests: Option<&Path>) -> Result<Self> {
        let (variant, setting) = match setting(name).transpose()? {
            Some((variant, setting)) => (variant, Some(setting)),
            None => (name, None),
        };
        if let (Some(release), Some(guests)) = (variant.strip_prefix(GUEST), guests) {
            return Ok(Self::Guest { folder: guests.join(release), setting });
        }
        Ok(match (variant, name.parse()) {
            (KERNEL, _) => Self::Kernel { counted: true, setting },
            (UNCOUNTED, _) => Self::Kernel { counted: false, setting },
            (_, Ok(policies)) => Self::Stack(policies),
            (_, Err(error)) => {
                let settings = SETTINGS.map(|(of, ..)| format!("{of}-N")).join(", ");
                bail!(Usage(format!(
                    "--variants: {error}; or {KERNEL}, {UNCOUNTED}, {GUEST}RELEASE with --guests; \
                     each also with -{settings} after it"
                )))
            }
        })
    }

    fn setting(&self) -> Option<&Setting> {
        match self {
            Self::Kernel { setting, .. } | Self::Guest { setting, .. } => setting.as_ref(),
            Self::Stack(_) => None,
        }
    }

    fn about(&self) -> String {
        let about = match self {
            Self::Kernel { counted: false, .. } => "the running kernel, nothing counted".to_owned(),
            Self::Kernel { .. } => "the running kernel, tracepoints counted".to_owned(),
            Self::Guest { .. } => "a kernel in an emulated machine of two CPUs".to_owned(),
            Self::Stack(policies) => format!("{}, on a stack of its own", policies.in_full()),
        };
        let with = |(file, value): &Setting| format!("{about}; {} is {value}", file.display());
        self.setting().map_or(about.clone(), with)
    }

    /// The reason why this machine cannot take the contender's samples, if there is one.
    fn refusal(&self, events: &Result<Events, Refusal>) -> Option<String> {
        match (self, events) {
            (Self::Guest { folder, .. }, _) => {
                let files = guest::FILES.map(|name| folder.join(name));
                let missing = files.iter().find(|file| !file.is_file())?;
                Some(format!(
                    "there is no {}; scripts/witness-kernels.sh makes it",
                    missing.display()
                ))
            }
            (Self::Kernel { counted: true, .. }, Err(refusal)) => Some(refusal.to_string()),
            (Self::Kernel { setting: Some((file, _)), .. }, _) => {
                let error = |file: PathBuf| File::options().write(true).open(file).err();
                let errors: Vec<_> = knob::files(file).into_iter().map(error).collect();
                let error = errors.into_iter().reduce(|any, one| any.and(one));
                let text =
                    error.map_or_else(|| Some("absent".to_owned()), |it| Some(it?.to_string()));
                Some(format!("{}: {}", file.display(), text?))
            }
            _ => None,
        }
    }
}

/// The variants of `names` that this machine allows. Prints each reason to leave others out.
pub(super) fn find(
    names: &[String],
    events: &Result<Events, Refusal>,
    guests: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Vec<(Contender, Variant)>> {
    let mut told = String::new();
    let found = each_once(names, |name| {
        let contender = Contender::named(name, guests)?;
        if let Some(refusal) = contender.refusal(events) {
            if refusal != told {
                writeln!(out, "{name}: left out: {refusal}")?;
            }
            told = refusal;
            return Ok(None);
        }
        let variant = Variant::new(name, &contender.about());
        Ok(Some((contender, variant)))
    })?;
    Ok(found.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::tracepoints::Scope;

    #[test]
    fn names_are_kernels_or_policies() {
        let guests = Path::new("/guests");
        let named = |name| Contender::named(name, Some(guests));
        let value = |name| named(name).ok().and_then(|it| Some(it.setting()?.1.clone()));
        assert_eq!(value("kernel-fraction-8").as_deref(), Some("8"));
        assert_eq!(value("linux-6.12-mglru-0").as_deref(), Some("0"));
        assert_eq!(value("kernel"), None);
        for wrong in ["kernel-fraction-7", "kernel-fraction-", "kernels", "sheaf+v5"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(named("sheaf-6.18"), Ok(Contender::Stack(_))));
        let folder = |name| match named(name) {
            Ok(Contender::Guest { folder, .. }) => folder,
            _ => PathBuf::new(),
        };
        assert_eq!(folder("linux-6.12-mglru-0"), Path::new("/guests/6.12"));
        assert!(Contender::named("linux-6.12", None).is_err());
    }

    #[test]
    fn what_is_not_there_is_left_out_with_its_file() {
        let names = ["linux-0.1", "sheaf-6.18"].map(str::to_owned);
        let events = Events::find(Some(Path::new("/no/such")), Scope::Tree);
        let mut out = Vec::new();
        let guests = Some(Path::new("/no/such"));
        assert_eq!(find(&names, &events, guests, &mut out).unwrap().len(), 1);
        let said = String::from_utf8(out).unwrap();
        assert!(
            said.starts_with("linux-0.1: left out: there is no /no/such/0.1/vmlinuz"),
            "{said}"
        );
    }

    #[test]
    fn what_the_kernel_refuses_is_left_out_with_one_line() {
        let names = ["kernel", "kernel-fraction-8", "kernel-uncounted", "sheaf-6.18"];
        let events = Events::find(Some(Path::new("/no/such")), Scope::Tree);
        let mut out = Vec::new();
        let found = find(&names.map(str::to_owned), &events, None, &mut out).unwrap();
        let left: Vec<&str> = found.iter().map(|(_, variant)| variant.name.as_str()).collect();
        assert_eq!(left, ["kernel-uncounted", "sheaf-6.18"]);
        let said = String::from_utf8(out).unwrap();
        assert!(said.starts_with("kernel: left out: no tracefs") && said.lines().count() == 1);
    }
}
