//! Grid lines with their labels, around the field of a picture.

use super::card::{WIDTH, px};
use super::lane::extent;
use super::scale::Scale;
use crate::results::{Direction, Metric};
use maud::{Markup, html};

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Field {
    /// Draws vertical lines at the ticks of a horizontal axis, with labels below.
    pub(super) fn horizontal(&self, scale: &Scale, says: &str) -> Markup {
        html! {
            @for tick in scale.ticks() {
                @let place = scale.at(tick.value);
                @let x = px(place);
                @let half = extent(&tick.text) / 2.0 + 1.0;
                line.grid x1=(x) x2=(x) y1=(px(self.top)) y2=(px(self.bottom)) {}
                text x=(px(place.clamp(half, WIDTH - half))) y=(px(self.bottom + 15.0))
                    text-anchor="middle" { (tick.text) }
            }
            text.axis x=(px((self.left + self.right) / 2.0)) y=(px(self.bottom + 32.0))
                text-anchor="middle" { (says) }
        }
    }

    /// Draws a band between two values of a horizontal axis.
    pub(super) fn band(
        &self,
        scale: &Scale,
        [low, high]: [f64; 2],
        class: &str,
        hint: &str,
    ) -> Markup {
        let (from, to) = (scale.at(low), scale.at(high));
        html! {
            rect class=(class) x=(px(from)) width=(px((to - from).max(1.0))) y=(px(self.top))
                height=(px(self.bottom - self.top)) { title { (hint) } }
        }
    }

    /// Draws horizontal lines at the ticks of a vertical axis, with labels at the left.
    pub(super) fn vertical(&self, scale: &Scale, says: &str) -> Markup {
        html! {
            @for tick in scale.ticks() {
                @let y = scale.at(tick.value);
                line.grid x1=(px(self.left)) x2=(px(self.right)) y1=(px(y)) y2=(px(y)) {}
                text x=(px(self.left - 5.0)) y=(px(y + 4.0)) text-anchor="end" { (tick.text) }
            }
            text.axis x="2" y="12" { (says) }
        }
    }
}

pub(super) fn says(metric: &Metric) -> String {
    let unit = if metric.unit.is_empty() { &metric.name } else { &metric.unit };
    let better = better(metric.direction);
    fitting([format!("{unit}{better}"), format!("value{better}")])
}

/// Returns the first text that fits below a picture, or the last one.
pub(super) fn fitting<const N: usize>(texts: [String; N]) -> String {
    let fits = |text: &String| extent(text) <= WIDTH - 8.0;
    let at = texts.iter().position(fits).unwrap_or(N - 1);
    texts.into_iter().nth(at).unwrap_or_default()
}

pub(super) fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::Higher => ", higher is better",
        Direction::Lower => ", lower is better",
        Direction::None => "",
    }
}
