//! Groups, for C. The documentation in this file also becomes that of `quarry.h`.

use crate::heap_api::{answer, refused};
use crate::own_heap_api::{copy_out, text};
use core::ffi::{c_char, c_int, c_void};
use quarry::{Error, Group, GroupEntry, GroupId, GroupOptions};
use quarry_sys::errno;

/// The limits of a group, in bytes; SIZE_MAX for no limit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QuarryGroupLimits {
    /// Up to this size, the group keeps its cached pages when other parts of the program need
    /// memory.
    pub min: usize,
    /// Above this size, the background thread reclaims memory of the group.
    pub high: usize,
    /// At this size, requests of the group fail after one reclaim of the group.
    pub max: usize,
    /// Maximum number of bytes of pages that may be pinned at the same time.
    pub pinned_max: usize,
    /// Up to this size, the group keeps its cached pages unless other groups have too few.
    pub low: usize,
}

/// The use of a group, in bytes unless a field says otherwise:
/// used = cached + malloc_pages + heaps + the used of the groups that are parts of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QuarryGroupStats {
    /// All that is charged to the group, with its parts.
    pub used: usize,
    /// Its cached pages.
    pub cached: usize,
    /// Pages of what malloc has handed out to threads inside it.
    pub malloc_pages: usize,
    /// Pages of the heaps in it, and of what groups that were parts of it have left.
    pub heaps: usize,
    /// Objects in use and cached pages, without those of its parts.
    pub in_use: usize,
    /// Slabs without an object in use, without those of its parts.
    pub parked: usize,
    /// Of malloc_pages, objects in use.
    pub malloc_in_use: usize,
    /// Pinned pages, which are counted only if the group limits them.
    pub pinned: usize,
    /// Number of requests that failed at the limit.
    pub refusals: usize,
    /// Number of the group that it is a part of; 0: of none.
    pub parent: usize,
}

/// # Safety
/// Same as [`quarry_group_create`].
unsafe fn options_of(limits: *const QuarryGroupLimits) -> GroupOptions {
    // SAFETY: the caller's promise.
    let Some(limits) = (unsafe { limits.as_ref() }) else { return GroupOptions::default() };
    let QuarryGroupLimits { min, high, max, pinned_max, low } = *limits;
    GroupOptions { min, low, high, max, pinned_max }
}

/// The group with this number; on `None`, errno is EINVAL.
fn group_of(number: c_int) -> Option<Group> {
    let group = u16::try_from(number).ok().and_then(|number| Group::of(GroupId(number)));
    if group.is_none() {
        errno::set(libc::EINVAL);
    }
    group
}

/// Makes a group: an account and limits for one part of the program. It is charged for the file
/// mappings, the heaps and the groups in it, and for what malloc hands out to threads inside it.
/// parent is the number of the group that it is a part of, which is charged for it, too; 0: of
/// none. The first 32 bytes of the name are kept. Returns its number, 1 to 65,535, or -1 with
/// EINVAL (a min or low above high or max, a name that is NULL or not UTF-8, no such parent),
/// ENOSPC, ENOMEM or ENOTSUP.
///
/// # Safety
/// `limits` points to limits, or is NULL for no limits; the name ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_group_create(
    parent: c_int,
    name: *const c_char,
    limits: *const QuarryGroupLimits,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let (name, options) = unsafe { (text(name), options_of(limits)) };
    let (Ok(parent), Some(name)) = (u16::try_from(parent), name) else {
        return refused(libc::EINVAL);
    };
    match Group::create(GroupId(parent), name, &options) {
        Ok(group) => group.id().0.into(),
        Err(error) => refused(error.errno()),
    }
}

/// Changes the limits of a group. Returns 0, or -1 with EINVAL.
///
/// # Safety
/// Same as quarry_group_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_group_limit(
    group: c_int,
    limits: *const QuarryGroupLimits,
) -> c_int {
    let Some(group) = group_of(group) else { return -1 };
    // SAFETY: the caller's promise is passed on.
    answer(group.set_limits(&unsafe { options_of(limits) }))
}

/// Puts the calling thread into a group, or with 0 into none: what malloc and its relatives hand
/// out to it from now on is charged to the group, wherever it is freed. realloc leaves an object
/// where it is charged. At the limit of the group, or of one that it is a part of, requests fail
/// with ENOMEM. Returns the number of the group that the thread was inside before, which
/// quarry_group_leave takes; or -1 with EINVAL or ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_group_enter(group: c_int) -> c_int {
    let entered = match u16::try_from(group) {
        Ok(number) => Group::enter_number(GroupId(number)),
        Err(_) => Err(Error::NoSuchGroup { number: group.unsigned_abs() as usize }),
    };
    entered.map_or_else(|error| refused(error.errno()), |before| before.0.into())
}

/// Puts the calling thread back into the group that it was inside before quarry_group_enter, which
/// has returned its number. Returns 0, or -1 with EINVAL or ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_group_leave(before: c_int) -> c_int {
    quarry_group_enter(before).min(0)
}

/// Bytes that are charged to a group; 0 with EINVAL if there is no such group.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_group_used(group: c_int) -> usize {
    group_of(group).map_or(0, |group| group.used())
}

/// Writes the use of a group to the first `bytes` bytes of `out`. Returns 0, or -1 with EINVAL.
///
/// # Safety
/// `out` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_group_stat(
    group: c_int,
    out: *mut QuarryGroupStats,
    bytes: usize,
) -> c_int {
    let Some(group) = group_of(group) else { return -1 };
    let GroupEntry { parent, usage, .. } = group.entry();
    let stats = QuarryGroupStats {
        used: usage.used,
        cached: usage.cached,
        malloc_pages: usage.malloc,
        heaps: usage.heaps,
        in_use: usage.in_use,
        parked: usage.parked,
        malloc_in_use: usage.malloc_in_use,
        pinned: usage.pinned,
        refusals: usage.refusals as usize,
        parent: parent.0.into(),
    };
    // SAFETY: the caller's promise is passed on; all fields are words.
    unsafe { copy_out(&stats, out, bytes) }
}

/// Returns the number of the next group after this one, in the order of numbers, 0 for the first;
/// 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_group_next(after: c_int) -> c_int {
    let next = Group::numbers().find(|id| c_int::from(id.0) > after);
    next.map_or(0, |id| id.0.into())
}

/// Sets the function that is called when a request for this many bytes has reached the max limit
/// of a group, on the thread of the request, which then tries once more; NULL: none. The function
/// may call every function, and free or raise the limit. Requests of its own in the group fail at
/// the limit. Returns 0, or -1 with EINVAL.
///
/// # Safety
/// Any thread may call the function with the context while the group exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_group_on_pressure(
    group: c_int,
    tell: Option<unsafe extern "C" fn(context: *mut c_void, bytes: usize)>,
    context: *mut c_void,
) -> c_int {
    let Some(group) = group_of(group) else { return -1 };
    // SAFETY: the caller's promise is passed on.
    unsafe { group.on_pressure(tell, context) };
    0
}

/// Removes a group. What was allocated inside it stays in use, and is charged to the group above.
/// Returns 0, or -1 with EBUSY (file mappings, heaps or groups belong to it, or threads are inside)
/// or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_group_destroy(group: c_int) -> c_int {
    match group_of(group).map(Group::remove) {
        None => -1,
        Some(Ok(())) => 0,
        Some(Err(_)) => refused(libc::EBUSY),
    }
}
