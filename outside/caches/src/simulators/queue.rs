//! Pages in an order: the newest at the front, the oldest at the end.

const NONE: u32 = u32::MAX;

/// A doubly linked list over page numbers.
///
/// Invariant: `len` pages are on the list, each once.
pub(super) struct Queue {
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Queue {
    pub(super) fn new(pages: u32) -> Self {
        let links = vec![NONE; pages as usize];
        Self { newer: links.clone(), older: links, newest: NONE, oldest: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Puts a page, which is not on the list, at the front.
    pub(super) fn push(&mut self, page: u32) {
        self.older[page as usize] = self.newest;
        self.newer[page as usize] = NONE;
        match self.newest {
            NONE => self.oldest = page,
            newest => self.newer[newest as usize] = page,
        }
        self.newest = page;
        self.len += 1;
    }

    /// Removes a page, which is on the list.
    pub(super) fn remove(&mut self, page: u32) {
        let (newer, older) = (self.newer[page as usize], self.older[page as usize]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        self.len -= 1;
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        if oldest == NONE {
            return None;
        }
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_deque_that_finds_its_members() {
        let (mut queue, mut oracle) = (Queue::new(20), VecDeque::new());
        let mut random = Random::new(5);
        for _ in 0..2000 {
            let page = random.below(20);
            match oracle.iter().position(|it| *it == page) {
                Some(place) => {
                    oracle.remove(place);
                    queue.remove(page);
                }
                None => {
                    oracle.push_front(page);
                    queue.push(page);
                }
            }
            if random.below(4) == 0 {
                assert_eq!(queue.pop(), oracle.pop_back());
            }
            assert_eq!(queue.len() as usize, oracle.len());
        }
    }
}
