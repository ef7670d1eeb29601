//! One query, on a thread inside a group of its own.

use crate::pool::GroupPool;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use quarry::{Group, GroupOptions};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A query and its limit.
pub struct Query {
    /// The name of its group.
    pub name: &'static str,
    /// Its text.
    pub sql: &'static str,
    /// The most that its group is meant to be charged.
    pub limit: usize,
    /// The table `t`, which belongs to no group.
    pub table: Arc<MemTable>,
}

/// The result of a query.
pub struct Outcome {
    /// Number of rows.
    pub rows: usize,
    /// The sum of all numbers in them.
    pub sum: u64,
    /// The reason why it failed.
    pub error: Option<String>,
    /// The most bytes that its group was charged.
    pub charged: usize,
    /// The most bytes that the engine has reserved.
    pub reserved: usize,
    /// CPU time of its thread.
    pub cpu: Duration,
    /// Charged and reserved bytes at each change of a reservation.
    pub samples: Vec<(usize, usize)>,
}

/// The table `t`: numbers, keys in disorder, and a text for each row.
pub fn table(rows: i64) -> Arc<MemTable> {
    const BATCH: i64 = 8192;
    let batch = |first: i64| {
        let ids = || first..(first + BATCH).min(rows);
        let key = |id: i64| id.wrapping_mul(7_368_787) % rows;
        let texts = ids().map(|id| format!("{:07} is the text of a row", key(id)));
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(ids().collect::<Int64Array>())),
            ("key", Arc::new(ids().map(key).collect::<Int64Array>())),
            ("value", Arc::new(ids().map(|id| id % 100).collect::<Int64Array>())),
            ("text", Arc::new(texts.map(Some).collect::<StringArray>())),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    };
    let batches: Vec<_> = (0..rows).step_by(BATCH as usize).map(batch).collect();
    Arc::new(MemTable::try_new(batches[0].schema(), vec![batches]).expect("one schema"))
}

fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    let ns = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.expect("the first word is nanoseconds"))
}

impl Query {
    /// Runs the query.
    pub fn run(self) -> Outcome {
        thread::spawn(move || self.run_here()).join().expect("a query fails by an error")
    }

    fn run_here(self) -> Outcome {
        let group = Group::new(self.name, &GroupOptions::default()).expect("few groups");
        let start = thread_time();
        let [of_pool, of_threads] = [(); 2].map(|()| Group::of(group.id()).expect("it exists"));
        let pool = Arc::new(GroupPool::new(self.name, of_pool, self.limit));
        let done = {
            let _inside = group.enter().expect("it exists");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_start(move || std::mem::forget(of_threads.enter()))
                .build()
                .expect("a runtime");
            runtime.block_on(self.collect(pool.clone()))
        };
        let samples = pool.samples();
        drop(pool);
        let (rows, sum) = *done.as_ref().unwrap_or(&(0, 0));
        let outcome = Outcome {
            rows,
            sum,
            error: done.err().map(|error| error.strip_backtrace()),
            charged: samples.iter().map(|it| it.0).max().unwrap_or(0),
            reserved: samples.iter().map(|it| it.1).max().unwrap_or(0),
            cpu: thread_time() - start,
            samples,
        };
        group.remove().expect("no thread is inside");
        outcome
    }

    async fn collect(&self, pool: Arc<GroupPool>) -> Result<(usize, u64)> {
        use futures::StreamExt;
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let config = SessionConfig::new().with_target_partitions(1);
        let context = SessionContext::new_with_config_rt(config, runtime);
        context.register_table("t", self.table.clone())?;
        let mut stream = context.sql(self.sql).await?.execute_stream().await?;
        let (mut rows, mut sum) = (0, 0u64);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            let numbers = batch.columns().iter().filter_map(|it| it.as_any().downcast_ref());
            sum = numbers.fold(sum, |sum, column: &Int64Array| {
                column.values().iter().fold(sum, |sum, number| sum.wrapping_add(*number as u64))
            });
        }
        Ok((rows, sum))
    }
}
