//! The colour and shape of each variant in all pictures.

use crate::colours::{self, Colour};
use maud::{Markup, PreEscaped, html};

const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];
const SHAPES: usize = 4;
const COPY_DASH: &str = "5 3";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Swatch {
    label: String,
    /// `None` for the A/A copy, which is grey.
    colour: Option<Colour>,
    /// The number of earlier variants with the same colour.
    twins: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Palette {
    swatches: Vec<Swatch>,
}

impl Palette {
    /// Gives the label of a variant the colour of its name, unless it has one.
    pub(super) fn add(&mut self, label: &str, name: &str, is_copy: bool) {
        if self.swatches.iter().any(|swatch| swatch.label == label) {
            return;
        }
        let colour = (!is_copy).then(|| colours::of(name));
        let twins = self.swatches.iter().filter(|swatch| swatch.colour == colour).count();
        self.swatches.push(Swatch { label: label.to_owned(), colour, twins });
    }

    pub(super) fn class(&self, label: &str) -> String {
        format!("v{}", self.index(label))
    }

    fn index(&self, label: &str) -> usize {
        self.swatches.iter().position(|swatch| swatch.label == label).unwrap_or(0)
    }

    /// Draws the shape of a variant around a centre. Neighbours in the legend differ in shape.
    pub(super) fn marker(&self, label: &str, (x, y): (f64, f64), radius: f64) -> Markup {
        let r = radius;
        let points = |points: &[(f64, f64)]| -> String {
            points.iter().map(|(dx, dy)| format!("{:.1},{:.1} ", x + dx * r, y + dy * r)).collect()
        };
        html! {
            @match self.index(label) % SHAPES {
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

    pub(super) fn legend(&self, labels: &[&str]) -> Markup {
        html! {
            div.legend role="group" aria-label="Variants" {
                @for label in labels {
                    label class=(format!("switch {}", self.class(label))) {
                        input type="checkbox" checked data-variant=(self.class(label)) hidden;
                        svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" {
                            (self.marker(label, (7.0, 7.0), 5.0))
                        }
                        span { (label) }
                    }
                }
            }
        }
    }

    pub(super) fn style(&self) -> PreEscaped<String> {
        let colours = |pick: fn(&Colour) -> &String| -> String {
            let swatches = self.swatches.iter().enumerate();
            let known = swatches.filter_map(|(index, it)| Some((index, it.colour.as_ref()?)));
            known.map(|(index, colour)| format!("--p{index}:{};", pick(colour))).collect()
        };
        let dark = colours(|colour| &colour.dark);
        let mut text = format!(
            ":root{{{}}}\n@media screen and (prefers-color-scheme:dark)\
             {{:root:not([data-theme=light]){{{dark}}}}}\n\
             @media screen{{:root[data-theme=dark]{{{dark}}}}}\n",
            colours(|colour| &colour.light)
        );
        for (index, swatch) in self.swatches.iter().enumerate() {
            let (colour, dash) = match swatch.colour {
                None => ("var(--muted)".to_owned(), COPY_DASH),
                Some(_) => (format!("var(--p{index})"), DASHES[swatch.twins % DASHES.len()]),
            };
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
    fn a_variant_has_the_colour_of_its_name_and_copies_have_none() {
        let mut palette = Palette::default();
        palette.add("glibc", "glibc", false);
        palette.add("glibc A/A", "glibc A/A", true);
        palette.add("quarry (one)", "quarry", false);
        palette.add("quarry (two)", "quarry", false);
        palette.add("glibc", "glibc", false);
        assert_eq!(["glibc", "quarry (two)"].map(|it| palette.class(it)), ["v0", "v3"]);
        let style = palette.style().into_string();
        let Colour { light, dark } = colours::of("quarry");
        for (index, dash) in [(2, "none"), (3, "7 3")] {
            let rule = format!(".v{index}{{--c:var(--p{index});--dash:{dash}}}");
            assert!(style.contains(&rule), "{rule}\n{style}");
            assert!(style.contains(&format!("--p{index}:{light};")), "{style}");
            assert_eq!(style.matches(&format!("--p{index}:{dark};")).count(), 2, "{style}");
        }
        assert!(style.contains(".v1{--c:var(--muted);--dash:5 3}"), "{style}");
    }
}
