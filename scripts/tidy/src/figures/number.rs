//! A figure with its interval, as the tables print it, and how it is printed for readers.

/// A centre and the 95 % interval around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The estimate.
    pub centre: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Figure {
    /// Reads `1.595 [1.467, 1.797] *`, and ignores what follows the interval. A figure of too few
    /// samples has no interval, so it may be any number above 0.
    #[must_use]
    pub fn parse(cell: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse().ok();
        let Some((centre, rest)) = cell.split_once('[') else {
            return Some(Self { centre: number(cell)?, low: 0.0, high: f64::INFINITY });
        };
        let (low, rest) = rest.split_once(',')?;
        let (high, _) = rest.split_once(']')?;
        Some(Self { centre: number(centre)?, low: number(low)?, high: number(high)? })
    }

    /// The ratio Quarry / peer, if `self` is the ratio peer / Quarry.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { centre: 1.0 / self.centre, low: 1.0 / self.high, high: 1.0 / self.low }
    }

    /// The centre and the interval, if there is one.
    #[must_use]
    pub fn shown(self) -> String {
        if self.high.is_infinite() {
            return short(self.centre);
        }
        format!("{} [{}, {}]", short(self.centre), short(self.low), short(self.high))
    }
}

/// Prints `value` with two significant digits below 1, three from 1 on, no decimals from 100 on.
#[must_use]
pub fn short(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        size if size >= 0.01 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// The geometric mean.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}
