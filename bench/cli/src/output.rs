//! The command line, and standard output.

use crate::exit_status::{report, say};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Parser};
use quarry_harness::nearest;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::exit;

/// Standard output; its error messages name it.
pub struct Output(pub io::Stdout);

impl Output {
    fn named(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("standard output: {error}"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(Self::named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(Self::named)
    }
}

/// The width of the terminal, if standard output is one.
pub fn columns() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Parses the words of the command line, the first of which is the program's name. If they ask for
/// help or are wrong, prints the help or the error and exits; the error of an unknown command names
/// all commands.
pub fn parse<P: Parser>(words: Vec<OsString>) -> P {
    let mut command = P::command();
    let mut parsed = read(&mut command, &words);
    if parsed.is_err() {
        let mut whole = P::command();
        // Builds the subcommands that clap otherwise builds only when they are used.
        whole.build();
        command = with_negative_values(whole);
        parsed = read(&mut command, &words);
    }
    parsed.unwrap_or_else(|error| exit(refuse(&command, &words, &error)))
}

fn read<P: Parser>(command: &mut Command, words: &[OsString]) -> Result<P, clap::Error> {
    let matches = command.try_get_matches_from_mut(words)?;
    find_empty(command, &matches)?;
    P::from_arg_matches(&matches)
}

/// Reads the `-5` of `--pid -5` as the option's value, so that the error names what is accepted.
fn with_negative_values(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        arg.allow_negative_numbers(takes)
    });
    command.mut_subcommands(with_negative_values)
}

/// Refuses an empty value of an option: later errors would quote nothing.
fn find_empty(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let values = |arg: &Arg| matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
    let is_empty = |arg: &&Arg| values(arg).is_some_and(|mut it| it.any(OsStr::is_empty));
    if let Some(arg) = command.get_opts().find(is_empty) {
        let text = format!("--{} is empty; accepted: {arg}\n", arg.get_long().unwrap_or_default());
        return Err(clap::Error::raw(ErrorKind::InvalidValue, text));
    }
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    command.find_subcommand(name).map_or(Ok(()), |command| find_empty(command, matches))
}

fn refuse(command: &Command, words: &[OsString], error: &clap::Error) -> i32 {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return print_of_parser(error);
    };
    let words = words.iter().skip(1);
    let command = words.fold(command, |it, word| it.find_subcommand(word).unwrap_or(it));
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let names: Vec<&str> = shown.map(Command::get_name).collect();
    let noun = command.get_subcommand_value_name().unwrap_or("command");
    report(Err(nearest::unknown(noun, name, &names)))
}

/// Prints help, the version or an error of the command line; returns the exit status.
fn print_of_parser(error: &clap::Error) -> i32 {
    let status = error.exit_code();
    if status == 0 || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let printed = error.print().and_then(|()| io::stdout().flush()).map_err(Output::named);
        return status.max(report(printed.map_err(anyhow::Error::from)));
    }
    let mut text = error.render().to_string();
    if let Some((before, rest)) = text.split_once("\n  [possible values: ") {
        text = format!("{before}: accepted: {}", rest.replacen(']', "", 1));
    }
    // The status is the same whether or not the message could be printed.
    say(format_args!("{}", text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
    status
}
