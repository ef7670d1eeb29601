//! `quarry lab doctor`: finds facts that make timings untrustworthy here, and names remedies.
//!
//! Every check looks at a `Patient`: the files below a root, and facts about this process. So tests
//! can present any machine. The checks that take time are in `measure`.

mod checks;
mod measure;
mod patient;

use crate::affinity;
use crate::table::counted;
use anyhow::{Result, bail};
use checks::examine;
pub use checks::{Finding, Severity};
use clap::Args;
use patient::Patient;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Say what makes timings untrustworthy on this machine, and the command that mends it.
///
/// The doctor changes nothing. In a virtual machine it says what cannot be seen or set from inside.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Fail if there is a warning or a serious finding.
    #[arg(long)]
    strict: bool,
}

#[derive(Serialize)]
struct Record<'a> {
    schema: &'static str,
    findings: &'a [Finding],
}

impl DoctorArgs {
    /// Looks at this machine for a little more than a second, and prints all findings to `out`,
    /// including the `further` ones of the caller.
    ///
    /// # Errors
    /// A warning or worse under `--strict`, or a failed write to `out`.
    pub fn run(
        self,
        library: Option<&Path>,
        further: impl IntoIterator<Item = Finding>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut patient = this_machine();
        patient.measured = measure::measure();
        if library.is_some_and(is_debug_library) {
            patient.debug_builds.push("libquarry.so");
        }
        let mut findings = examine(&patient);
        findings.extend(further);
        checks::sort(&mut findings);
        if self.json {
            let record = Record { schema: "quarry-doctor/1", findings: &findings };
            writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        } else {
            out.write_all(text(&findings, patient.hypervisor().is_some()).as_bytes())?;
        }
        let bad = findings.iter().filter(|it| it.severity > Severity::Note).count();
        if self.strict && bad > 0 {
            bail!("--strict: {} beside notes", counted(bad, "finding"));
        }
        Ok(())
    }
}

/// Returns a line for each finding but notes, for the results of a run; takes no measurable time.
pub fn brief() -> Vec<String> {
    let findings = examine(&this_machine());
    let matters = |finding: &&Finding| finding.severity > Severity::Note;
    let brief = |it: &Finding| format!("{}: {}: {}", it.severity.word(), it.about, it.seen);
    findings.iter().filter(matters).map(brief).collect()
}

fn this_machine() -> Patient {
    Patient {
        root: Path::new("/").to_owned(),
        allowed: affinity::allowed(),
        tunables: std::env::var("GLIBC_TUNABLES").unwrap_or_default(),
        glibc: crate::environment::glibc_version(),
        debug_builds: if cfg!(debug_assertions) { vec!["quarry"] } else { Vec::new() },
        measured: None,
    }
}

/// A library does not show its profile, but cargo's folder has the profile's name.
fn is_debug_library(library: &Path) -> bool {
    library.parent().and_then(Path::file_name).is_some_and(|name| name == "debug")
}

fn text(findings: &[Finding], is_virtual: bool) -> String {
    let mut text = String::new();
    for Finding { about, severity, seen, why, mend } in findings {
        text += &format!("{:<8} {about}: {seen}\n         {why}\n", severity.word());
        if !mend.is_empty() {
            text += &format!("         -> {mend}\n");
        }
    }
    let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let (serious, warnings) = (count(Severity::Serious), count(Severity::Warning));
    let (warned, noted) = (counted(warnings, "warning"), counted(count(Severity::Note), "note"));
    text += &format!("\n{serious} serious, {warned}, {noted}.\n");
    text + match (serious + warnings, is_virtual) {
        (_, true) => {
            "A virtual machine: ratios within one run can be trusted as far as their A/A copy \
             says; absolute times and the behaviour of many cores cannot.\n"
        }
        (0, false) => "Nothing that is known to distort timings.\n",
        (_, false) => "Mend these first, or quote only ratios with their A/A copy.\n",
    }
}

#[cfg(test)]
mod tests {
    use super::patient::tests::patient;
    use super::*;

    const VIRTUAL: (&str, &str) = ("proc/cpuinfo", "flags : hypervisor\n");
    const LAYOUT: (&str, &str) = ("proc/sys/kernel/randomize_va_space", "2\n");

    #[test]
    fn the_worst_comes_first_and_is_mended() {
        let (_folder, mut patient) = patient([VIRTUAL, LAYOUT]);
        patient.debug_builds = vec!["quarry"];
        let findings = examine(&patient);
        let severities: Vec<Severity> = findings.iter().map(|it| it.severity).collect();
        assert_eq!(severities, [Severity::Serious, Severity::Warning, Severity::Note]);
        let text = text(&findings, true);
        assert!(text.starts_with("serious  debug build: quarry\n"), "{text}");
        assert!(
            text.contains("\n         -> make build, and run target/release/quarry\n"),
            "{text}"
        );
        assert!(text.contains("1 serious, 1 warning, 1 note."), "{text}");
    }

    #[test]
    fn claims_are_lowered_in_a_virtual_machine() {
        let said = |file| {
            let (_folder, patient) = patient([file]);
            text(&examine(&patient), patient.hypervisor().is_some())
        };
        assert!(said(VIRTUAL).contains("absolute times and the behaviour of many cores cannot"));
        assert!(said(LAYOUT).contains("Nothing that is known to distort timings"));
    }

    #[test]
    fn debug_libraries_are_told_by_their_folder() {
        assert!(is_debug_library(Path::new("target/debug/libquarry.so")));
        assert!(!is_debug_library(Path::new("target/release/libquarry.so")));
    }

    #[test]
    fn this_machine_is_examined_without_notes() {
        assert!(brief().iter().all(|line| !line.starts_with("note")), "{:?}", brief());
    }
}
