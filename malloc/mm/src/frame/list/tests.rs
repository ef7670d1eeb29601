//! Lists against double-ended queues.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const MEMBERS: u32 = 12;

/// Links in two plain arrays.
struct Words {
    next: Vec<AtomicU32>,
    previous: Vec<AtomicU32>,
}

impl Links for Words {
    type Member = Pfn;
    fn next_word(&self, member: Pfn) -> &AtomicU32 {
        &self.next[member.index()]
    }
    fn previous_word(&self, member: Pfn) -> &AtomicU32 {
        &self.previous[member.index()]
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
    /// Puts all members of the second list in front of the first.
    Prepend,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..MEMBERS, any::<bool>()).prop_map(|(at, front)| Op::Add(at, front)),
        2 => (0..MEMBERS).prop_map(Op::Remove),
        1 => Just(Op::RemoveFirst),
        1 => Just(Op::RemoveLast),
        2 => (0..MEMBERS).prop_map(Op::Move),
        1 => Just(Op::Prepend),
    ]
}

struct Both {
    links: Words,
    lists: [List<Pfn>; 2],
    /// Holds the members of the second list in reverse, through its own links.
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
            Op::Prepend => {
                let others = std::mem::take(&mut self.lists[1]);
                self.lists[0].prepend(&self.links, others);
                while let Some(last) = self.naive[1].pop_back() {
                    self.naive[0].push_front(last);
                    self.front.remove(&self.front_links, last);
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
        let words = || (0..MEMBERS).map(|_| AtomicU32::new(0)).collect();
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
    let words = || (0..MEMBERS).map(|_| AtomicU32::new(0)).collect();
    let links = Words { next: words(), previous: words() };
    let mut list = List::new();
    (0..3).for_each(|at| list.push_back(&links, Pfn(at)));
    links.set_previous(Pfn(2), Link::to(Pfn(0)));
    let broken = list.validate(&links, |_| Ok(())).expect_err("2 lies behind 1");
    assert_eq!((broken.equation, broken.at), ("previous(next(m)) = m", Some(2)));
}
