//! Prints statistics in the kernel's layouts: `slabinfo` (version 2.1), `buddyinfo`, lock counters.

use super::budget_stats::BudgetStats;
use super::cached_pages::{CachedPages, StackHost};
use super::instance::{Stack, StackConfig};
use super::large::LargeStats;
use super::locks::print_locks;
use super::stats::StackStats;
#[cfg(feature = "heaps")]
use crate::frame::FRAME_BYTES;
use crate::frame::{Memory, MetadataKind, Prices};
use crate::slab::{SlabPolicy, SlabStats};
use core::fmt;
use quarry_sys::percpu::{PerCpu, SLOT_BYTES};

/// Most own heaps that a report lists.
#[cfg(feature = "heaps")]
const MOST_HEAPS: usize = 100;

/// A table of a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `/proc/slabinfo`, followed by allocations and frees as `slabinfo -AD` counts them.
    Slabs,
    /// Requested blocks and mappings, in the words of `slabinfo`.
    Large,
    /// `/proc/buddyinfo`.
    Buddies,
    /// The work that pcp lists spared the zones, all slots together.
    PageLists,
    /// The memory of the heap, in KiB: in use, held for reuse by each part, and free.
    Memory,
    /// The budget: its limit and marks, its users, and the results of reclaims.
    Budget,
    /// The page cache, by the names of `/proc/vmstat`; empty if the cache is unused.
    PageCache,
    /// The room and the objects of the arrays of CPUs.
    Slots,
    /// One line per name of locks: acquisitions, contentions, waiting time, sampled mean hold time.
    Locks,
    /// Bytes of descriptors by kind, and per committed frame.
    Metadata,
}

impl Section {
    /// All sections, as `QUARRY_STATS=1` prints them at exit.
    pub const ALL: &'static [Self] = &[
        Self::Slabs,
        Self::Large,
        Self::Buddies,
        Self::PageLists,
        Self::Memory,
        Self::Budget,
        Self::PageCache,
        Self::Slots,
        Self::Locks,
        Self::Metadata,
    ];
}

/// Prints sections about a stack with its present counts, and an empty line between two sections.
pub struct Report<'a, C: StackConfig> {
    /// The stack.
    pub stack: &'a Stack<C>,
    /// The sections.
    pub sections: &'a [Section],
}

impl<C: StackConfig> fmt::Display for Report<'_, C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stack.stats();
        for (index, section) in self.sections.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            match section {
                Section::Slabs => self.slabs(out),
                Section::Large => large(&stats, out),
                Section::Buddies => self.buddies(out),
                Section::PageLists => page_lists(&stats, out),
                Section::Memory => {
                    memory(&stats, out)?;
                    prices(self.stack.pages().memory().prices(), out)
                }
                Section::Budget => budget(&stats.budget, out),
                Section::PageCache => self.page_cache(out),
                Section::Slots => slots(&stats, out),
                Section::Locks => print_locks(self.stack, out),
                Section::Metadata => self.metadata(&stats, out),
            }?;
        }
        Ok(())
    }
}

impl<C: StackConfig> Report<'_, C> {
    fn slabs(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "slabinfo - version: 2.1 (quarry, {})", <C::Slab as SlabPolicy<_>>::NAME)?;
        writeln!(
            out,
            "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : \
             slabdata <active_slabs> <num_slabs> <parked> : operations <alloc> <free> <%fast> \
             <%fast>"
        )?;
        for cache in self.stack.caches.iter().chain(self.stack.caches.loose()) {
            let stats = self.stack.cache(cache.id()).stats();
            let SlabStats { parked_objects, active_slabs, total_slabs, .. } = stats;
            if stats.slabs_allocated == 0 {
                continue;
            }
            let (allocs, frees) = (stats.allocs(), stats.frees());
            writeln!(
                out,
                "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : slabdata {active_slabs:>6} \
                 {total_slabs:>6} {parked_objects:>6} : operations {allocs:>10} {frees:>10} {:>3} \
                 {:>3}",
                core::str::from_utf8(cache.label().as_bytes()).unwrap_or("?"),
                stats.active_objects.saturating_sub(parked_objects),
                stats.total_objects,
                cache.stride(),
                cache.objects(),
                cache.order().frames(),
                stats.alloc_fast * 100 / allocs.max(1),
                stats.free_fast * 100 / frees.max(1),
            )?;
        }
        #[cfg(feature = "heaps")]
        self.own_heaps(out)?;
        Ok(())
    }

    #[cfg(feature = "heaps")]
    fn own_heaps(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut written, mut count) = (Ok(()), 0);
        self.stack.own_rows(&mut |row| {
            count += 1;
            if count <= MOST_HEAPS && written.is_ok() {
                written = writeln!(
                    out,
                    "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6} : \
                     operations {:>10} {:>10} {:>3} {:>3}",
                    row.name.as_str(),
                    row.active_objects,
                    row.total_objects,
                    row.stride,
                    row.slab_objects,
                    row.slab_frames,
                    row.active_slabs,
                    row.total_slabs,
                    row.parked_objects,
                    row.alloc_slow,
                    row.free_slow,
                    0,
                    0,
                );
            }
        });
        written?;
        if count > MOST_HEAPS {
            writeln!(out, "# and {} more heaps", count - MOST_HEAPS)?;
        }
        self.groups(out)
    }

    #[cfg(feature = "heaps")]
    fn groups(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.stack.groups.iter();
        for (number, (id, group)) in all.take(MOST_HEAPS).enumerate() {
            if number == 0 {
                writeln!(
                    out,
                    "# group name: <part_of> <used_KiB> <max_KiB> <cached_KiB> <refused>"
                )?;
            }
            let kib = |frames: u32| u64::from(frames) * (FRAME_BYTES as u64 >> 10);
            write!(out, "group {} {}: ", id.0, group.name().as_str())?;
            write!(out, "{} {} ", group.parent().0, kib(group.used()))?;
            match group.limits().max {
                u32::MAX => write!(out, "max")?,
                max => write!(out, "{}", kib(max))?,
            }
            writeln!(out, " {} {}", kib(group.cached()), group.counts().0)?;
        }
        Ok(())
    }

    fn buddies(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for zone in self.stack.pages().zones().all() {
            let stats = zone.stats();
            write!(out, "Node {}, zone {:>8} ", stats.node.0, "Normal")?;
            for by_type in stats.nr_free {
                write!(out, "{:>6} ", by_type.iter().sum::<u32>())?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn page_cache(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Ok(());
        let is_used = C::Cache::visit_vmstat(self.stack, &mut |name, value| {
            written = written.and_then(|()| writeln!(out, "{name} {value}"));
        });
        if is_used { written } else { writeln!(out, "page cache: not used") }
    }

    fn metadata(&self, stats: &StackStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = <C::Slab as SlabPolicy<_>>::BYTES_PER_FRAME;
        let milli = Memory::metadata_per_frame_milli();
        writeln!(
            out,
            "metadata: frame table {}.{:03} bytes per committed 4 KiB frame",
            milli / 1000,
            milli % 1000
        )?;
        writeln!(out, "metadata: slab policy {policy}.000 bytes per committed 4 KiB frame")?;
        for (name, kind) in [
            ("sheaves", MetadataKind::Sheaves),
            ("slab headers", MetadataKind::SlabHeaders),
            ("CPU slabs", MetadataKind::CpuSlabs),
            ("cached pages", MetadataKind::CachedPages),
            ("other", MetadataKind::Other),
        ] {
            writeln!(out, "metadata: {name} {} bytes", stats.metadata_bytes(kind))?;
        }
        let slots = self.stack.percpu().area().slots();
        writeln!(out, "metadata: per-CPU slots {slots} of {SLOT_BYTES} bytes of address space each")
    }
}

fn budget(figures: &BudgetStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let limit = if figures.limit == usize::MAX { 0 } else { figures.limit };
    let lines = [
        ("limit (0: none)", limit),
        ("min", figures.min),
        ("low", figures.low),
        ("high", figures.high),
        ("used", figures.used),
        ("available", if limit == 0 { 0 } else { figures.available }),
        ("cached pages", figures.file),
        ("dirty", figures.dirty),
        ("pinned", figures.pinned),
        ("shrinkable", figures.shrinkable),
    ];
    table(out, "budget, KiB", lines.map(|(name, bytes)| (name, bytes / 1024)))?;
    let (balances, took) = (&figures.balances, &figures.direct_ns);
    let lines = [
        ("pageoutrun", balances.runs),
        ("balanced", balances.reached),
        ("passes", balances.passes),
        ("pages scanned", balances.pages_scanned),
        ("pages freed", balances.pages_freed),
        ("slabs_scanned", balances.objects_scanned),
        ("objects freed", balances.objects_freed),
        ("frames freed", balances.frames_freed),
        ("direct", figures.direct_reclaims),
        ("direct p50, ns", took.median),
        ("direct p99.9, ns", took.p999),
        ("direct max, ns", took.longest),
        ("group refusals", figures.group_refusals),
        ("refused", balances.refused),
        ("refused, dirty", balances.refused_dirty),
    ];
    table(out, "reclaim", lines)
}

fn table<T: fmt::Display>(
    out: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl IntoIterator<Item = (&'static str, T)>,
) -> fmt::Result {
    writeln!(out, "{title}")?;
    lines.into_iter().try_for_each(|(name, value)| writeln!(out, "    {name:<20} {value:>12}"))
}

fn large(stats: &StackStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "# large requests : operations <alloc> <free> <resize>")?;
    for (name, stats) in [("blocks", stats.blocks), ("mappings", stats.mappings)] {
        let LargeStats { allocated, freed, resized } = stats;
        writeln!(out, "{name:<17}: operations {allocated:>10} {freed:>10} {resized:>10}")?;
    }
    match stats.wrong_sizes {
        0 => Ok(()),
        wrong => writeln!(out, "wrong sizes given to delete or free_sized, and ignored: {wrong}"),
    }
}

fn page_lists(stats: &StackStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &stats.page_lists;
    let lines = [
        ("allocs", totals.allocs + totals.bypassed_allocs),
        ("frees", totals.frees + totals.bypassed_frees),
        ("allocs_at_zone", totals.allocs_at_zone()),
        ("frees_at_zone", totals.frees_at_zone()),
        ("refills", totals.refills),
        ("drains", totals.drains),
    ];
    table(out, "pagesets", lines)
}

fn memory(stats: &StackStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let memory = &stats.memory;
    let lines = [
        ("objects in use", memory.objects),
        ("objects parked", memory.parked),
        ("free in used slabs", memory.free_in_slabs),
        ("empty slabs", memory.empty_slabs),
        ("slab heads and tails", memory.around_objects),
        ("blocks in use", memory.blocks),
        ("page cache", memory.page_cache),
        ("pages on CPU lists", memory.page_lists),
        ("zones free, dirty", memory.free_dirty),
        ("zones free, zero", memory.free_zero + memory.withheld),
        ("mappings in use", memory.mappings),
        ("mappings kept", memory.mappings_cached),
    ];
    table(out, "memory, KiB", lines.map(|(name, bytes)| (name, bytes / 1024)))
}

fn prices(prices: &Prices, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (Some(huge), Some(small)) = (prices.huge_us(), prices.small_us()) else { return Ok(()) };
    let state = if prices.is_huge_cheap() { "on" } else { "off for now" };
    writeln!(out, "huge pages: {state}, {huge} us for each, {small} for as much in small ones")
}

fn slots(stats: &StackStats, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let slots = &stats.slots;
    let lines = [
        ("slots in use", slots.awake),
        ("room of arrays, KiB", slots.room_bytes / 1024),
        ("objects in them, KiB", slots.held_bytes / 1024),
        ("barriers", slots.barriers as usize),
        ("interrupted", slots.interrupted as usize),
        ("rseq registered", slots.registered as usize),
        ("rseq refused", slots.refused as usize),
    ];
    table(out, "slots", lines)
}
