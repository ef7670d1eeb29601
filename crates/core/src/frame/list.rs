//! The one intrusive list: doubly linked, through words that belong to its members.
//!
//! A list knows its two ends, or its front only. [`Links`] says where the links of a member lie: in
//! the frame table, in the descriptor of a pageblock, or in a table of a slab policy. A list writes
//! nothing into the memory that its members describe: that would bring purged pages back in.
//!
//! Equations: `head` is none iff the tail is; `previous(head)` and `next(tail)` are none;
//! `previous(next(m)) = m` for every member `m` but the tail.

use super::array::FreshZero;
use super::pfn::{PageblockIndex, Pfn};
use core::marker::PhantomData;
use quarry_sys::broken::{Broken, Check};

/// A member of a list: anything that a number below `u32::MAX` names.
pub trait Member: Copy + Eq {
    /// The number.
    fn number(self) -> u32;
    /// The member with this number.
    fn numbered(number: u32) -> Self;
}

impl Member for Pfn {
    #[inline(always)]
    fn number(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn numbered(number: u32) -> Self {
        Self(number)
    }
}

impl Member for PageblockIndex {
    #[inline(always)]
    fn number(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn numbered(number: u32) -> Self {
        Self(number)
    }
}

/// A member or none, as one word: 0 is none, so that fresh memory links nothing, and `n + 1` is the
/// member with the number `n`.
#[repr(transparent)]
#[derive(Debug, PartialEq, Eq)]
pub struct Link<M>(u32, PhantomData<M>);

impl<M> Clone for Link<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Link<M> {}

impl<M> Default for Link<M> {
    #[inline(always)]
    fn default() -> Self {
        Self::NONE
    }
}

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

impl<M: Member> From<Option<M>> for Link<M> {
    #[inline(always)]
    fn from(member: Option<M>) -> Self {
        member.map_or(Self::NONE, Self::to)
    }
}

/// The place of the links of members. By one kind of links a member is on at most one list at a
/// time.
pub trait Links {
    /// The members that are linked.
    type Member: Member;
    /// The member behind `member`.
    fn next(&self, member: Self::Member) -> Link<Self::Member>;
    /// Sets the member behind `member`.
    fn set_next(&self, member: Self::Member, next: Link<Self::Member>);
    /// The member in front of `member`.
    fn previous(&self, member: Self::Member) -> Link<Self::Member>;
    /// Sets the member in front of `member`.
    fn set_previous(&self, member: Self::Member, previous: Link<Self::Member>);

    /// The members behind and in front of `member`.
    #[inline]
    fn both(&self, member: Self::Member) -> (Link<Self::Member>, Link<Self::Member>) {
        (self.next(member), self.previous(member))
    }

    /// Sets the members behind and in front of `member`.
    #[inline]
    fn set_both(
        &self,
        member: Self::Member,
        next: Link<Self::Member>,
        previous: Link<Self::Member>,
    ) {
        self.set_next(member, next);
        self.set_previous(member, previous);
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

/// The back of a list: a link to the last member, or nothing.
pub trait Back<M> {
    /// Notes that `last` is the last member now.
    fn set(&mut self, last: Link<M>);
}

impl<M> Back<M> for Link<M> {
    #[inline(always)]
    fn set(&mut self, last: Self) {
        *self = last;
    }
}

impl<M> Back<M> for () {
    #[inline(always)]
    fn set(&mut self, _last: Link<M>) {}
}

/// A list that knows both ends; or, with `()` for `B`, its front only. All operations are O(1)
/// unless they say otherwise.
#[derive(Debug)]
pub struct List<M, B = Link<M>> {
    head: Link<M>,
    back: B,
}

/// A list that knows its front only: half the size, for those that never look at their back.
pub type FrontList<M> = List<M, ()>;

// SAFETY: zero bytes are an empty list.
unsafe impl<M> FreshZero for List<M> {}
// SAFETY: as above.
unsafe impl<M> FreshZero for FrontList<M> {}

impl<M, B: Default> Default for List<M, B> {
    fn default() -> Self {
        Self { head: Link::NONE, back: B::default() }
    }
}

impl<M> List<M> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { head: Link::NONE, back: Link::NONE }
    }
}

impl<M> FrontList<M> {
    /// An empty list.
    #[must_use]
    pub const fn new_front() -> Self {
        Self { head: Link::NONE, back: () }
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

    /// Adds `member`, which is on no list of these links, behind the last one.
    #[inline]
    pub fn push_back(&mut self, links: &impl Links<Member = M>, member: M) {
        let this = Link::to(member);
        links.set_both(member, Link::NONE, self.back);
        match self.back.get() {
            Some(last) => links.set_next(last, this),
            None => self.head = this,
        }
        self.back = this;
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

    /// Adds `member`, which is on no list of these links, in front of the first one.
    #[inline]
    pub fn push_front(&mut self, links: &impl Links<Member = M>, member: M) {
        let this = Link::to(member);
        links.set_both(member, self.head, Link::NONE);
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

    /// The members from the first one on. Each may leave the list once it has been returned.
    pub fn members<'a, L: Links<Member = M>>(&self, links: &'a L) -> Members<'a, L> {
        Members { at: self.head, links }
    }

    /// Checks the equations but that of the tail, and calls `check` for each member, first to last.
    /// Returns the link to the last one. O(members).
    ///
    /// # Errors
    /// The first equation that does not hold, or what `check` says.
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
    /// Checks the equations, and calls `check` for each member, first to last. O(members).
    ///
    /// # Errors
    /// The first equation that does not hold, or what `check` says.
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::VecDeque;

    const MEMBERS: u32 = 12;

    /// Links in two plain arrays.
    struct Words {
        next: Vec<Cell<u32>>,
        previous: Vec<Cell<u32>>,
    }

    impl Links for Words {
        type Member = Pfn;
        fn next(&self, member: Pfn) -> Link<Pfn> {
            Link::from_word(self.next[member.index()].get())
        }
        fn set_next(&self, member: Pfn, next: Link<Pfn>) {
            self.next[member.index()].set(next.word());
        }
        fn previous(&self, member: Pfn) -> Link<Pfn> {
            Link::from_word(self.previous[member.index()].get())
        }
        fn set_previous(&self, member: Pfn, previous: Link<Pfn>) {
            self.previous[member.index()].set(previous.word());
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u32, bool),
        Remove(u32),
        RemoveFirst,
        RemoveLast,
        /// Moves a member from one of two lists to the other, which has the same links.
        Move(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..MEMBERS, any::<bool>()).prop_map(|(at, front)| Op::Add(at, front)),
            2 => (0..MEMBERS).prop_map(Op::Remove),
            1 => Just(Op::RemoveFirst),
            1 => Just(Op::RemoveLast),
            2 => (0..MEMBERS).prop_map(Op::Move),
        ]
    }

    struct Both {
        links: Words,
        lists: [List<Pfn>; 2],
        /// Has the members of the second list in reverse, by links of its own.
        front: FrontList<Pfn>,
        front_links: Words,
        naive: [VecDeque<Pfn>; 2],
    }

    impl Both {
        fn add(&mut self, list: usize, member: Pfn, end: End) {
            self.lists[list].add(&self.links, member, end);
            if list == 1 {
                self.front.push_front(&self.front_links, member);
            }
            match end {
                End::Head => self.naive[list].push_front(member),
                End::Tail => self.naive[list].push_back(member),
            }
        }

        fn remove(&mut self, list: usize, member: Pfn) {
            self.lists[list].remove(&self.links, member);
            if list == 1 {
                self.front.remove(&self.front_links, member);
            }
            self.naive[list].retain(|other| *other != member);
        }

        fn list_of(&self, member: Pfn) -> Option<usize> {
            self.naive.iter().position(|naive| naive.contains(&member))
        }

        fn apply(&mut self, op: &Op) {
            match *op {
                Op::Add(at, front) if self.list_of(Pfn(at)).is_none() => {
                    self.add(0, Pfn(at), if front { End::Head } else { End::Tail });
                }
                Op::Remove(at) => {
                    if let Some(list) = self.list_of(Pfn(at)) {
                        self.remove(list, Pfn(at));
                    }
                }
                Op::RemoveFirst => {
                    if let Some(first) = self.lists[0].first() {
                        self.remove(0, first);
                    }
                }
                Op::RemoveLast => {
                    if let Some(last) = self.lists[0].last() {
                        self.remove(0, last);
                    }
                }
                Op::Move(at) => {
                    if let Some(list) = self.list_of(Pfn(at)) {
                        self.remove(list, Pfn(at));
                        self.add(1 - list, Pfn(at), End::Tail);
                    }
                }
                Op::Add(..) => {}
            }
        }

        fn check(&self) {
            for (list, naive) in self.lists.iter().zip(&self.naive) {
                assert!(list.members(&self.links).eq(naive.iter().copied()));
                assert_eq!(
                    (list.first(), list.last()),
                    (naive.front().copied(), naive.back().copied())
                );
                assert_eq!(list.is_empty(), naive.is_empty());
                assert_eq!(list.validate(&self.links, |_| Ok(())), Ok(()));
            }
            let naive = &self.naive[1];
            assert!(self.front.members(&self.front_links).eq(naive.iter().rev().copied()));
            let last = self.front.validate_front(&self.front_links, |_| Ok(()));
            assert_eq!(last.map(Link::get), Ok(naive.front().copied()));
        }
    }

    proptest! {
        #[test]
        fn lists_do_what_double_ended_queues_do(ops in prop::collection::vec(op(), 1..200)) {
            let words = || (0..MEMBERS).map(|_| Cell::new(0)).collect();
            let mut both = Both {
                links: Words { next: words(), previous: words() },
                lists: Default::default(),
                front: FrontList::default(),
                front_links: Words { next: words(), previous: words() },
                naive: Default::default(),
            };
            for op in &ops {
                both.apply(op);
                both.check();
            }
        }
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_found() {
        let words = || (0..MEMBERS).map(|_| Cell::new(0)).collect();
        let links = Words { next: words(), previous: words() };
        let mut list = List::new();
        (0..3).for_each(|at| list.push_back(&links, Pfn(at)));
        links.set_previous(Pfn(2), Link::to(Pfn(0)));
        let broken = list.validate(&links, |_| Ok(())).expect_err("2 lies behind 1");
        assert_eq!((broken.equation, broken.at), ("previous(next(m)) = m", Some(2)));
    }
}
