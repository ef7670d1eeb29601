//! The variants: the running kernel, counted or not, with its own or other settings, and stacks.

use crate::witness::tracepoints::{Events, Refusal};
use anyhow::{Result, bail};
use quarry_harness::options;
use quarry_harness::results::Variant;
use quarry_harness::usage::Usage;
use quarry_replay::policies::Policies;
use std::fs::File;
use std::io::Write;
use std::path::Path;

pub(super) const KERNEL: &str = "kernel";
pub(super) const UNCOUNTED: &str = "kernel-uncounted";
/// The running kernel, counted, with another share of memory for the per-CPU page lists.
const FRACTION: &str = "kernel-fraction-";
/// The setting of that share: the lists of all CPUs together hold up to a zone's pages divided by
/// this number; 0 = up to its low watermark.
pub(super) const FRACTION_FILE: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";

#[derive(Clone)]
pub(super) enum Contender {
    Kernel {
        counted: bool,
        /// The value of [`FRACTION_FILE`] during a sample.
        fraction: Option<u32>,
    },
    Stack(Policies),
}

impl Contender {
    fn named(name: &str) -> Result<Self> {
        let kernel = |counted, fraction| Self::Kernel { counted, fraction };
        if let Some(number) = name.strip_prefix(FRACTION) {
            return match number.parse() {
                // The kernel accepts only 0 below 8.
                Ok(number @ 8..) => Ok(kernel(true, Some(number))),
                _ => bail!(Usage(format!("--variants {name}: accepted are numbers from 8 on"))),
            };
        }
        Ok(match name {
            KERNEL => kernel(true, None),
            UNCOUNTED => kernel(false, None),
            _ => match name.parse() {
                Ok(policies) => Self::Stack(policies),
                Err(error) => bail!(Usage(format!(
                    "--variants: {error}; or {KERNEL}, {UNCOUNTED}, {FRACTION}N"
                ))),
            },
        })
    }

    fn about(&self) -> String {
        match self {
            Self::Kernel { counted: false, .. } => "the running kernel, nothing counts".to_owned(),
            Self::Kernel { fraction: None, .. } => {
                "the running kernel, tracepoints count".to_owned()
            }
            Self::Kernel { fraction: Some(number), .. } => {
                format!("the same with vm.percpu_pagelist_high_fraction={number}")
            }
            Self::Stack(policies) => format!("{}, on a stack of its own", policies.in_full()),
        }
    }
}

/// The variants of `names` that this machine allows. Prints a line for each other variant.
///
/// # Errors
/// A name is unknown.
pub(super) fn find(
    names: &[String],
    events: &Result<Events, Refusal>,
    out: &mut dyn Write,
) -> Result<Vec<(Contender, Variant)>> {
    let mut found = Vec::new();
    let mut is_told = false;
    for (index, name) in names.iter().enumerate() {
        options::check_once(names, index)?;
        let contender = Contender::named(name)?;
        if let (Contender::Kernel { counted: true, .. }, Err(refusal)) = (&contender, events) {
            if !is_told {
                writeln!(out, "{name}: left out: {refusal}")?;
            }
            is_told = true;
            continue;
        }
        if let Contender::Kernel { fraction: Some(_), .. } = contender
            && let Err(error) = File::options().write(true).open(Path::new(FRACTION_FILE))
        {
            writeln!(out, "{name}: left out: {FRACTION_FILE}: {error}; run as root")?;
            continue;
        }
        let about = contender.about();
        found.push((contender, Variant::new(name, &about)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::tracepoints::Scope;

    #[test]
    fn names_are_kernels_or_policies() {
        let fraction = |name| match Contender::named(name) {
            Ok(Contender::Kernel { fraction, .. }) => fraction,
            _ => None,
        };
        assert_eq!(fraction("kernel-fraction-8"), Some(8));
        assert_eq!(fraction("kernel"), None);
        for wrong in ["kernel-fraction-7", "kernel-fraction-", "kernels", "sheaf+v5"] {
            assert!(Contender::named(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Contender::named("sheaf-6.18"), Ok(Contender::Stack(_))));
    }

    #[test]
    fn what_the_kernel_refuses_is_left_out_with_one_line() {
        let names = ["kernel", "kernel-fraction-8", "kernel-uncounted", "sheaf-6.18"];
        let events = Events::find(Some(Path::new("/no/such")), Scope::Tree);
        let mut out = Vec::new();
        let found = find(&names.map(str::to_owned), &events, &mut out).unwrap();
        let left: Vec<&str> = found.iter().map(|(_, variant)| variant.name.as_str()).collect();
        assert_eq!(left, ["kernel-uncounted", "sheaf-6.18"]);
        let said = String::from_utf8(out).unwrap();
        assert!(said.starts_with("kernel: left out: no tracefs") && said.lines().count() == 1);
    }
}
