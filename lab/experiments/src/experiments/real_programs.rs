//! `real-programs`: well-known programs, each with a fixed amount of work.

use super::cast::Cast;
use super::malloc_patterns::HUGE;
use super::plan::*;
use crate::ready_program::{ReadyProgram, ReadyPrograms};
use crate::real_programs::ALL;
use quarry_harness::table::{self, Entry, Table, words};
use std::rc::Rc;

/// Eight real programs, each with a fixed amount of work, on several allocators.
///
/// redis, memcached and nginx are servers. The allocator is preloaded into the server alone;
/// clients inside this command talk to it over a unix socket, by eight connections that are opened
/// four times. CPython, gcc, sqlite, lua and z3 run a script or file to its end. Every reply
/// is compared with the right one; what a program prints is compared with a run on glibc and with
/// the known result. A sample with a wrong result has failed, and is never averaged. For an absent
/// program the command names Debian's package.
///
/// Time is the CPU time of all processes of a program, because other programs lengthen CPU time
/// least. Further figures are peak RSS, page faults and huge pages (counted while memory grows),
/// wall-clock time or, for servers, requests per second, and the memory that servers hold when
/// their clients have left. Every sample is a fresh process and proves which allocator served it.
/// Allocators are interleaved in randomised complete blocks, and a second copy of the baseline
/// (A/A) shows the noise.
#[derive(Args)]
pub(super) struct RealPrograms {
    #[command(flatten)]
    common: Common<RealPrograms>,
    /// Run only these programs.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    only: Vec<String>,
}

impl Defaults for RealPrograms {
    const VARIANTS: &'static str = "glibc,jemalloc,tcmalloc,mimalloc,quarry";
    const SAMPLES: &'static str = "10";
    const QUICK_SAMPLES: &'static str = "1";
}

impl Plan for RealPrograms {
    const NAME: &'static str = "real-programs";

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        let quick = self.common.quick;
        let names: Vec<&str> = ALL.iter().map(|program| program.name).collect();
        let wanted = options::exactly(&names, &self.only, "program --only")?;
        let wanted: Vec<_> = ALL.iter().filter(|it| wanted.contains(&it.name)).collect();
        let (variants, contenders) = lab.contenders_with_copy(&self.common, QUARRY)?;
        self.common.check_early()?;
        let mut cast = Cast::new()?;
        cast.add_real(&wanted, quick);
        cast.announce(lab, 0)?;
        let Cast { ready, broken, launcher, interrupt, .. } = cast;
        let programs = Rc::new(ready);
        let sampler = ReadyPrograms { contenders, programs: Rc::clone(&programs), launcher };
        // Samples verify one operation, or each request to a server.
        let workloads = workloads(programs.iter().map(|it| &it.label.name));
        let mut plan = experiment(&self.common, variants, workloads, sampler)?;
        plan.about = "a program from its start to its end.".to_owned();
        plan.meta.metrics = metrics();
        for what in wanted.iter().filter(|it| programs.iter().any(|of| of.label.name == it.name)) {
            plan = plan.option(what.name, what.amount(quick));
        }
        let staged = Staged::new(plan, move |run, out| print(run, &programs, out));
        Ok(staged.of_programs(interrupt, broken))
    }
}

fn metrics() -> Vec<Metric> {
    vec![
        lower("time", "s of CPU", "cpu_ns").times(1e-9).digits(3).primary(),
        mib("peak RSS", "peak_bytes"),
        lower("page faults", "count", "page_faults").digits(0),
        Metric::new(HUGE, "MiB", Direction::None, "huge_bytes").times(1.0 / MIB).digits(0),
        lower("wall", "s", "wall_ns").times(1e-9).digits(3),
        Metric::new("requests", "per second", Direction::Higher, "requests")
            .per("client_ns")
            .times(1e9)
            .digits(0),
        mib("RSS after", "final_bytes"),
    ]
}

/// Metrics that only servers have; and the metric that servers lack, because a server runs as long
/// as its clients do.
const OF_SERVERS: [&str; 2] = ["requests", "RSS after"];
const NOT_OF_SERVERS: &str = "wall";

fn print(run: &Run, programs: &[ReadyProgram], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", overview(programs.iter()))?;
    let matrix = |is_member: &dyn Fn(&ReadyProgram) -> bool| {
        let members = programs.iter().filter(|program| is_member(program));
        let names = members.map(|program| program.label.name.clone()).collect();
        Matrix::new(run, group("programs", names))
    };
    writeln!(out, "{}\n", matrix(&|_| true).tables())?;
    for metric in run.meta.metrics.iter().filter(|metric| !metric.primary) {
        let Metric { name, unit, .. } = metric;
        let some = matrix(&|program| match name.as_str() {
            NOT_OF_SERVERS => !program.is_server(),
            name => program.is_server() || !OF_SERVERS.contains(&name),
        });
        if some.is_empty() {
            continue;
        }
        writeln!(out, "Medians of {name}, {unit}:\n\n{}\n", some.medians(metric))?;
        if name == "peak RSS" {
            writeln!(out, "{name}, paired within blocks:\n\n{}\n", some.ratios(metric))?;
        }
    }
    Ok(())
}

pub(crate) fn overview<'a>(programs: impl Iterator<Item = &'a ReadyProgram>) -> String {
    let numbers = ["allocations", "MiB asked for", "% CPU in malloc"].map(Entry::from);
    let head = [words("program"), words("what it does")].into_iter().chain(numbers);
    let row = |program: &ReadyProgram| {
        let calls = program.probe.calls;
        vec![
            program.label.name.clone(),
            program.label.what.clone(),
            calls.allocations.to_string(),
            table::figure(calls.bytes as f64 / MIB),
            table::figure(100.0 * program.probe.share()),
        ]
    };
    Table::of(head, programs.map(row)).text()
}
