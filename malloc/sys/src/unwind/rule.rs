//! Rules by which the unwinder finds a caller, each packed into one word; a table of recent ones.
//!
//! Like the kernel's ORC tables (Linux 4.14), a rule expresses the small part of DWARF in use.

use crate::primitive::{AtomicU64, Ordering::Relaxed};

/// The value to which a rule adds its offset to get the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// There is no caller.
    Outermost,
    /// The stack pointer.
    Stack,
    /// The frame pointer.
    Frame,
    /// The word at the offset from the frame pointer, in a function that has aligned its stack.
    AtFrame,
    /// The registers that the kernel saved before it ran a signal handler.
    Signal,
    /// No table describes this code.
    Unknown,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// In the register, unchanged.
    Same,
    /// In memory, at this offset from the caller's stack pointer.
    At(i16),
    /// In memory, at this offset from the frame pointer.
    AtFrame(i16),
}

/// A rule. The return address is in the word below the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) base: Base,
    pub(super) offset: i32,
    pub(super) saved: Saved,
}

const BASES: [Base; 6] =
    [Base::Outermost, Base::Stack, Base::Frame, Base::AtFrame, Base::Signal, Base::Unknown];

impl Rule {
    pub(super) const fn of(base: Base) -> Self {
        Self { base, offset: 0, saved: Saved::Same }
    }

    /// `{1 : 1 | kind of saved : 2 | base : 3 | .. | saved : 16 | offset : 32}`.
    fn to_word(self) -> u64 {
        let (kind, saved) = match self.saved {
            Saved::Same => (0, 0),
            Saved::At(offset) => (1, offset),
            Saved::AtFrame(offset) => (2, offset),
        };
        1 << 63
            | kind << 61
            | (self.base as u64) << 58
            | u64::from(saved as u16) << 32
            | u64::from(self.offset as u32)
    }

    fn from_word(word: u64) -> Option<Self> {
        let saved = (word >> 32) as u16 as i16;
        Some(Self {
            base: *BASES.get((word >> 58 & 7) as usize)?,
            offset: word as u32 as i32,
            saved: match word >> 61 & 3 {
                0 => Saved::Same,
                1 => Saved::At(saved),
                _ => Saved::AtFrame(saved),
            },
        })
    }
}

/// Entries of the table: 16 KiB, which a program without profiles does not touch.
const PLACES: usize = 1024;

/// The cache of recent rules. An entry has the rule's word, and the code's address XOR that word.
/// So a reader that gets two halves from different writers sees a wrong address.
pub(super) struct Rules([[AtomicU64; 2]; PLACES]);

impl Rules {
    pub(super) const fn new() -> Self {
        Self([const { [const { AtomicU64::new(0) }; 2] }; PLACES])
    }

    fn place(&self, code: usize) -> &[AtomicU64; 2] {
        let mixed = (code as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 54) as usize]
    }

    pub(super) fn find(&self, code: usize) -> Option<Rule> {
        let [word, check] = self.place(code);
        let word = word.load(Relaxed);
        let is_this = word != 0 && check.load(Relaxed) ^ word == code as u64;
        if is_this { Rule::from_word(word) } else { None }
    }

    pub(super) fn keep(&self, code: usize, rule: Rule) {
        let [word, check] = self.place(code);
        word.store(rule.to_word(), Relaxed);
        check.store(code as u64 ^ rule.to_word(), Relaxed);
    }

    pub(super) fn clear(&self) {
        for [word, _] in &self.0 {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }
}

const _: () = assert!(PLACES == 1 << 10, "ten bits of the product choose the place");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_fits_into_a_word() {
        for base in BASES {
            for saved in [Saved::Same, Saved::At(-16), Saved::AtFrame(0), Saved::At(i16::MIN)] {
                for offset in [8, -8, i32::MAX, i32::MIN] {
                    let rule = Rule { base, offset, saved };
                    assert_eq!(Rule::from_word(rule.to_word()), Some(rule));
                }
            }
        }
    }

    #[test]
    fn rules_are_found_until_others_take_their_place() {
        static RULES: Rules = Rules::new();
        assert_eq!(RULES.find(0), None);
        let rule = |code: usize| Rule { offset: code as i32, ..Rule::of(Base::Stack) };
        for code in (0x1000..0x9000).step_by(7) {
            RULES.keep(code, rule(code));
            assert_eq!(RULES.find(code), Some(rule(code)));
        }
        let kept = (0x1000..0x9000).filter(|code| RULES.find(*code).is_some()).count();
        assert!(kept > PLACES / 2 && kept <= PLACES, "{kept}");
        RULES.clear();
        assert!((0x1000..0x9000).all(|code| RULES.find(code).is_none()));
    }
}
