//! A run that `scripts/results.sh` has recorded in a page: its command, its machine, its tables.

use std::path::Path;
use std::process::Command;

/// A table of a recorded run.
#[derive(Debug)]
pub struct Table {
    /// The line above it.
    pub title: String,
    /// The cells of its head.
    pub head: Vec<String>,
    /// The cells of each row, the first one its name.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The cell of `row` below `column`.
    #[must_use]
    pub fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let index = self.head.iter().position(|cell| cell == column)?;
        let row = self.rows.iter().find(|cells| cells[0] == row)?;
        row.get(index).map(String::as_str)
    }
}

/// One command, run once.
#[derive(Debug)]
pub struct Run {
    /// The command, without the folder of its raw samples.
    pub command: String,
    /// The day of the run.
    pub date: String,
    /// The machine's number of CPUs and its processor.
    pub machine: String,
    /// Each allocator: its name in the tables, and its description.
    pub allocators: Vec<(String, String)>,
    /// The version of the C library.
    pub glibc: String,
    /// All tables.
    pub tables: Vec<Table>,
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

/// `page`, with each record that it links to in place of the link; `folder` is the page's folder.
///
/// # Errors
/// A record that cannot be read.
pub fn with_records(page: &str, folder: &Path) -> Result<String, String> {
    let mut whole = String::new();
    for line in page.lines() {
        let link =
            line.strip_prefix('[').and_then(|rest| rest.split_once("](")?.1.strip_suffix(')'));
        let Some(record) = link.filter(|target| target.ends_with(".txt.gz")) else {
            whole += &format!("{line}\n");
            continue;
        };
        let path = folder.join(record);
        let unpacked = Command::new("gzip").arg("-cd").arg(&path).output();
        let unpacked = unpacked.map_err(|error| format!("gzip: {error}"))?;
        if !unpacked.status.success() {
            return Err(String::from_utf8_lossy(&unpacked.stderr).into_owned());
        }
        whole += &String::from_utf8_lossy(&unpacked.stdout);
    }
    Ok(whole)
}

impl Run {
    /// Finds the block in `page` whose command begins with `command`.
    ///
    /// # Errors
    /// The part of the block that is missing.
    pub fn parse(page: &str, command: &str) -> Result<Self, String> {
        let mark = format!("<!-- run: {command}");
        let (_, rest) = page.split_once(&mark).ok_or_else(|| format!("no block '{mark}'"))?;
        let (block, _) = rest.split_once("<!-- end -->").ok_or("a block without an end")?;
        let lines: Vec<&str> = block.lines().skip(1).collect();
        let head = lines.first().and_then(|line| line.strip_prefix('`')?.strip_suffix(':'));
        let (whole, date) = head.and_then(|head| head.split_once("`, ")).ok_or("no date")?;
        let is_machine = |line: &&&str| line.contains(" CPUs (") || line.contains(" CPU (");
        let machine = lines.iter().find(is_machine).ok_or("no machine")?;
        let (cpus, system) = machine.split_once("), ").ok_or("no system beside the machine")?;
        let glibc = system.split("glibc ").nth(1).and_then(|rest| rest.split(',').next());
        let allocators = lines.iter().filter_map(|line| line.strip_prefix("* ")?.split_once(": "));
        Ok(Self {
            command: whole.split(" --").next().unwrap_or(whole).to_owned(),
            date: date.to_owned(),
            machine: format!("{cpus})"),
            glibc: glibc.ok_or("no version of glibc")?.to_owned(),
            allocators: allocators.map(|(name, is)| (name.to_owned(), is.to_owned())).collect(),
            tables: tables(&lines),
        })
    }

    /// The table whose first cell is `name`, or whose title begins with `name`.
    ///
    /// # Errors
    /// No table has this name.
    pub fn table(&self, name: &str) -> Result<&Table, String> {
        let found = |table: &&Table| table.head[0] == name || table.title.starts_with(name);
        self.tables.iter().find(found).ok_or_else(|| format!("no table '{name}'"))
    }

    /// The cell of `row` below `column` in the table `name`.
    ///
    /// # Errors
    /// The table has no such cell.
    pub fn cell(&self, name: &str, row: &str, column: &str) -> Result<&str, String> {
        let cell = self.table(name)?.cell(row, column);
        cell.ok_or_else(|| format!("no cell '{row}', '{column}' in the table '{name}'"))
    }

    /// The version of an allocator; `None` if the record has none. The C library's version is
    /// recorded by itself. Any other version is the last word of the part after the file's name, up
    /// to the first `-` or `+`, where Debian's additions begin: `2.10` of
    /// `libtcmalloc_minimal.so.4.5.10, libtcmalloc-minimal4 2.10-1`.
    #[must_use]
    pub fn version(&self, allocator: &str) -> Option<String> {
        if allocator == "glibc" {
            return Some(self.glibc.clone());
        }
        let (_, is) = self.allocators.iter().find(|(name, _)| name == allocator)?;
        let version = is.split(", ").nth(1)?.split(' ').next_back()?;
        version.split(['-', '+']).next().map(str::to_owned)
    }
}

/// The tables among `lines`. A line that is no row ends a table; the last text above is its title.
fn tables(lines: &[&str]) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut title = String::new();
    let mut in_table = false;
    for line in lines {
        let Some(row) = cells(line) else {
            in_table = false;
            if !line.is_empty() {
                title = (*line).to_owned();
            }
            continue;
        };
        let is_rule = row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-'));
        match tables.last_mut() {
            Some(table) if in_table && !is_rule => table.rows.push(row),
            _ if is_rule => {}
            _ => {
                tables.push(Table { title: std::mem::take(&mut title), head: row, rows: vec![] });
            }
        }
        in_table = true;
    }
    tables
}
