//! Writes man pages and shell completions from the definition of the command line.

use anyhow::Context;
use clap::Command;
use clap_complete::{Shell, generate_to};
use std::fs;
use std::path::{Path, PathBuf};

const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

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
    let mut command = without_hidden(command);
    command.build();
    let name = command.get_name().to_owned();
    let man = folder(&args.folder, "man")?;
    write_manual(&man, &command).with_context(|| man.display().to_string())?;
    for (shell, its) in SHELLS {
        let place = folder(&args.folder, its)?;
        generate_to(shell, &mut command, &name, &place)
            .with_context(|| place.display().to_string())?;
    }
    // Bash looks for a completion file with the name of the command.
    let bash = args.folder.join("bash");
    fs::rename(bash.join(format!("{name}.bash")), bash.join(&name)).context("bash")
}

fn folder(base: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let place = base.join(name);
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    Ok(place)
}

/// Returns the command without hidden subcommands, which clap's generators would list.
fn without_hidden(command: Command) -> Command {
    let shown: Vec<Command> = command
        .get_subcommands()
        .filter(|it| !it.is_hide_set())
        .cloned()
        .map(without_hidden)
        .collect();
    // clap wants static names; the leak lasts as long as the program.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut bare = Command::new(name).args(command.get_arguments().cloned().collect::<Vec<_>>());
    if command.get_version().is_some() {
        bare = bare.version(env!("CARGO_PKG_VERSION"));
    }
    if let Some(about) = command.get_about() {
        bare = bare.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        bare = bare.long_about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        bare = bare.after_help(help.clone());
    }
    bare.subcommands(shown).disable_help_subcommand(true)
}

/// Writes the pages of a command and its subcommands: `quarry-lab-run.1`.
fn write_manual(folder: &Path, command: &Command) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let title = name.to_uppercase();
    let page = clap_mangen::Man::new(command.clone()).title(title).manual("Quarry");
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)?;
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    shown.into_iter().try_for_each(|it| write_manual(folder, it))
}
