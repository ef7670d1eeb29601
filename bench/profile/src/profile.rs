//! A profile with names: for each call site, estimates of the memory that it allocated, freed and
//! still has.

use crate::line::Line;
use crate::maps;
use crate::perf_map::PerfMap;
use crate::raw::{Count, Raw, Site, SiteKind};
use crate::symbols::{Place, Programs, Symbols};
use clap::ValueEnum;
use quarry_live::{Label, Who};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The figures of call sites that a profile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Memory that was allocated and not freed: at exit, leaks.
    Inuse = 1,
    /// All memory that was allocated, whether freed or not.
    Alloc = 0,
    /// Call sites of frees, if frees were traced (--frees).
    Frees = 2,
    /// Free memory that cannot go back, by the call sites of the objects between which it lies.
    Pinned = 3,
}

impl View {
    /// The index of its objects in [`VALUES`].
    pub(crate) fn objects(self) -> usize {
        2 * self as usize
    }

    /// The index of its bytes in [`VALUES`].
    pub(crate) fn space(self) -> usize {
        2 * self as usize + 1
    }
}

/// The figures that are estimated for each call site, by the names that pprof and Go use, and their
/// units.
pub(crate) const VALUES: [(&str, &str); 8] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("free_objects", "count"),
    ("free_space", "bytes"),
    ("pinned_objects", "count"),
    ("pinned_space", "bytes"),
];

/// One address of code in a call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The address to which the call returns.
    pub(crate) address: u64,
    /// The mapping, functions and lines at the address.
    pub(crate) place: Rc<Place>,
}

/// A call site with its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// The frames, the callee first; the frames of Quarry itself are left out.
    pub(crate) frames: Vec<Frame>,
    /// In the order of [`VALUES`].
    pub(crate) values: [i64; VALUES.len()],
    /// The samples from which the values were estimated, by [`View`].
    pub(crate) samples: [Count; 4],
    /// Of the objects that pin memory, the greatest age in milliseconds.
    pub(crate) oldest_ms: u64,
}

impl Stack {
    /// The functions, inlined ones included, the callee first.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.frames.iter().flat_map(|frame| &frame.place.lines)
    }

    fn addresses(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.address).collect()
    }

    fn key(&self) -> Vec<Line> {
        self.lines().cloned().collect()
    }
}

/// A profile with names.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// The process. Its name is that of the first mapped file, which is the program's.
    pub(crate) process: Who,
    /// The call sites, in no order.
    pub(crate) stacks: Vec<Stack>,
    /// The mappings, which [`Place::mapping`] numbers.
    pub(crate) mappings: Vec<maps::Mapping>,
    /// Mean bytes from one sample to the next.
    pub(crate) mean: u64,
    /// Start in nanoseconds since 1970; 0 if unknown.
    pub(crate) started_ns: u64,
    /// Duration in nanoseconds; 0 if unknown.
    pub(crate) duration_ns: u64,
    /// Number of samples of allocations.
    pub(crate) samples: u64,
    /// Number of samples that were lost, because the profile had no room for them.
    pub(crate) lost: u64,
    /// True if frees were traced.
    pub(crate) traces_frees: bool,
    /// True if samples in slabs were kept there.
    pub(crate) has_pins: bool,
    /// True if it is the difference of two profiles.
    pub(crate) is_difference: bool,
}

/// Estimates objects and bytes from samples: an object of `n` bytes is sampled with the probability
/// `1 - exp(-n / mean)`.
fn estimate(count: Count, mean: u64) -> (i64, i64) {
    if count.objects == 0 {
        return (0, 0);
    }
    let (objects, bytes) = (count.objects as f64, count.bytes as f64);
    let size = (bytes / objects).max(1.0);
    let each = 1.0 / -(-size / mean as f64).exp_m1();
    ((objects * each).round() as i64, (bytes * each).round() as i64)
}

fn samples_of(site: &Site) -> [Count; 4] {
    let none = Count::default();
    match site.kind {
        SiteKind::Frees => return [none, none, site.allocated, none],
        SiteKind::Pins => return [none, none, none, site.allocated],
        SiteKind::Allocations => {}
    }
    let in_use = Count {
        objects: site.allocated.objects.saturating_sub(site.freed.objects),
        bytes: site.allocated.bytes.saturating_sub(site.freed.bytes),
    };
    [site.allocated, in_use, none, none]
}

/// Prefixes of the allocator's own functions, in programs that link it.
const INSIDE: &[&str] = &[
    "quarry::",
    "quarry_mm::",
    "quarry_cache::",
    "quarry_watch::",
    "quarry_sys::",
    "<quarry",
    "__rust_alloc",
    "__rust_realloc",
    "__rust_dealloc",
    "__rustc::",
    "_RNvCs",
    "alloc::alloc::",
    "<alloc::alloc::",
];

fn is_inside(place: &Place, mappings: &[maps::Mapping]) -> bool {
    let file = place.mapping.and_then(|number| mappings[number].path.file_name());
    let is_library = file.and_then(|name| name.to_str()).is_some_and(|name| {
        name.starts_with("libquarry") && name.contains(".so") && !name.contains("sqlite")
    });
    let is_function = |line: &Line| INSIDE.iter().any(|start| line.function.starts_with(start));
    is_library || place.lines.iter().all(is_function)
}

impl Profile {
    /// Names the call sites of a raw profile; `root` leads to the root folder of the process.
    pub(crate) fn of(raw: &Raw, root: &Path) -> Self {
        Self::with(raw, root, &mut Programs::new())
    }

    /// As [`of`](Self::of), with files that an earlier profile has read.
    pub(crate) fn with(raw: &Raw, root: &Path, programs: &mut Programs) -> Self {
        let compiled = PerfMap::of(root, raw.pid, raw.stopped_ns);
        let mut symbols = Symbols::new(maps::parse(&raw.maps), PathBuf::from(root), compiled);
        symbols.programs = std::mem::take(programs);
        let mut stacks: HashMap<&[u64], Stack> = HashMap::new();
        for site in &raw.sites {
            let stack = stacks.entry(&site.frames).or_insert_with(|| {
                let frames = name_frames(&site.frames, &mut symbols);
                Stack { frames, ..Stack::default() }
            });
            for (kind, count) in samples_of(site).into_iter().enumerate() {
                let (objects, mut bytes) = estimate(count, raw.mean);
                if site.kind == SiteKind::Pins && count.objects > 0 {
                    // As many times as the objects themselves.
                    let times = objects as f64 / count.objects as f64;
                    bytes = (site.freed.bytes as f64 * times).round() as i64;
                    stack.oldest_ms = stack.oldest_ms.max(site.freed.objects);
                }
                add(&mut stack.values[2 * kind], objects);
                add(&mut stack.values[2 * kind + 1], bytes);
                let samples = &mut stack.samples[kind];
                samples.objects = samples.objects.saturating_add(count.objects);
                samples.bytes = samples.bytes.saturating_add(count.bytes);
            }
        }
        let samples = raw.sites.iter().filter(|site| site.kind != SiteKind::Frees);
        let program = symbols.mappings().first().and_then(|it| it.path.file_name());
        let name = Label::new(program.unwrap_or_default().as_encoded_bytes());
        *programs = std::mem::take(&mut symbols.programs);
        Self {
            process: Who { pid: raw.pid, name },
            stacks: stacks.into_values().collect(),
            mappings: symbols.mappings().to_vec(),
            mean: raw.mean,
            started_ns: raw.started_ns,
            duration_ns: raw.stopped_ns.saturating_sub(raw.started_ns),
            samples: samples.map(|site| site.allocated.objects).fold(0, u64::saturating_add),
            lost: raw.lost,
            traces_frees: raw.traces_frees,
            has_pins: raw.has_pins,
            is_difference: false,
        }
    }

    /// Subtracts `base`, by functions and lines of call sites; `base` may be of another process.
    pub(crate) fn minus(mut self, base: &Self) -> Self {
        self.is_difference = true;
        let mut less: HashMap<_, [i64; VALUES.len()]> = HashMap::new();
        for stack in &base.stacks {
            let sum = less.entry(stack.key()).or_default();
            sum.iter_mut().zip(stack.values).for_each(|(sum, value)| add(sum, value));
        }
        for stack in &mut self.stacks {
            if let Some(values) = less.remove(&stack.key()) {
                stack.values.iter_mut().zip(values).for_each(|(value, less)| add(value, -less));
            }
        }
        // Stacks that only `base` has.
        for stack in &base.stacks {
            if let Some(values) = less.remove(&stack.key()) {
                let mut frames = stack.frames.clone();
                frames.iter_mut().for_each(|it| Rc::make_mut(&mut it.place).mapping = None);
                let values = values.map(|value| -value);
                self.stacks.push(Stack { frames, values, ..Stack::default() });
            }
        }
        self.stacks.retain(|stack| stack.values != [0; VALUES.len()]);
        self
    }

    /// The profile without the allocations and frees that an earlier state of it had. Memory in
    /// use and pinned memory stay as they are.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        let flows = [View::Alloc, View::Frees].map(|view| [view.objects(), view.space()]);
        let mut before: HashMap<Vec<u64>, [i64; VALUES.len()]> = HashMap::new();
        for stack in &earlier.stacks {
            let sum = before.entry(stack.addresses()).or_default();
            sum.iter_mut().zip(stack.values).for_each(|(sum, value)| add(sum, value));
        }
        for stack in &mut self.stacks {
            let Some(sum) = before.get_mut(&stack.addresses()) else { continue };
            for value in flows.into_iter().flatten() {
                let old = sum[value].min(stack.values[value]);
                stack.values[value] -= old;
                sum[value] -= old;
            }
        }
        self.stacks.retain(|stack| stack.values != [0; VALUES.len()]);
        let passed = earlier.duration_ns.min(self.duration_ns);
        Self {
            started_ns: self.started_ns.saturating_add(passed),
            duration_ns: self.duration_ns - passed,
            ..self
        }
    }

    /// Those of [`VALUES`] that the profile has: values of frees only if frees were traced.
    pub(crate) fn values(&self) -> &'static [(&'static str, &'static str)] {
        match (self.has_pins, self.traces_frees) {
            (true, _) => &VALUES,
            (false, true) => &VALUES[..VALUES.len() - 2],
            (false, false) => &VALUES[..VALUES.len() - 4],
        }
    }

    /// How many samples the estimates are from.
    pub(crate) fn comment(&self) -> String {
        format!("samples: {}, lost: {}", self.samples, self.lost)
    }

    /// The sum of one of [`VALUES`] over all call sites.
    pub(crate) fn total(&self, value: usize) -> i64 {
        self.stacks.iter().map(|stack| stack.values[value]).fold(0, i64::saturating_add)
    }
}

/// Adds a count that a process may have invented; none is `i64::MIN`.
pub(crate) fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value).max(-i64::MAX);
}

fn name_frames(addresses: &[u64], symbols: &mut Symbols) -> Vec<Frame> {
    let mut frames: Vec<Frame> = addresses
        .iter()
        .enumerate()
        .map(|(number, address)| {
            let place = symbols.place(*address, number > 0);
            Frame { address: *address, place }
        })
        .collect();
    let own = frames.iter().take_while(|it| is_inside(&it.place, symbols.mappings())).count();
    if own < frames.len() {
        frames.drain(..own);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(frames: &[u64], objects: u64, size: u64, freed: u64) -> Site {
        Site {
            frames: frames.to_vec(),
            kind: SiteKind::Allocations,
            allocated: Count { objects, bytes: objects * size },
            freed: Count { objects: freed, bytes: freed * size },
        }
    }

    fn raw(sites: Vec<Site>) -> Raw {
        Raw { pid: 1, mean: 1000, session: 2, sites, ..Raw::default() }
    }

    #[test]
    fn estimates_divide_by_the_chance_of_a_sample() {
        let mean = 512 << 10;
        let one = |bytes| estimate(Count { objects: 1, bytes }, mean);
        assert_eq!(one(64 << 20), (1, 64 << 20), "a large object is always a sample");
        let (objects, bytes) = one(16);
        assert!((32_767..32_770).contains(&objects) && (bytes - (512 << 10)).abs() < 32);
        assert_eq!(estimate(Count::default(), mean), (0, 0));
    }

    #[test]
    fn sites_of_one_stack_are_one() {
        let profile = Profile::of(
            &raw(vec![site(&[1, 2], 3, 100_000, 1), site(&[1, 2], 1, 50_000, 0)]),
            "/".as_ref(),
        );
        let [stack] = &profile.stacks[..] else { panic!("one stack") };
        assert_eq!(stack.values, [4, 350_000, 3, 250_000, 0, 0, 0, 0]);
        assert_eq!((profile.samples, profile.total(View::Inuse.space())), (4, 250_000));
    }

    /// A process writes what it likes into its profile.
    #[test]
    fn counts_that_are_too_large_end_at_the_largest() {
        let most = Count { objects: u64::MAX, bytes: u64::MAX };
        let huge = Site { allocated: most, ..site(&[1], 0, 0, 0) };
        let pins = Site { kind: SiteKind::Pins, freed: most, ..huge.clone() };
        let of = |sites| Profile::of(&raw(sites), "/".as_ref());
        let other = Site { frames: vec![2], ..huge.clone() };
        let profile = of(vec![huge.clone(), huge, pins, other]);
        assert_eq!(profile.stacks[0].values[0], i64::MAX);
        assert_eq!((profile.samples, profile.total(View::Alloc.space())), (u64::MAX, i64::MAX));
        assert!(profile.clone().minus(&profile).stacks.is_empty());
        let less = of(Vec::new()).minus(&profile);
        assert_eq!(less.total(View::Alloc.objects()), i64::MIN);
    }

    #[test]
    fn pinned_bytes_are_as_many_times_as_objects() {
        let pins = Site {
            kind: SiteKind::Pins,
            freed: Count { objects: 9_000, bytes: 8_000 },
            ..site(&[1], 2, 10, 0)
        };
        let profile = Profile::of(&raw(vec![pins, site(&[1], 1, 10, 0)]), "/".as_ref());
        let [stack] = &profile.stacks[..] else { panic!("one stack") };
        // An object of 10 bytes is one in 100.5 with a mean of 1,000.
        assert_eq!(stack.values[6..], [201, 804_000]);
        assert_eq!((stack.oldest_ms, stack.samples[3].objects), (9_000, 2));
    }

    /// As a collector of profiles expects, which adds up what it gets.
    #[test]
    fn what_flows_is_since_the_earlier_state_and_what_is_held_is_not() {
        let of = |sites, stopped_ns| {
            let raw = Raw { started_ns: 5, stopped_ns, ..raw(sites) };
            Profile::of(&raw, "/".as_ref())
        };
        let old = of(vec![site(&[1], 2, 100_000, 1), site(&[2], 3, 100_000, 3)], 15);
        let new = of(vec![site(&[1], 5, 100_000, 2), site(&[2], 3, 100_000, 3)], 35);
        let since = new.since(&old);
        let [stack] = &since.stacks[..] else { panic!("the other has allocated nothing new") };
        assert_eq!(stack.values[..4], [3, 300_000, 3, 300_000]);
        assert_eq!((since.started_ns, since.duration_ns), (15, 20));
    }

    #[test]
    fn a_difference_keeps_what_either_has() {
        let of = |sites| Profile::of(&raw(sites), "/".as_ref());
        let new = of(vec![site(&[1], 5, 100_000, 0), site(&[2], 1, 100_000, 0)]);
        let old = of(vec![site(&[1], 2, 100_000, 0), site(&[3], 4, 100_000, 0)]);
        let difference = new.clone().minus(&old);
        let mut values: Vec<i64> = difference.stacks.iter().map(|it| it.values[0]).collect();
        values.sort_unstable();
        assert_eq!(values, [-4, 1, 3]);
        assert!(new.clone().minus(&new).stacks.is_empty());
    }
}
