//! Statistics in the kernel's own layouts: `slabinfo` (version 2.1), `buddyinfo`, lock counters.

use super::{Stack, StackConfig, print_large, print_locks};
use crate::frame::MetadataKind;
use crate::slab::SlabPolicy;
use core::fmt::{self, Write};
use quarry_sys::percpu::PerCpu;

/// All tables, as `QUARRY_STATS=1` prints them at exit.
///
/// # Errors
/// What the writer says.
pub fn print_stats<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    print_slabinfo(stack, out)?;
    writeln!(out)?;
    print_large(stack, out)?;
    writeln!(out)?;
    print_buddyinfo(stack, out)?;
    writeln!(out)?;
    print_pagesets(stack, out)?;
    writeln!(out)?;
    print_memory(stack, out)?;
    writeln!(out)?;
    print_slots(stack, out)?;
    writeln!(out)?;
    print_locks(stack, out)?;
    writeln!(out)?;
    print_metadata(stack, out)
}

/// `/proc/slabinfo`, with allocations and frees behind it as `slabinfo -AD` counts them.
///
/// # Errors
/// What the writer says.
pub fn print_slabinfo<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "slabinfo - version: 2.1 (quarry, {})", <C::Slab as SlabPolicy<_>>::NAME)?;
    writeln!(
        out,
        "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : \
         slabdata <active_slabs> <num_slabs> <parked> : operations <alloc> <free> <%fast> <%fast>"
    )?;
    for cache in stack.inner().caches.iter() {
        let stats = stack.cache_stats(cache.id());
        if stats.slabs_allocated == 0 {
            continue;
        }
        let allocs = stats.alloc_fast + stats.alloc_slow;
        let frees = stats.free_fast + stats.free_slow;
        writeln!(
            out,
            "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6} : operations \
             {:>10} {:>10} {:>3} {:>3}",
            core::str::from_utf8(cache.label().as_bytes()).unwrap_or("?"),
            stats.active_objects.saturating_sub(stats.parked_objects),
            stats.total_objects,
            cache.stride(),
            cache.objects(),
            cache.order().frames(),
            stats.active_slabs,
            stats.total_slabs,
            stats.parked_objects,
            allocs,
            frees,
            stats.alloc_fast * 100 / allocs.max(1),
            stats.free_fast * 100 / frees.max(1),
        )?;
    }
    Ok(())
}

/// `/proc/buddyinfo`.
///
/// # Errors
/// What the writer says.
pub fn print_buddyinfo<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    for zone in stack.pages().zones().all() {
        let stats = zone.stats();
        write!(out, "Node {}, zone {:>8} ", stats.node.0, "Normal")?;
        for by_type in stats.nr_free {
            write!(out, "{:>6} ", by_type.iter().sum::<u32>())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What the per-CPU page lists kept from the zones, all slots together.
///
/// # Errors
/// What the writer says.
pub fn print_pagesets<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    let totals = stack.pages().pcp_totals();
    writeln!(out, "pagesets")?;
    for (name, value) in [
        ("allocs", totals.allocs + totals.bypassed_allocs),
        ("frees", totals.frees + totals.bypassed_frees),
        ("allocs_at_zone", totals.allocs_at_zone()),
        ("frees_at_zone", totals.frees_at_zone()),
        ("refills", totals.refills),
        ("drains", totals.drains),
    ] {
        writeln!(out, "    {name:<20} {value:>12}")?;
    }
    Ok(())
}

/// Where the memory of the heap is, in KiB: in use, kept for reuse by whom, and free.
///
/// # Errors
/// What the writer says.
pub fn print_memory<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    let memory = stack.memory_held();
    writeln!(out, "memory, KiB")?;
    for (name, bytes) in [
        ("objects in use", memory.objects),
        ("objects parked", memory.parked),
        ("free in used slabs", memory.free_in_slabs),
        ("empty slabs", memory.empty_slabs),
        ("slab heads and tails", memory.around_objects),
        ("blocks in use", memory.blocks),
        ("pages on CPU lists", memory.page_lists),
        ("zones free, dirty", memory.free_dirty),
        ("zones free, zero", memory.free_zero + memory.withheld),
        ("mappings in use", memory.mappings),
        ("mappings kept", memory.mappings_cached),
    ] {
        writeln!(out, "    {name:<20} {:>12}", bytes / 1024)?;
    }
    Ok(())
}

/// What the arrays of CPUs have room for and hold, and what it took to empty them from elsewhere.
///
/// # Errors
/// What the writer says.
pub fn print_slots<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    let area = stack.percpu().area();
    writeln!(out, "slots")?;
    for (name, value) in [
        ("slots in use", area.awake().count()),
        ("room of arrays, KiB", area.all_room() / 1024),
        ("objects in them, KiB", area.held_bytes() / 1024),
        ("barriers", area.barriers() as usize),
    ] {
        writeln!(out, "    {name:<20} {value:>12}")?;
    }
    Ok(())
}

/// Bytes of descriptors by kind, and per committed frame.
fn print_metadata<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    let policy = <C::Slab as SlabPolicy<_>>::BYTES_PER_FRAME;
    let milli = crate::frame::Memory::metadata_per_frame_milli();
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
        ("other", MetadataKind::Other),
    ] {
        writeln!(out, "metadata: {name} {} bytes", stack.metadata_bytes(kind))?;
    }
    let area = stack.percpu().area();
    writeln!(
        out,
        "metadata: per-CPU slots {} of {} bytes of address space each",
        area.slots(),
        quarry_sys::percpu::SLOT_BYTES
    )
}
