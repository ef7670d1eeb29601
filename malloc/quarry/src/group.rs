//! Groups: parts of the program with an account and limits of their own.

#[cfg(feature = "heaps")]
use crate::at_limit::OnPressure;
use crate::error::{Error, accept};
use crate::instance::STACK;
use crate::{limits, process};
#[cfg(feature = "heaps")]
use core::ffi::c_void;
#[cfg(feature = "heaps")]
use core::future::Future;
#[cfg(feature = "heaps")]
use core::marker::PhantomData;
#[cfg(feature = "heaps")]
use core::pin::Pin;
#[cfg(feature = "heaps")]
use core::task::{Context, Poll};
use quarry_mm::frame::FRAME_BYTES;
#[cfg(feature = "heaps")]
use quarry_mm::own_heap::Use;
use quarry_mm::stack::StackHost;
use quarry_mm::zone::{self, GroupId, GroupLimits, Name};
use quarry_sys::own_stack;

/// Most groups that a process can have.
const MOST: usize = u16::MAX as usize;

/// The limits of a [`Group`], in bytes, rounded down to 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Up to this size, other requests take none of the group's pages. At most `high` and `max`.
    pub min: usize,
    /// Up to this size, they take them only if other groups have too few. At most `high` and `max`.
    pub low: usize,
    /// Above this size, the background thread reclaims from the group.
    pub high: usize,
    /// At this size, requests of the group fail after one reclaim of the group.
    pub max: usize,
    /// Maximum number of bytes of pages that may be pinned at the same time.
    pub pinned_max: usize,
}

impl Default for GroupOptions {
    /// No protection and no limit.
    fn default() -> Self {
        let (none, any) = (0, usize::MAX);
        Self { min: none, low: none, high: any, max: any, pinned_max: any }
    }
}

impl GroupOptions {
    fn limits(&self) -> Result<GroupLimits, Error> {
        let most = self.high.min(self.max);
        accept("the min of a group", self.min, 0..=most)?;
        accept("the low of a group", self.low, 0..=most)?;
        let [min, low, high, max, pinned_max] =
            [self.min, self.low, self.high, self.max, self.pinned_max]
                .map(|bytes| limits::frames(bytes as u64));
        Ok(GroupLimits { min, low, high, max, pinned_max })
    }
}

/// An account and limits for one part of the program: for the file mappings, the heaps and the
/// groups in it, and for what threads inside it allocate.
///
/// Dropping the handle does not remove the group.
///
/// ```
/// # use quarry::{FileBacking, Group, GroupOptions, PageCache};
/// let tenant = Group::new("tenant", &GroupOptions { max: 1 << 20, ..Default::default() })?;
/// let mapping = PageCache::builder().group(&tenant).open(FileBacking::open("/proc/self/exe")?)?;
/// for index in 0..400 {
///     mapping.read(index)?;
/// }
/// assert!(tenant.usage().used <= 1 << 20, "of 1.6 MB");
/// drop(mapping);
/// tenant.remove().expect("no mapping belongs to it");
/// # Ok::<(), quarry::Error>(())
/// ```
#[derive(Debug)]
pub struct Group(GroupId);

/// The use of a group, in bytes unless a field says otherwise.
///
/// * `used = cached + malloc + heaps + the used of its parts`
/// * `cached + malloc + heaps = in_use + parked + slack`, where slack is what slabs and blocks have
///   beside their objects in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// All that is charged to the group, with its parts.
    pub used: usize,
    /// Its cached pages.
    pub cached: usize,
    /// Pages of what threads inside it have allocated.
    pub malloc: usize,
    /// Pages of the heaps in it, and of what groups that were parts of it have left.
    pub heaps: usize,
    /// Objects in use and cached pages, without those of its parts.
    pub in_use: usize,
    /// Slabs without an object in use, without those of its parts.
    pub parked: usize,
    /// Of `malloc`, objects in use.
    pub malloc_in_use: usize,
    /// Pinned bytes, which are counted only if the group limits them.
    pub pinned: usize,
    /// Number of requests that failed at the limit.
    pub refusals: u64,
    /// Number of reclaims of the group alone.
    pub reclaims: u64,
}

/// A group that exists, as [`Group::all`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its number.
    pub id: GroupId,
    /// The group that it is a part of; the root has the number 0.
    pub parent: GroupId,
    /// The use of the group.
    pub usage: GroupUse,
    name: Name,
}

impl GroupEntry {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }
}

#[cfg(feature = "heaps")]
fn add_heaps(id: GroupId, usage: &mut GroupUse) {
    for (_, heap) in STACK.own.each().filter(|(_, heap)| heap.group() == id) {
        let stats = heap.stats();
        let pages = stats.charged as usize * FRAME_BYTES;
        if stats.serves == Use::Group {
            usage.malloc = pages;
            usage.malloc_in_use = stats.used as usize;
        } else {
            usage.heaps += pages;
        }
        usage.in_use += stats.used as usize;
        usage.parked += stats.empty as usize * FRAME_BYTES;
    }
}

#[cfg(not(feature = "heaps"))]
fn add_heaps(_: GroupId, _: &mut GroupUse) {}

impl Group {
    /// Makes a group. Statistics show the first 32 bytes of its name.
    ///
    /// # Errors
    /// [`Error::NotAccepted`] for a `min` or `low` above `high` or `max`, [`Error::TooMany`] at
    /// 65,535 groups, [`Error::Disabled`] or [`Error::NoMemory`].
    pub fn new(name: &str, options: &GroupOptions) -> Result<Self, Error> {
        Self::create(GroupId::ROOT, name, options)
    }

    /// Makes a group that is a part of this one, which is charged for it, too, and limits it.
    ///
    /// # Errors
    /// Same as of [`new`](Self::new).
    pub fn part(&self, name: &str, options: &GroupOptions) -> Result<Self, Error> {
        Self::create(self.0, name, options)
    }

    /// Makes a group that is a part of the one with a number, for C.
    ///
    /// # Errors
    /// Same as of [`new`](Self::new), or [`Error::NoSuchGroup`].
    #[doc(hidden)]
    pub fn create(parent: GroupId, name: &str, options: &GroupOptions) -> Result<Self, Error> {
        let limits = options.limits()?;
        process::serving()?;
        let made = process::giving_back(|| {
            own_stack::run(|| STACK.groups.create(parent, Name::of(name), limits, STACK.metadata()))
        });
        made.map(Self).map_err(|error| match error.0 {
            libc::ENOENT => Error::NoSuchGroup { number: parent.0.into() },
            libc::ENOSPC => Error::TooMany { what: "groups", most: MOST },
            _ => Error::NoMemory,
        })
    }

    /// The group with this number; `None` if no group has it.
    #[must_use]
    pub fn of(id: GroupId) -> Option<Self> {
        STACK.groups.is_there(id).then_some(Self(id))
    }

    /// The numbers of all groups. O(groups).
    pub fn numbers() -> impl Iterator<Item = GroupId> {
        STACK.groups.iter().map(|(id, _)| id)
    }

    /// All groups. O(heaps) for each.
    pub fn all() -> impl Iterator<Item = GroupEntry> {
        Self::numbers().map(|id| Self(id).entry())
    }

    /// The group as [`all`](Self::all) shows it. O(heaps).
    #[must_use]
    pub fn entry(&self) -> GroupEntry {
        let (parent, name) = (self.record().parent(), self.record().name());
        GroupEntry { id: self.0, parent, usage: self.usage(), name }
    }

    /// The number by which file mappings name the group.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.0
    }

    fn record(&self) -> &zone::Group {
        STACK.groups.at(self.0)
    }

    /// Changes the limits. A group above them keeps its memory until it requests more.
    ///
    /// # Errors
    /// [`Error::NotAccepted`] for a `min` or `low` above `high` or `max`.
    pub fn set_limits(&self, options: &GroupOptions) -> Result<(), Error> {
        self.record().set_limits(options.limits()?);
        Ok(())
    }

    /// Bytes that are charged to the group, with its parts. O(1).
    #[must_use]
    pub fn used(&self) -> usize {
        self.record().used() as usize * FRAME_BYTES
    }

    /// The current use of the group. O(heaps).
    #[must_use]
    pub fn usage(&self) -> GroupUse {
        let group = self.record();
        let (refusals, reclaims) = group.counts();
        let [used, cached, pinned] = [group.used(), group.cached(), group.pinned()]
            .map(|frames| frames as usize * FRAME_BYTES);
        let none = GroupUse::default();
        let mut usage =
            GroupUse { used, cached, in_use: cached, pinned, refusals, reclaims, ..none };
        add_heaps(self.0, &mut usage);
        usage
    }

    /// Removes the group. What was allocated inside it stays in use, charged to the group above.
    /// O(heaps).
    ///
    /// # Errors
    /// The group itself, if file mappings, heaps or groups belong to it, or threads are inside.
    pub fn remove(self) -> Result<(), Self> {
        let is_removed = process::giving_back(|| own_stack::run(|| STACK.end_group(self.0)));
        if is_removed { Ok(()) } else { Err(self) }
    }
}

#[cfg(feature = "heaps")]
impl Group {
    /// Puts the running thread into the group until the result is dropped: what it allocates
    /// meanwhile is charged to the group, wherever it is freed. `realloc` leaves an object where it
    /// is charged.
    ///
    /// ```
    /// # use quarry::{Group, GroupOptions};
    /// #[global_allocator]
    /// static A: quarry::Quarry = quarry::Quarry;
    ///
    /// let query = Group::new("query", &GroupOptions { max: 1 << 20, ..Default::default() })?;
    /// let inside = query.enter()?;
    /// let mut rows = vec![0u8; 100_000];
    /// assert!(rows.try_reserve(2 << 20).is_err(), "beyond the limit");
    /// drop(inside);
    /// assert!(query.usage().malloc_in_use >= 100_000);
    /// drop(rows);
    /// assert_eq!(query.usage().malloc_in_use, 0);
    /// # Ok::<(), quarry::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchGroup`] after its removal by another handle, or [`Error::NoMemory`].
    pub fn enter(&self) -> Result<Inside<'_>, Error> {
        inside(self.0)
    }

    /// Puts the running thread into a group, or into none, for C; returns the one that it was
    /// inside before.
    ///
    /// # Errors
    /// Same as of [`enter`](Self::enter).
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn enter_number(id: GroupId) -> Result<GroupId, Error> {
        crate::groups::enter(id)
    }

    /// Puts each thread that polls a future into the group for the time of the poll.
    ///
    /// # Errors
    /// [`Error::NoSuchGroup`] after its removal by another handle.
    pub fn scope<F: Future>(&self, future: F) -> Result<Scope<F>, Error> {
        let Self(id) = *self;
        match STACK.groups.join(id) {
            true => Ok(Scope { future, group: Member(id) }),
            false => Err(Error::NoSuchGroup { number: id.0.into() }),
        }
    }

    /// Sets the function that is called with `argument` when a request for so many bytes has met
    /// the max limit of the group, on the thread of the request, which then tries once more.
    ///
    /// # Safety
    /// Any thread may call the function with the argument while the group exists.
    pub unsafe fn on_pressure(
        &self,
        function: Option<unsafe extern "C" fn(argument: *mut c_void, bytes: usize)>,
        argument: *mut c_void,
    ) {
        let function: Option<OnPressure> = function;
        self.record().telling.set(function.map_or(0, |it| it as usize), argument as usize);
    }
}

/// The running thread is inside a [`Group`] as long as this lives.
#[cfg(feature = "heaps")]
#[derive(Debug)]
pub struct Inside<'a> {
    before: GroupId,
    /// Bound to its thread.
    of: PhantomData<(&'a Group, *const ())>,
}

#[cfg(feature = "heaps")]
fn inside<'a>(id: GroupId) -> Result<Inside<'a>, Error> {
    let before = crate::groups::enter(id)?;
    Ok(Inside { before, of: PhantomData })
}

#[cfg(feature = "heaps")]
impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let left = crate::groups::enter(self.before);
        debug_assert!(left.is_ok(), "the thread was inside that group");
    }
}

/// A future that runs inside a [`Group`], which is not removed before it is dropped.
#[cfg(feature = "heaps")]
#[derive(Debug)]
pub struct Scope<F> {
    future: F,
    group: Member,
}

/// Keeps a group, as its file mappings and heaps do.
#[cfg(feature = "heaps")]
#[derive(Debug)]
struct Member(GroupId);

#[cfg(feature = "heaps")]
impl Drop for Member {
    fn drop(&mut self) {
        STACK.groups.leave(self.0);
    }
}

#[cfg(feature = "heaps")]
impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Without memory for this, the poll runs outside.
        let _inside = inside(self.group.0).ok();
        // SAFETY: the future is pinned as its owner is, and is never moved out.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}
