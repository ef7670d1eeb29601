//! Writes man pages from the definition of the command line, and the files by which shells ask for
//! completions.
//!
//! `manual/sections.roff` has the sections that the definition lacks. A line `.\" page NAME` comes
//! before the sections of the page NAME.

use crate::completions::VARIABLE;
use anyhow::Context;
use clap::Command;
use clap_complete::env::Shells;
use quarry_mm::heap::options::all_options;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const SECTIONS: &str = include_str!("../manual/sections.roff");
const LIBRARY_PAGE: &str = include_str!("../manual/libquarry.7");
/// The foot of each page.
const SOURCE: &str = concat!("quarry ", env!("CARGO_PKG_VERSION"));
/// The line of [`LIBRARY_PAGE`] that the list of the library's options replaces.
const OPTIONS_MARK: &str = ".\\\" options\n";

/// Write man pages and completions for bash, zsh and fish.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct PagesArgs {
    /// Folder that gets `man`, `bash`, `zsh` and `fish`.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes all pages and completions.
///
/// # Errors
/// A page that cannot be written, and the reason.
pub fn write(args: &PagesArgs, command: Command) -> anyhow::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    let man = folder(&args.folder, "man")?;
    write_manual(&man, &command).with_context(|| man.display().to_string())?;
    if name == "quarry" {
        fs::write(man.join("libquarry.7"), LIBRARY_PAGE.replace(OPTIONS_MARK, &options()))?;
    }
    // Each shell looks for a file of this name.
    for (shell, file) in
        [("bash", name.clone()), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
    {
        let mut script = Vec::new();
        let shells = Shells::builtins();
        let writer = shells.completer(shell).context("clap_complete knows the shell")?;
        writer.write_registration(VARIABLE, &name, &name, &name, &mut script)?;
        let place = folder(&args.folder, shell)?.join(file);
        fs::write(&place, script).with_context(|| place.display().to_string())?;
    }
    Ok(())
}

fn folder(base: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let place = base.join(name);
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    Ok(place)
}

/// Writes the pages of a command and its subcommands: `quarry-lab-run.1`.
fn write_manual(folder: &Path, command: &Command) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let title = name.to_uppercase();
    let page = clap_mangen::Man::new(command.clone()).title(title).manual("Quarry").source(SOURCE);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    write!(text, "{}", sections(&name))?;
    fs::write(folder.join(format!("{name}.1")), text)?;
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    shown.into_iter().try_for_each(|it| write_manual(folder, it))
}

/// The sections EXAMPLES, ENVIRONMENT, EXIT STATUS and SEE ALSO of a page: those written for this
/// page and, for each one that is missing, the usual section.
fn sections(page: &str) -> String {
    let of = |page: &str| {
        let mut parts = SECTIONS.split(".\\\" page ").filter_map(|part| part.split_once('\n'));
        parts.find(|(name, _)| *name == page).map_or("", |(_, text)| text)
    };
    let (own, usual) = match page.strip_prefix("quarry-lab-run-") {
        Some(experiment) => ("", of("experiment").replace("NAME", experiment)),
        None => (of(page), of("any").to_owned()),
    };
    let head = |section: &str| section.lines().next().unwrap_or_default().to_owned();
    let parts = |text| str::split(text, ".SH ").filter(|it| !it.trim().is_empty());
    let is_missing = |section: &&str| parts(own).all(|it| head(it) != head(section));
    parts(own).chain(parts(&usual).filter(is_missing)).map(|it| format!(".SH {it}")).collect()
}

/// The options of the library as a list of variables.
fn options() -> String {
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let item = |[name, meaning, accepted]: [String; 3]| {
        format!(".TP\n\\fBQUARRY_{name}\\fR\n{meaning} ({accepted})\n")
    };
    all_options().map(|it| item([it.name, it.meaning, it.accepted].map(escaped))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_library_has_every_option() {
        assert!(LIBRARY_PAGE.contains(OPTIONS_MARK));
        let count = options().matches(".TP").count();
        assert_eq!(count, all_options().count());
    }

    #[test]
    fn a_page_has_its_own_sections_and_the_usual_ones() {
        for (page, own) in [("quarry-run", "127"), ("quarry-lab-run", "EXAMPLES"), ("x", "")] {
            let text = sections(page);
            for head in [".SH ENVIRONMENT", ".SH EXIT STATUS", ".SH SEE ALSO", own] {
                assert_eq!(text.matches(head).count().min(1), 1, "{page}: {head}: {text}");
            }
            assert_eq!(text.matches(".SH EXIT STATUS").count(), 1, "{page}");
        }
    }
}
