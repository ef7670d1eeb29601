//! Quarry's only intrusive list: doubly linked, through words that belong to its members.
//!
//! A list holds its two ends, or its front only. The links of members lie where [`Links`] stores
//! them: in the frame table, in descriptors of pageblocks, or in a table of a slab policy. They do
//! not lie in the free memory that members stand for: a write there would fault purged pages in.
//!
//! Equations: `head` is `NONE` iff the tail is; `previous(head) = next(tail) = NONE`;
//! `previous(next(m)) = m` for every member `m` but the tail.

use super::array::FreshZero;
use super::pfn::{PageblockIndex, Pfn};
use core::marker::PhantomData;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// A member of a list, named by a number below `u32::MAX`.
pub trait Member: Copy + Eq {
    /// The number.
    fn number(self) -> u32;
    /// The member with this number.
    fn numbered(number: u32) -> Self;
}

/// Implements [`Member`] for types that wrap their number.
#[macro_export]
macro_rules! members {
    ($($of:ty),*) => {$(
        impl $crate::frame::Member for $of {
            #[inline(always)]
            fn number(self) -> u32 {
                self.0
            }

            #[inline(always)]
            fn numbered(number: u32) -> Self {
                Self(number)
            }
        }
    )*};
}
pub use members;
members!(Pfn, PageblockIndex);

/// A link to a member as one word: the value `n + 1` links to the member with number `n`. The value
/// 0, which fresh memory holds, links to no member.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link<M>(u32, PhantomData<M>);

impl<M> Link<M> {
    /// No member.
    pub const NONE: Self = Self(0, PhantomData);

    /// The link that a word holds.
    #[inline(always)]
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word, PhantomData)
    }

    /// The word that holds this link.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }
}

impl<M: Member> Link<M> {
    /// A link to `member`.
    #[inline(always)]
    #[must_use]
    pub fn to(member: M) -> Self {
        Self(member.number() + 1, PhantomData)
    }

    /// The member that this links to.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> Option<M> {
        self.0.checked_sub(1).map(M::numbered)
    }
}

/// The links of members. A member is on at most one of the lists that share these links.
pub trait Links {
    /// The members that are linked.
    type Member: Member;
    /// The word that links to the member after `member`.
    fn next_word(&self, member: Self::Member) -> &AtomicU32;
    /// The word that links to the member before `member`.
    fn previous_word(&self, member: Self::Member) -> &AtomicU32;

    /// Both words of `member`.
    #[inline]
    fn words(&self, member: Self::Member) -> (&AtomicU32, &AtomicU32) {
        (self.next_word(member), self.previous_word(member))
    }

    /// The member after `member`.
    #[inline]
    fn next(&self, member: Self::Member) -> Link<Self::Member> {
        Link::from_word(self.next_word(member).load(Relaxed))
    }

    /// Sets the member after `member`.
    #[inline]
    fn set_next(&self, member: Self::Member, next: Link<Self::Member>) {
        self.next_word(member).store(next.word(), Relaxed);
    }

    /// The member before `member`.
    #[inline]
    fn previous(&self, member: Self::Member) -> Link<Self::Member> {
        Link::from_word(self.previous_word(member).load(Relaxed))
    }

    /// Sets the member before `member`.
    #[inline]
    fn set_previous(&self, member: Self::Member, previous: Link<Self::Member>) {
        self.previous_word(member).store(previous.word(), Relaxed);
    }

    /// The members after and before `member`.
    #[inline]
    fn both(&self, member: Self::Member) -> (Link<Self::Member>, Link<Self::Member>) {
        let (next, previous) = self.words(member);
        (Link::from_word(next.load(Relaxed)), Link::from_word(previous.load(Relaxed)))
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The front: taken next.
    Head,
    /// The back: taken last.
    Tail,
}

/// The back of a list: a link to its last member, or `()` in a list without such a link.
pub trait Back<M> {
    /// The back of an empty list.
    const NONE: Self;
    /// Notes that `last` is the last member now.
    fn set(&mut self, last: Link<M>);
}

impl<M> Back<M> for Link<M> {
    const NONE: Self = Self::NONE;

    #[inline(always)]
    fn set(&mut self, last: Self) {
        *self = last;
    }
}

impl<M> Back<M> for () {
    const NONE: Self = ();

    #[inline(always)]
    fn set(&mut self, _last: Link<M>) {}
}

/// A list that holds both ends or, with `()` for `B`, its front only. Its functions are O(1) unless
/// they say otherwise.
#[derive(Debug)]
pub struct List<M, B = Link<M>> {
    head: Link<M>,
    back: B,
}

/// A list that holds its front only, in half the bytes of a list with both ends.
pub type FrontList<M> = List<M, ()>;

// SAFETY: zero bytes are an empty list.
unsafe impl<M> FreshZero for List<M> {}
// SAFETY: zero bytes are an empty list.
unsafe impl<M> FreshZero for FrontList<M> {}

impl<M, B: Back<M>> List<M, B> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { head: Link::NONE, back: B::NONE }
    }
}

impl<M, B: Back<M>> Default for List<M, B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Member> List<M> {
    /// The last member.
    #[inline(always)]
    #[must_use]
    pub fn last(&self) -> Option<M> {
        self.back.get()
    }

    /// Adds `member`, which is on no list of these links, at one end.
    #[inline]
    pub fn add(&mut self, links: &impl Links<Member = M>, member: M, end: End) {
        match end {
            End::Head => self.push_front(links, member),
            End::Tail => self.push_back(links, member),
        }
    }

    /// Adds `member`, which is on no list of these links, after the last member.
    #[inline]
    pub fn push_back(&mut self, links: &impl Links<Member = M>, member: M) {
        let this = Link::to(member);
        let (next, previous) = links.words(member);
        next.store(0, Relaxed);
        previous.store(self.back.word(), Relaxed);
        match self.back.get() {
            Some(last) => links.set_next(last, this),
            None => self.head = this,
        }
        self.back = this;
    }

    /// Puts the members of `others`, in their order, before the first member of this list.
    #[inline]
    pub fn prepend(&mut self, links: &impl Links<Member = M>, others: Self) {
        let Some(last) = others.last() else { return };
        links.set_next(last, self.head);
        match self.head.get() {
            Some(head) => links.set_previous(head, others.back),
            None => self.back = others.back,
        }
        self.head = others.head;
    }
}

impl<M: Member, B: Back<M>> List<M, B> {
    /// Returns whether the list has no member.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.word() == 0
    }

    /// The link to the first member.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> Link<M> {
        self.head
    }

    /// The first member.
    #[inline(always)]
    #[must_use]
    pub fn first(&self) -> Option<M> {
        self.head.get()
    }

    /// Adds `member`, which is on no list of these links, before the first member.
    #[inline]
    pub fn push_front(&mut self, links: &impl Links<Member = M>, member: M) {
        let this = Link::to(member);
        let (next, previous) = links.words(member);
        next.store(self.head.word(), Relaxed);
        previous.store(0, Relaxed);
        match self.head.get() {
            Some(head) => links.set_previous(head, this),
            None => self.back.set(this),
        }
        self.head = this;
    }

    /// Takes off `member`, which is on this list.
    #[inline]
    pub fn remove(&mut self, links: &impl Links<Member = M>, member: M) {
        let (next, previous) = links.both(member);
        match next.get() {
            Some(next) => links.set_previous(next, previous),
            None => self.back.set(previous),
        }
        match previous.get() {
            Some(previous) => links.set_next(previous, next),
            None => self.head = next,
        }
    }

    /// The members from the first one on. A member that the iterator has returned may leave the
    /// list.
    pub fn members<'a, L: Links<Member = M>>(&self, links: &'a L) -> Members<'a, L> {
        Members { at: self.head, links }
    }

    /// Checks all equations except the tail's, and calls `check` for each member, first to last.
    /// Fails with the first equation that does not hold, or with the error of `check`. Returns the
    /// link to the last member. O(members).
    pub fn validate_front(
        &self,
        links: &impl Links<Member = M>,
        mut check: impl FnMut(M) -> Result<(), Broken>,
    ) -> Result<Link<M>, Broken> {
        let list = Check::of("list");
        let mut last = Link::NONE;
        for member in self.members(links) {
            let is_linked_back = links.previous(member) == last;
            list.at(member.number()).that(is_linked_back, "previous(next(m)) = m")?;
            check(member)?;
            last = Link::to(member);
        }
        Ok(last)
    }
}

impl<M: Member> List<M> {
    /// Checks the equations, and calls `check` for each member, first to last. Fails with the first
    /// equation that does not hold, or with the error of `check`. O(members).
    pub fn validate(
        &self,
        links: &impl Links<Member = M>,
        check: impl FnMut(M) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let last = self.validate_front(links, check)?;
        Check::of("list").that(self.back == last, "tail = the last member from the head on")
    }
}

/// See [`List::members`].
pub struct Members<'a, L: Links> {
    at: Link<L::Member>,
    links: &'a L,
}

impl<L: Links> Iterator for Members<'_, L> {
    type Item = L::Member;

    #[inline]
    fn next(&mut self) -> Option<L::Member> {
        let member = self.at.get()?;
        self.at = self.links.next(member);
        Some(member)
    }
}

#[cfg(test)]
mod tests;
