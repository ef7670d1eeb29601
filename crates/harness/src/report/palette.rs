//! One colour and one shape for each variant, in all pictures.

use maud::{Markup, PreEscaped, html};

/// Colours that differ for eyes that tell few apart (after Okabe and Ito), for a light and for a
/// dark page; each has a contrast of at least 3 to 1 to its page.
const COLOURS: [(&str, &str); 8] = [
    ("#c2500a", "#f28e4b"),
    ("#0068ad", "#5ab0ec"),
    ("#00805c", "#2fc496"),
    ("#a8447f", "#e28fc0"),
    ("#8a6d00", "#e3c238"),
    ("#5b4fc4", "#a79bf5"),
    ("#3d7f8c", "#7fd0dd"),
    ("#8c5a3c", "#cfa183"),
];

/// A variant as pictures show it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Swatch {
    label: String,
    is_copy: bool,
}

/// The variants in the order in which they were met.
#[derive(Clone, Debug, Default)]
pub(super) struct Palette {
    swatches: Vec<Swatch>,
}

impl Palette {
    /// Gives a variant the next colour, unless it has one. A/A copies are grey: they are no rivals.
    pub(super) fn add(&mut self, label: &str, is_copy: bool) {
        if !self.swatches.iter().any(|swatch| swatch.label == label) {
            self.swatches.push(Swatch { label: label.to_owned(), is_copy });
        }
    }

    /// Returns the class of a variant's elements.
    pub(super) fn class(&self, label: &str) -> String {
        format!("v{}", self.index(label))
    }

    fn index(&self, label: &str) -> usize {
        self.swatches.iter().position(|swatch| swatch.label == label).unwrap_or(0)
    }

    /// Returns the number of colours before that of a swatch.
    fn rank(&self, index: usize) -> usize {
        self.swatches[..index].iter().filter(|swatch| !swatch.is_copy).count()
    }

    /// Draws the shape of a variant with the centre at a place.
    pub(super) fn marker(&self, label: &str, (x, y): (f64, f64), radius: f64) -> Markup {
        let r = radius;
        let points = |points: &[(f64, f64)]| -> String {
            points.iter().map(|(dx, dy)| format!("{:.1},{:.1} ", x + dx * r, y + dy * r)).collect()
        };
        html! {
            @match self.rank(self.index(label)) % 4 {
                0 => circle class="marker" cx=(format!("{x:.1}")) cy=(format!("{y:.1}"))
                    r=(format!("{r:.1}")) {},
                1 => rect class="marker" x=(format!("{:.1}", x - r * 0.9))
                    y=(format!("{:.1}", y - r * 0.9)) width=(format!("{:.1}", r * 1.8))
                    height=(format!("{:.1}", r * 1.8)) {},
                2 => polygon class="marker"
                    points=(points(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)])) {},
                _ => polygon class="marker"
                    points=(points(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)])) {},
            }
        }
    }

    /// Returns switches for the variants of `labels`.
    pub(super) fn legend(&self, labels: &[&str]) -> Markup {
        html! {
            div.legend role="group" aria-label="Variants" {
                @for label in labels {
                    label class=(format!("switch {}", self.class(label))) {
                        input type="checkbox" checked data-variant=(self.class(label));
                        svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" {
                            (self.marker(label, (7.0, 7.0), 5.0))
                        }
                        span { (label) }
                    }
                }
            }
        }
    }

    /// Returns the rules for classes.
    pub(super) fn style(&self) -> PreEscaped<String> {
        let colours = |pick: fn(&(&'static str, &'static str)) -> &'static str| -> String {
            let names = COLOURS.iter().enumerate();
            names.map(|(index, colour)| format!("--p{index}:{};", pick(colour))).collect()
        };
        let dark = colours(|colour| colour.1);
        let mut text = format!(
            ":root{{{}}}\n@media screen and (prefers-color-scheme:dark)\
             {{:root:not([data-theme=light]){{{dark}}}}}\n\
             @media screen{{:root[data-theme=dark]{{{dark}}}}}\n",
            colours(|colour| colour.0)
        );
        for (index, swatch) in self.swatches.iter().enumerate() {
            let rank = self.rank(index);
            let colour = match swatch.is_copy {
                true => "var(--muted)".to_owned(),
                false => format!("var(--p{})", rank % COLOURS.len()),
            };
            // Colours come again after eight: then with dashes.
            let dash = if rank >= COLOURS.len() || swatch.is_copy { "5 3" } else { "none" };
            text += &format!(
                ".v{index}{{--c:{colour};--dash:{dash}}}.no-v{index} \
                 :is(.card,.wide) .v{index}{{display:none}}\n"
            );
        }
        PreEscaped(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_one_colour_everywhere_and_copies_take_none() {
        let mut palette = Palette::default();
        for (label, is_copy) in [("a", false), ("a A/A", true), ("b", false), ("a", false)] {
            palette.add(label, is_copy);
        }
        assert_eq!([palette.class("a"), palette.class("b")], ["v0", "v2"]);
        let style = palette.style().into_string();
        assert!(style.contains(".v0{--c:var(--p0)") && style.contains(".v2{--c:var(--p1)"));
        assert!(style.contains(".v1{--c:var(--muted);--dash:5 3}"), "{style}");
    }

    #[test]
    fn colours_stand_out_from_their_page() {
        let luminance = |colour: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        for (light, dark) in COLOURS {
            let on_light = 1.05 / (luminance(light) + 0.05);
            let on_dark = (luminance(dark) + 0.05) / (luminance("#1a2029") + 0.05);
            assert!(on_light > 4.0 && on_dark > 4.0, "{light} {on_light:.1} {dark} {on_dark:.1}");
        }
    }
}
