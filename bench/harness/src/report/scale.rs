//! Axes: map values to places in a picture, and choose ticks.

/// Largest quotient of two values on a linear axis: beyond it small values would coincide.
const LINEAR_SPREAD: f64 = 30.0;
/// Largest quotient of two values on a linear axis of ratios.
const RATIO_SPREAD: f64 = 3.0;
const TICKS: f64 = 5.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) text: String,
}

/// An axis; `low < high`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    places: (f64, f64),
    is_log: bool,
}

impl Scale {
    /// An axis that covers `values`: logarithmic if they spread far, else linear, from 0 if that
    /// costs little room. `places` are the coordinates of its low and its high end.
    pub(super) fn covering(values: &[f64], places: (f64, f64)) -> Self {
        let (low, high) = bounds(values);
        if low > 0.0 && high > low * LINEAR_SPREAD {
            return Self::log(low, high, places);
        }
        let low = if low > 0.0 && low < high * 0.6 { 0.0 } else { low };
        Self::linear(low, high, places)
    }

    /// Covers ratios: linear while they are close together, else logarithmic.
    pub(super) fn of_ratios(values: &[f64], places: (f64, f64)) -> Self {
        let (low, high) = bounds(values);
        match low > 0.0 && high > low * RATIO_SPREAD {
            true => Self::log(low, high, places),
            false => Self::linear(low, high, places),
        }
    }

    /// Linear from 0, or from the lowest value if that is negative.
    pub(super) fn from_zero(values: &[f64], places: (f64, f64)) -> Self {
        let (low, high) = bounds(values);
        Self::linear(low.min(0.0), high.max(0.0), places)
    }

    /// Linear from `low` to `high`, both widened to ticks.
    fn linear(low: f64, high: f64, places: (f64, f64)) -> Self {
        let (low, high) = match high > low {
            true => (low, high),
            // All values are equal, and get some room around them.
            false => (low - (low.abs() * 0.1).max(0.5), high + (high.abs() * 0.1).max(0.5)),
        };
        let step = step(high - low);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, places, is_log: false }
    }

    /// Logarithmic from `low` to `high`, both widened to 1, 2 or 5 times a power of ten.
    fn log(low: f64, high: f64, places: (f64, f64)) -> Self {
        let power = |value: f64| 10f64.powf(value.log10().floor());
        let (below, above) = (power(low), power(high));
        let steps = [1.0, 2.0, 5.0, 10.0];
        let is_below = |step: &&f64| **step <= low / below + 1e-9;
        let is_above = |step: &&f64| **step >= high / above - 1e-9;
        let first = steps.iter().rev().find(is_below).unwrap_or(&1.0);
        let last = steps.iter().find(is_above).unwrap_or(&1.0);
        Self { low: first * below, high: last * above, places, is_log: true }
    }

    /// Exactly from `low` to `high`, logarithmic if `is_log`.
    pub(super) fn exact(low: f64, high: f64, is_log: bool, places: (f64, f64)) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, places, is_log }
    }

    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// The place of a value; a value outside gets the nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        if !self.is_log {
            let step = step(self.high - self.low);
            let count = ((self.high - self.low) / step + 1e-9) as usize;
            let first = (self.low / step - 1e-9).ceil() * step;
            let value = |index: usize| first + index as f64 * step;
            let values = (0..=count).map(value).filter(|value| *value <= self.high + step * 1e-9);
            return values.map(|value| Tick { value, text: label(value, step) }).collect();
        }
        let decades = (self.high / self.low).log10();
        let multiples: &[f64] = match decades {
            d if d < 1.5 => &[1.0, 2.0, 5.0],
            d if d < 2.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = (decades / TICKS).ceil().max(1.0) as i32;
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let values = powers.flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)));
        let is_inside =
            |value: &f64| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(value);
        let tick = |value: f64| Tick { value, text: label(value, value) };
        values.filter(is_inside).map(tick).collect()
    }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::MIN, f64::max));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Returns 1, 2 or 5 times a power of ten, such that about [`TICKS`] steps fill `range`.
fn step(range: f64) -> f64 {
    let rough = range / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let multiple = [1.0, 2.0, 5.0].into_iter().find(|it| it * power >= rough * 0.999);
    multiple.unwrap_or(10.0) * power
}

/// Writes a tick's value with the digits that distinguish it from the next tick.
fn label(value: f64, step: f64) -> String {
    let (unit, suffix) = match value.abs() {
        it if it >= 1e9 => (1e9, "G"),
        it if it >= 1e6 => (1e6, "M"),
        it if it >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / unit).abs().log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize;
    let text = format!("{:.decimals$}", value / unit);
    // Rounding can leave "-0".
    let text = if text.trim_matches(['-', '0', '.']).is_empty() { "0".to_owned() } else { text };
    text + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let scale = Scale::covering(&[3.2, 9.7], (0.0, 100.0));
        assert_eq!(texts(&scale), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!((scale.at(0.0), scale.at(5.0), scale.at(10.0)), (0.0, 50.0, 100.0));
        let scale = Scale::covering(&[9.81, 9.94], (0.0, 1.0));
        assert_eq!(texts(&scale).first().map(String::as_str), Some("9.80"));
        let scale = Scale::from_zero(&[-3.0, 12.0], (0.0, 1.0));
        assert_eq!(texts(&scale), ["-5", "0", "5", "10", "15"]);
        assert_eq!(texts(&Scale::from_zero(&[4.1e6], (0.0, 1.0)))[1], "1M");
        assert_eq!(texts(&Scale::from_zero(&[41_000.0], (0.0, 1.0)))[1], "10k");
    }

    #[test]
    fn wide_spreads_are_logarithmic() {
        let scale = Scale::covering(&[2.4, 480.0], (0.0, 100.0));
        assert!(scale.is_log());
        assert_eq!(texts(&scale), ["3", "10", "30", "100", "300"]);
        assert!((scale.at(2.0) - 0.0).abs() < 1e-9 && (scale.at(500.0) - 100.0).abs() < 1e-9);
        let scale = Scale::covering(&[1e-6, 1e9], (0.0, 1.0));
        assert!((3..=7).contains(&scale.ticks().len()), "{:?}", texts(&scale));
    }

    #[test]
    fn ticks_are_few_whatever_the_values() {
        for exponent in -8..12 {
            for multiple in [1.0, 1.3, 2.7, 4.9, 7.7, 9.99] {
                let high = multiple * 10f64.powi(exponent);
                for low in [0.0, high * 0.01, high * 0.3, high * 0.9, high * 0.999, high] {
                    let scale = Scale::covering(&[low, high], (0.0, 1.0));
                    let ticks = scale.ticks();
                    assert!((2..=8).contains(&ticks.len()), "{low}..{high}: {ticks:?}");
                    assert!(scale.at(low) <= scale.at(high));
                    assert!(ticks.windows(2).all(|pair| pair[0].text != pair[1].text), "{ticks:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_and_odd_values_have_an_axis() {
        for values in [&[][..], &[f64::NAN], &[f64::INFINITY, 1.0], &[0.0]] {
            let scale = Scale::covering(values, (0.0, 1.0));
            assert!(scale.at(0.5).is_finite() && scale.ticks().len() >= 2, "{values:?}");
        }
    }
}
