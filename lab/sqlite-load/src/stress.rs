//! Threads that write and read concurrently, each its own rows, while the budget changes. One
//! database has a rollback journal, the other a write-ahead log. The threads print each commit as a
//! line, for the test that kills the process.

use crate::api::{Api, plain};
use crate::connection::{Connection, SqlError};
use crate::random::{Random, mixed};
use crate::variant::Variant;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

#[derive(Args)]
pub(crate) struct Stress {
    /// The page cache.
    #[arg(value_enum)]
    variant: Variant,
    /// A folder for the databases; those that are there go on growing.
    folder: PathBuf,
    /// Number of threads.
    #[arg(long, default_value = "4")]
    threads: usize,
    /// Transactions of each thread.
    #[arg(long, default_value = "50")]
    rounds: u64,
    /// Bytes of all page caches together.
    #[arg(long, default_value = "67108864")]
    budget: u64,
    /// Halves the budget down to an eighth and lifts it, again and again while the threads work.
    #[arg(long)]
    halve: bool,
    /// Only checks what is there.
    #[arg(long)]
    check: bool,
    /// Seed of the random numbers; equal seeds make runs alike.
    #[arg(long, default_value = "1")]
    seed: u64,
}

const ROWS: u64 = 40;
/// The databases; all threads write to each.
const DATABASES: [(&str, &str); 2] = [("journal.db", "DELETE"), ("wal.db", "WAL")];

impl Stress {
    pub(crate) fn run(self) -> Result<()> {
        let api = plain();
        self.variant.set_up(api, self.budget)?;
        if self.check {
            return self.check_all(api);
        }
        for (name, journal) in DATABASES {
            let connection = open(api, &self.folder.join(name))?;
            connection.text(&format!("PRAGMA journal_mode = {journal}"))?;
            connection.run(
                "CREATE TABLE IF NOT EXISTS t (
                     thread INTEGER, round INTEGER, row INTEGER, value BLOB,
                     PRIMARY KEY (thread, round, row)
                 );
                 CREATE TABLE IF NOT EXISTS done (thread INTEGER, round INTEGER)",
            )?;
        }
        let running = AtomicUsize::new(self.threads);
        thread::scope(|scope| -> Result<()> {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (this, running) = (&self, &running);
                    scope.spawn(move || {
                        let done = this.write(api, thread);
                        running.fetch_sub(1, Relaxed);
                        done
                    })
                })
                .collect();
            while self.halve && running.load(Relaxed) > 0 {
                self.halve_once(api)?;
            }
            threads.into_iter().try_for_each(|it| it.join().expect("no thread panics"))
        })?;
        self.check_all(api)
    }

    /// Sets the limit to the budget, its half, quarter and eighth, each while a few statements run.
    fn halve_once(&self, api: &'static Api) -> Result<()> {
        let connection = open(api, Path::new(":memory:"))?;
        for part in [1, 2, 4, 8] {
            let limit = usize::try_from(self.budget / part)?;
            quarry::Quarry::set_limit(limit)?;
            let _ = connection.run(
                "CREATE TABLE IF NOT EXISTS m AS SELECT zeroblob(100000) AS value;
                 INSERT INTO m SELECT value FROM m LIMIT 8; DELETE FROM m;
                 INSERT INTO m VALUES (zeroblob(100000))",
            );
        }
        quarry::Quarry::set_limit(usize::try_from(self.budget)?)?;
        Ok(())
    }

    fn write(&self, api: &'static Api, thread: usize) -> Result<()> {
        let mut random = Random::new(mixed(self.seed) ^ thread as u64);
        let [first, second] = DATABASES.map(|(name, _)| open(api, &self.folder.join(name)));
        let connections = [first?, second?];
        let mut out = stdout();
        for _ in 0..self.rounds {
            let which = random.below(2) as usize;
            let connection = &connections[which];
            let sql = format!("SELECT count(*) FROM done WHERE thread = {thread}");
            let round = connection.integer(&sql)?;
            match transaction(connection, thread, round, &mut random) {
                Ok(true) => writeln!(out, "{} {thread} {round}", DATABASES[which].0)?,
                Ok(false) => {}
                // An eighth of the budget may be too small for all threads at once.
                Err(error) if self.halve && error.is_no_memory() => {
                    let _ = connection.run("ROLLBACK");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn check_all(&self, api: &'static Api) -> Result<()> {
        for (name, _) in DATABASES {
            let connection = open(api, &self.folder.join(name))?;
            connection.check().with_context(|| name.to_owned())?;
            let rounds = connection.integer("SELECT count(*) FROM done")?;
            let mut statement = connection.prepare("SELECT thread, round, row, value FROM t")?;
            let mut rows = 0;
            while statement.step()? {
                let (thread, round) = (statement.integer(0) as usize, statement.integer(1));
                let row = statement.integer(2) as u64;
                let right = statement.blob(3) == value(thread, round, row);
                ensure!(right, "{name}: thread {thread}, round {round}, row {row} is wrong");
                rows += 1;
            }
            ensure!(rows == rounds * ROWS as i64, "{name}: {rows} rows of {rounds} rounds");
            println!("{name}: {rounds} transactions, sound");
        }
        Ok(())
    }
}

fn open(api: &'static Api, file: &Path) -> Result<Connection> {
    let connection = Connection::create(api, file).map_err(|error| anyhow!(error))?;
    // The timeout comes first, because even a statement that only reads the schema may find the
    // file locked. It is long, because a preempted thread holds its lock long, but not for ever.
    connection.run(&format!("PRAGMA busy_timeout = {}", i32::MAX))?;
    // Data must survive a crash of the process, which needs no flush of the disk.
    connection.run("PRAGMA synchronous = OFF")?;
    connection.run("PRAGMA cache_size = 20; PRAGMA cache_spill = 10")?;
    Ok(connection)
}

/// Runs a transaction; one in eight is rolled back. Returns whether it was committed.
fn transaction(
    connection: &Connection,
    thread: usize,
    round: i64,
    random: &mut Random,
) -> Result<bool, SqlError> {
    connection.run("BEGIN IMMEDIATE")?;
    insert(connection, thread, round)?;
    connection.run("SAVEPOINT s")?;
    let sql = format!("DELETE FROM t WHERE thread = {thread} AND row % 3 = 0");
    connection.run(&sql)?;
    connection.run("ROLLBACK TO s")?;
    let is_kept = random.below(8) > 0;
    connection.run(if is_kept { "COMMIT" } else { "ROLLBACK" })?;
    Ok(is_kept)
}

fn insert(connection: &Connection, thread: usize, round: i64) -> Result<(), SqlError> {
    let mut insert = connection.prepare("INSERT INTO t VALUES (?1, ?2, ?3, ?4)")?;
    for row in 0..ROWS {
        insert.bind(1, thread as i64);
        insert.bind(2, round);
        insert.bind(3, row as i64);
        insert.bind_blob(4, &value(thread, round, row));
        while insert.step()? {}
        insert.reset();
    }
    connection.run(&format!("INSERT INTO done VALUES ({thread}, {round})"))
}

/// The bytes of a row, which follow from thread, round and row; some rows need overflow pages.
fn value(thread: usize, round: i64, row: u64) -> Vec<u8> {
    let seed = mixed((thread as u64) << 48 ^ (round as u64) << 16 ^ row);
    let length = 16 + seed % 700 + if row.is_multiple_of(13) { 9000 } else { 0 };
    (0..length).map(|place| (seed >> (place % 8 * 8)) as u8 ^ place as u8).collect()
}
