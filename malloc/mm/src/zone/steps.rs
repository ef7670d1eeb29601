//! The steps by which a zone grows: numbers of pageblocks that it takes from the window at a time.

/// Zones grow by pairs of pageblocks, so that both halves of a block of order 10 are in one zone.
pub(super) const STEP_MIN: u32 = 2;
/// The largest step, 32 MiB. Steps double, so that large programs need few of them.
const STEP_MAX: u32 = 16;

pub(super) struct Steps {
    step: u32,
    /// The number of taken pageblocks when the window last refused. As long as the number stays the
    /// same, the window would refuse again.
    refused_at: Option<usize>,
}

impl Steps {
    pub(super) const fn new() -> Self {
        Self { step: STEP_MIN, refused_at: None }
    }

    /// The sizes of steps to try, one after the other; `room` pageblocks are left below the limit.
    pub(super) fn sizes(&self, room: u32) -> impl Iterator<Item = u32> + use<> {
        let first = self.step.min(room.next_multiple_of(STEP_MIN)).max(STEP_MIN);
        core::iter::successors(Some(first), |step| {
            let smaller = (step / 2).next_multiple_of(STEP_MIN).min(step - STEP_MIN);
            (smaller >= STEP_MIN).then_some(smaller)
        })
    }

    pub(super) fn granted(&mut self) {
        self.step = (self.step * 2).min(STEP_MAX);
        self.refused_at = None;
    }

    /// Notes that the window refused every size while `taken` of its pageblocks were in use.
    pub(super) fn refused(&mut self, taken: usize) {
        self.refused_at = Some(taken);
    }

    /// Returns whether the window would refuse again.
    pub(super) fn is_refused(&self, taken: usize) -> bool {
        self.refused_at == Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_up_to_32_mib_and_halve_where_the_window_refuses() {
        let mut steps = Steps::new();
        let mut taken = Vec::new();
        for _ in 0..5 {
            taken.push(steps.sizes(u32::MAX - 1).next());
            steps.granted();
        }
        assert_eq!(taken, [2, 4, 8, 16, 16].map(Some));
        assert_eq!(steps.sizes(u32::MAX - 1).collect::<Vec<_>>(), [16, 8, 4, 2]);
        assert_eq!(steps.sizes(5).collect::<Vec<_>>(), [6, 4, 2]);
        assert_eq!(steps.sizes(0).collect::<Vec<_>>(), [2]);
    }
}
