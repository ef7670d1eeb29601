//! Look-ups by key in many databases, some of which are hot: the experiments `sqlite-budget` and
//! `sqlite-hot`.

use crate::connection::{Connection, Statement};
use crate::databases::{LOOKUP, VALUE_BYTES, file_of, mixed, value};
use crate::device;
use crate::histogram::Histogram;
use crate::memory::resident;
use crate::variant::Variant;
use crate::zipf::{Random, Zipf, orders};
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct Lookups {
    /// The page cache.
    #[arg(value_enum)]
    variant: Variant,
    /// Where `create` has put the databases.
    folder: PathBuf,
    /// Number of databases.
    #[arg(long, default_value = "256")]
    databases: usize,
    /// Number of threads. Each asks its share of the databases.
    #[arg(long, default_value = "1")]
    threads: usize,
    /// Every thread asks all databases, by connections of its own.
    #[arg(long)]
    all: bool,
    /// Bytes of all page caches together.
    #[arg(long, default_value = "268435456")]
    budget: u64,
    /// Look-ups of each thread.
    #[arg(long, default_value = "400000")]
    lookups: u64,
    /// Look-ups of each thread before the counted ones.
    #[arg(long, default_value = "100000")]
    warm_up: u64,
    /// Every thread reads every row of its databases once before its look-ups.
    #[arg(long)]
    scan: bool,
    /// Number of phases. Each has another order of the databases' popularity.
    #[arg(long, default_value = "4")]
    phases: usize,
    /// The exponent of the Zipf distribution over databases.
    #[arg(long, default_value = "0.99")]
    theta: f64,
    /// Time of the device for a page, in microseconds.
    #[arg(long, default_value = "50")]
    latency_us: u64,
    /// One look-up in this many is timed.
    #[arg(long, default_value = "1")]
    time_every: u64,
    /// Seed of the random numbers; equal seeds make runs alike.
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Serialize)]
pub(crate) struct Figures {
    lookups: u64,
    ns: u64,
    per_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    longest_ns: u64,
    /// Pages that SQLite read from files during the look-ups.
    page_reads: u64,
    header_reads: u64,
    budget: u64,
    /// Resident bytes before the set-up, and at the peak.
    base_rss: u64,
    peak_rss: u64,
    /// How far the peak exceeds the sum of `base_rss` and `budget`.
    overshoot: u64,
    /// A checksum of the last 8 bytes of every row that was looked up, the same for each variant.
    checksum: u64,
    /// Rows whose bytes were exactly the stored ones: all, in a right run.
    verified: u64,
}

struct Share {
    times: Histogram,
    start: Instant,
    end: Instant,
    checksum: u64,
    verified: u64,
}

struct Opened {
    connection: Connection,
    rows: i64,
}

impl Lookups {
    pub(crate) fn run(self) -> Result<Figures> {
        ensure!(self.databases >= 1 && self.threads >= 1 && self.phases >= 1, "at least one");
        ensure!(self.all || self.databases >= self.threads, "a thread without a database");
        let base_rss = resident().now;
        self.variant.set_up(self.budget)?;
        device::install(self.variant.api());
        let barrier = Barrier::new(self.threads + 1);
        let (shares, before) = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (this, barrier) = (&self, &barrier);
                    scope.spawn(move || this.share(thread, barrier))
                })
                .collect();
            barrier.wait();
            let before = device::reads();
            barrier.wait();
            let shares = threads.into_iter().map(|it| it.join().expect("no thread panics"));
            (shares.collect::<Result<Vec<Share>>>(), before)
        });
        let shares = shares?;
        Ok(self.figures(&shares, before, base_rss))
    }

    fn figures(&self, shares: &[Share], before: (u64, u64), base_rss: u64) -> Figures {
        let mut times = Histogram::new();
        shares.iter().for_each(|share| times.merge(&share.times));
        let start = shares.iter().map(|share| share.start).min().expect("a thread");
        let end = shares.iter().map(|share| share.end).max().expect("a thread");
        let ns = (end - start).as_nanos() as u64;
        let lookups = self.lookups * self.threads as u64;
        let (memory, (page_reads, header_reads)) = (resident(), device::reads());
        Figures {
            lookups,
            ns,
            per_second: lookups as f64 * 1e9 / ns as f64,
            p50_ns: times.quantile(0.5),
            p99_ns: times.quantile(0.99),
            p999_ns: times.quantile(0.999),
            longest_ns: times.most(),
            page_reads: page_reads - before.0,
            header_reads: header_reads - before.1,
            budget: self.budget,
            base_rss,
            peak_rss: memory.peak,
            overshoot: memory.peak.saturating_sub(base_rss + self.budget),
            checksum: shares.iter().fold(0, |sum, share| sum ^ share.checksum),
            verified: shares.iter().map(|share| share.verified).sum(),
        }
    }

    fn databases_of(&self, thread: usize) -> Vec<usize> {
        (0..self.databases).filter(|it| self.all || it % self.threads == thread).collect()
    }

    fn open(&self, database: usize) -> Result<Opened> {
        let file = file_of(&self.folder, database);
        let connection = Connection::existing(self.variant.api(), &file)
            .map_err(|error| anyhow!("{}: {error}; `create` makes it", file.display()))?;
        let each = if self.all { self.threads } else { 1 };
        let connections = (self.databases * each) as u64;
        if let Some(pages) = self.variant.cache_size(self.budget, connections) {
            connection.run(&format!("PRAGMA cache_size = {pages}"))?;
        }
        // All look-ups of a connection are in one read transaction, so file locks are not measured.
        connection.run("BEGIN")?;
        let rows = connection.integer("SELECT max(id) FROM rows")?;
        ensure!(rows > 0, "{}: no rows", file.display());
        Ok(Opened { connection, rows })
    }

    /// Does the work of one thread. It passes the barrier twice even after an error, because other
    /// threads wait there.
    fn share(&self, thread: usize, barrier: &Barrier) -> Result<Share> {
        let databases = self.databases_of(thread);
        let opened: Result<Vec<Opened>> = databases.iter().map(|it| self.open(*it)).collect();
        let asker = match &opened {
            Ok(opened) => self.warm_up(thread, &databases, opened),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        barrier.wait();
        device::set_latency(Duration::from_micros(self.latency_us));
        barrier.wait();
        asker?.ask(self.lookups)
    }

    fn warm_up<'c>(
        &'c self,
        thread: usize,
        databases: &'c [usize],
        opened: &'c [Opened],
    ) -> Result<Asker<'c>> {
        let connections = || opened.iter().map(|it| &it.connection);
        if self.scan {
            let scan = "SELECT sum(length(value)) FROM rows";
            connections().try_for_each(|it| it.integer(scan).map(drop))?;
        }
        let statements = connections().map(|it| it.prepare(LOOKUP)).collect::<Result<_, _>>()?;
        let mut asker = Asker {
            load: self,
            databases,
            opened,
            statements,
            zipf: Zipf::new(databases.len(), self.theta),
            random: Random::new(mixed(self.seed) ^ thread as u64),
            thread: thread as u64,
        };
        asker.ask(self.warm_up)?;
        Ok(asker)
    }
}

struct Asker<'c> {
    load: &'c Lookups,
    databases: &'c [usize],
    opened: &'c [Opened],
    statements: Vec<Statement<'c>>,
    zipf: Zipf,
    random: Random,
    thread: u64,
}

impl Asker<'_> {
    fn ask(&mut self, lookups: u64) -> Result<Share> {
        let places: Vec<usize> = (0..self.databases.len()).collect();
        let orders = orders(&places, self.load.phases, self.load.seed ^ self.thread << 32);
        let (mut times, mut checksum, mut verified) = (Histogram::new(), 0u64, 0);
        let start = Instant::now();
        for number in 0..lookups {
            let phase = (number * self.load.phases as u64 / lookups) as usize;
            let place = orders[phase][self.zipf.draw(&mut self.random)];
            let id = 1 + self.random.below(self.opened[place].rows as u64) as i64;
            let is_timed = number % self.load.time_every == 0;
            let before = is_timed.then(Instant::now);
            let statement = &mut self.statements[place];
            statement.reset();
            statement.bind(1, id);
            ensure!(statement.step()?, "row {id} is there");
            let bytes = statement.blob(0);
            if let Some(before) = before {
                times.add(before.elapsed().as_nanos() as u64);
            }
            let expected = value(self.databases[place], id);
            ensure!(bytes == expected, "database {}: row {id} is wrong", self.databases[place]);
            let word = bytes[VALUE_BYTES - 8..].try_into().expect("eight bytes");
            checksum = mixed(checksum ^ u64::from_le_bytes(word));
            verified += 1;
        }
        Ok(Share { times, start, end: Instant::now(), checksum, verified })
    }
}
