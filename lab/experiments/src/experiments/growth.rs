//! `growth`: the cost for a heap to grow to a size, at first and after it has shrunk, with
//! populating, huge pages and purging on and off.

use super::plan::*;
use crate::patterns::growth::GrowthSample;

/// The cost of growing a heap to a size, with and without populating and huge pages.
///
/// A fresh process allocates objects of one size until they take the given MiB, and writes all of
/// them. An operation is 4 KiB of objects. On a virtual machine the first touch of memory that the
/// host has not backed yet costs many times as much as later ones. The warm-up round pays for that;
/// compare only samples that are close in time, and use the A/A copy to see the noise.
///
/// With --bursts the heap has grown, shrunk to nothing and rested before. An allocator that keeps
/// all memory is then fast but stays large. Quarry without purging runs along, to show the cost of
/// a burst if no page has to be faulted in again. On a virtual machine whose host takes free memory
/// away (free page reporting), huge pages that were free for two seconds cost up to forty times as
/// much as otherwise, and chance decides which allocator pays for that.
#[derive(Args)]
pub(super) struct Growth {
    #[command(flatten)]
    common: Common<Growth>,
    /// Sizes of the objects.
    #[arg(long, value_delimiter = ',', default_value = "64,1000,16000,200000")]
    sizes: Vec<usize>,
    /// How far the heap grows, in MiB.
    #[arg(long, default_value = "1024", default_value_if("quick", "true", Some("32")),
          value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Which of the heap's growths is measured (1: the first). Several numbers may be given.
    #[arg(long, value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u64).range(1..))]
    bursts: Vec<u64>,
    /// The rest between two growths, in milliseconds.
    #[arg(long, default_value = "2200", default_value_if("quick", "true", Some("50")))]
    rest: u64,
}

impl Defaults for Growth {
    const VARIANTS: &'static str = "glibc,quarry";
    const SAMPLES: &'static str = "10";
    const QUICK_SAMPLES: &'static str = "2";
}

/// Quarry's variants; the last one runs only if the heap comes back.
const SETTINGS: [(&str, &[(&str, &str)]); 4] = [
    ("quarry POPULATE=0", &[("QUARRY_POPULATE", "0")]),
    ("quarry THP=0", &[("QUARRY_THP", "0")]),
    ("quarry neither", &[("QUARRY_POPULATE", "0"), ("QUARRY_THP", "0")]),
    ("quarry unpurged", &[("QUARRY_PURGE_DELAY", "-1")]),
];

impl Plan for Growth {
    const NAME: &'static str = "growth";
    const WORK: Option<WorkKind> = Some(WorkKind::of::<GrowthSample>());

    fn stage(self, lab: &mut Lab<'_>) -> Result<Staged> {
        if let Some(size) = self.sizes.iter().find(|size| **size < 8) {
            bail!(Usage(format!("--sizes {size}: objects have at least 8 bytes")));
        }
        let comes_back = self.bursts != [1];
        let found = with_settings(lab.contenders(&self.common)?, comes_back);
        let (variants, contenders) = Variants::of_contenders(&self.common, found, QUARRY)?;
        let verify = Verify::Counter("objects".to_owned());
        let Self { common, sizes, mib, bursts, rest } = self;
        let cells = sizes.iter().flat_map(|size| bursts.iter().map(|burst| (*size, *burst)));
        let cells: Vec<(usize, u64)> = cells.collect();
        let name = |(size, burst): &(usize, u64)| match burst {
            1 => format!("objects of {size} bytes"),
            burst => format!("objects of {size} bytes, burst {burst}"),
        };
        let workload = |cell: &(usize, u64)| Workload::new(&name(cell), verify.clone());
        let workloads = cells.iter().map(workload).collect();
        let order = move |key: SampleKey| {
            let (size, burst) = cells[key.workload];
            GrowthSample { size, mib, burst, rest }.order()
        };
        let sampler = OwnWork { contenders, order };
        let mut plan = experiment(&common, variants, workloads, sampler)?;
        plan.about = format!("growth to {mib} MiB; one operation is 4 KiB of objects.");
        plan.meta.metrics = metrics();
        let plan = if comes_back { plan.option("rest", rest) } else { plan };
        Ok(Staged::new(plan.option("mib", mib), |run, out| {
            let matrix = Matrix::new(run, group_of_all("growth", run));
            writeln!(out, "{}\n", matrix.tables())?;
            for metric in run.meta.metrics.iter().filter(|metric| !metric.primary) {
                writeln!(out, "{}\n", matrix.medians(metric))?;
            }
            Ok(())
        }))
    }
}

fn metrics() -> Vec<Metric> {
    vec![
        Metric::time_per_operation().primary(),
        lower("page faults", "page faults per 4 KiB", "faults").per("operations"),
        Metric::new("huge pages", "huge pages, MiB", Direction::None, "huge").times(1.0 / MIB),
        lower("resident", "resident, MiB", "resident").times(1.0 / MIB),
    ]
}

/// Quarry with its settings, and then the other allocators.
fn with_settings(mut all: Vec<Contender>, comes_back: bool) -> Vec<Contender> {
    all.sort_by_key(|contender| contender.name() != QUARRY);
    if let Some(quarry) = all.first().filter(|it| it.name() == QUARRY).cloned() {
        let settings = &SETTINGS[..SETTINGS.len() - usize::from(!comes_back)];
        all.splice(1..1, settings.iter().map(|(name, settings)| quarry.with(name, settings)));
    }
    all
}
