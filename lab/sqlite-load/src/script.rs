//! Runs SQL and prints the answers, to compare page caches.

use crate::api::plain;
use crate::connection::{Connection, Statement};
use crate::variant::Variant;
use anyhow::{Context, Result};
use clap::Args;
use libsqlite3_sys as ffi;
use std::fs;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Script {
    /// The page cache.
    #[arg(value_enum)]
    variant: Variant,
    /// The database, `:memory:`, or `temporary`.
    database: PathBuf,
    /// The SQL.
    file: PathBuf,
    /// Bytes of all page caches together.
    #[arg(long, default_value = "268435456")]
    budget: u64,
}

impl Script {
    /// Runs the script. If a statement fails, prints its error as its answer and goes on.
    pub(crate) fn run(self) -> Result<()> {
        let name = self.file.display().to_string();
        let text = fs::read_to_string(&self.file).context(name)?;
        self.variant.set_up(plain(), self.budget)?;
        let mut out = BufWriter::new(stdout().lock());
        {
            // SQLite takes an empty name for a temporary database.
            let is_temporary = self.database == Path::new("temporary");
            let database = if is_temporary { Path::new("") } else { &self.database };
            let connection = Connection::create(plain(), database)?;
            answer(&connection, &text, &mut out)?;
        }
        Ok(out.flush()?)
    }
}

pub(crate) fn answer(connection: &Connection, text: &str, out: &mut dyn Write) -> Result<()> {
    let mut rest = text;
    while !rest.trim_start().is_empty() {
        match connection.prepare_first(rest) {
            Ok((mut statement, after)) => {
                rest = after;
                if !statement.is_empty() {
                    rows(&mut statement, out)?;
                }
            }
            Err(error) => {
                writeln!(out, "{error}")?;
                // After a statement that cannot be parsed, the script continues in the next line.
                rest = rest.trim_start();
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
            }
        }
    }
    Ok(())
}

fn rows(statement: &mut Statement<'_>, out: &mut dyn Write) -> Result<()> {
    loop {
        match statement.step() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Ok(writeln!(out, "{error}")?),
        }
        let columns: Vec<String> =
            (0..statement.columns()).map(|column| cell(statement, column)).collect();
        writeln!(out, "{}", columns.join("|"))?;
    }
}

fn cell(statement: &Statement<'_>, column: i32) -> String {
    match statement.kind(column) {
        ffi::SQLITE_NULL => "NULL".to_owned(),
        ffi::SQLITE_BLOB => {
            statement.blob(column).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        _ => statement.text(column),
    }
}
