//! The one error type of all consistency checks: it names the structure and the violated equation.

use core::fmt;

/// An equation that does not hold. Creating it allocates nothing: checks may run in `malloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The structure to which the equation belongs: `"zone"`, `"barn"`.
    pub structure: &'static str,
    /// The equation that should hold.
    pub equation: &'static str,
    /// Number of the part that is broken: a frame, a pageblock or a list.
    pub at: Option<u64>,
    /// Values of both sides of the equation, left and right.
    pub sides: Option<(u64, u64)>,
}

/// Checks the equations of one structure, or of one part of it.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    structure: &'static str,
    at: Option<u64>,
}

impl Check {
    /// Checks equations of `structure`.
    #[must_use]
    pub const fn of(structure: &'static str) -> Self {
        Self { structure, at: None }
    }

    /// Checks equations of the structure's part with the number `part`.
    #[must_use]
    pub fn at(self, part: impl Into<u64>) -> Self {
        Self { at: Some(part.into()), ..self }
    }

    /// Checks that an equation `holds`.
    ///
    /// # Errors
    /// If the equation does not hold.
    #[inline]
    pub const fn that(self, holds: bool, equation: &'static str) -> Result<(), Broken> {
        let Self { structure, at } = self;
        if holds { Ok(()) } else { Err(Broken { structure, equation, at, sides: None }) }
    }

    /// Checks that both sides of an equation are the same number.
    ///
    /// # Errors
    /// If the sides differ; the error has both sides.
    #[inline]
    pub fn equal(
        self,
        left: impl Into<u64>,
        right: impl Into<u64>,
        equation: &'static str,
    ) -> Result<(), Broken> {
        let Self { structure, at } = self;
        let (left, right) = (left.into(), right.into());
        let sides = Some((left, right));
        if left == right { Ok(()) } else { Err(Broken { structure, equation, at, sides }) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} does not hold", self.structure, self.equation)?;
        if let Some(at) = self.at {
            write!(out, " at {at:#x}")?;
        }
        match self.sides {
            Some((left, right)) => write!(out, " ({left} and {right})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Broken {}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn a_broken_equation_names_its_structure_its_part_and_both_sides() {
        let zone = Check::of("zone");
        assert_eq!(zone.equal(3u32, 3u64, "free = frames listed"), Ok(()));
        let broken = zone.at(17u32).equal(3u32, 4u32, "free = frames listed");
        let text = broken.map_err(|broken| broken.to_string());
        let expected = "zone: free = frames listed does not hold at 0x11 (3 and 4)";
        assert_eq!(text, Err(expected.to_owned()));
        let broken = Check::of("list").that(false, "tail = the last member");
        let text = broken.map_err(|broken| broken.to_string());
        assert_eq!(text, Err("list: tail = the last member does not hold".to_owned()));
    }
}
