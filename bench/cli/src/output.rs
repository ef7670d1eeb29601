//! Standard output of a command.

use crate::exit_status::{report, say};
use std::io::{self, Write};

/// Standard output; its errors name it.
pub struct Output(pub io::Stdout);

impl Output {
    fn named(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("standard output: {error}"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            // The caller tries again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            written => written.map_err(Self::named),
        }
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

/// Prints help, the version or an error of the command line; returns the exit status.
pub fn print_of_parser(error: &clap::Error) -> i32 {
    if error.exit_code() != 0 {
        // The status is the same whether or not the message could be printed.
        let text = error.render().to_string().replace("\n  [possible values: ", ": accepted: [");
        say(format_args!("{}", text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
        return error.exit_code();
    }
    let printed = error.print().and_then(|()| io::stdout().flush()).map_err(Output::named);
    report(printed.map_err(anyhow::Error::from))
}
