//! Lines over time as SVG, readable on a light and on a dark page.

use crate::colours::{self, Colour};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// The line of one variant.
pub struct Course {
    /// The name in the legend.
    pub name: String,
    /// Points in the order of time.
    pub points: Vec<(f64, f64)>,
}

/// A picture of lines over time.
pub struct Picture {
    /// The title above it.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// The lines; the last one lies on top.
    pub lines: Vec<Course>,
}

const SIZE: (u32, u32) = (880, 420);

/// CSS rules for ground, text and grid, which override the attributes of SVG elements.
const STYLE: &str = ".ground { fill: #ffffff } text { fill: #1d2530; stroke: none }\
    line[stroke=\"#808080\"], polyline[stroke=\"#808081\"] { stroke: #8fa1b7 }";
const DARK: &str = ".ground { fill: #12161c } text { fill: #e6ebf2 } ";

impl Picture {
    /// Returns the picture as SVG.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let bound = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        // Room for the names, at the right of the lines.
        let (right, top) = (bound(|point| point.0) * 1.25, bound(|point| point.1) * 1.05);
        let left = points().map(|point| point.0).fold(0.0, f64::min);
        if right <= left || top <= 0.0 {
            return Err(anyhow!("nothing to draw in \"{}\"", self.title));
        }
        let mut text = String::new();
        self.draw(&mut text, (left, right), top).map_err(|error| anyhow!("{error}"))?;
        Ok(self.dressed(&text))
    }

    fn draw(
        &self,
        into: &mut String,
        (left, right): (f64, f64),
        top: f64,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let ink = RGBColor(128, 128, 128);
        let text = |size: i32| ("sans-serif", size).into_font().color(&ink);
        let area = SVGBackend::with_string(into, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, text(17))
            .margin(14)
            .x_label_area_size(40)
            .y_label_area_size(58)
            .build_cartesian_2d(left..right, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(ink.mix(0.25))
            .axis_style(ink)
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(text(13))
            .axis_desc_style(text(13))
            .draw()?;
        for (index, line) in self.lines.iter().enumerate() {
            let rank = self.lines.len() - 1 - index;
            let width = if rank == 0 { 3 } else { 2 };
            let [red, green, blue] = colours::parts(&colours::of(&line.name).light);
            let style = RGBColor(red, green, blue).stroke_width(width);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(text(13))
            .legend_area_size(26)
            .margin(8)
            .draw()?;
        area.present()?;
        Ok(())
    }

    fn dressed(&self, svg: &str) -> String {
        let end = svg.find('>').map_or(0, |at| at + 1);
        let (head, rest) = svg.split_at(end);
        let (width, height) = SIZE;
        let ground =
            format!("<rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n");
        let dark: String = self.lines.iter().map(|line| on_dark(&line.name)).collect();
        let style = format!("<style>{STYLE}@media (prefers-color-scheme: dark) {{ {DARK}{dark}}}");
        let title = &self.title;
        format!("{head}\n<title>{title}</title>\n{style}</style>\n{ground}{}", rest.trim_start())
    }
}

/// The CSS rule for a variant's line on dark ground.
fn on_dark(name: &str) -> String {
    let Colour { light, dark } = colours::of(name);
    format!("[stroke=\"{}\"] {{ stroke: {dark} }} ", light.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: Vec<(f64, f64)>) -> Picture {
        let line = |name: &str| Course { name: name.to_owned(), points: points.clone() };
        let lines = vec![line("jemalloc"), line("two")];
        Picture { title: "A title".to_owned(), x: "seconds", y: "MiB", lines }
    }

    #[test]
    fn every_line_is_drawn_and_named() {
        let svg = picture(vec![(-1.0, 0.0), (0.0, 500.0), (2.0, 3.0)]).svg().unwrap();
        assert!(svg.starts_with("<svg"), "{svg}");
        for text in ["A title", "seconds", "MiB", "jemalloc", "two", "prefers-color-scheme"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let longest = svg.matches("<polyline").count();
        assert!(longest >= 2, "{longest} lines");
        // plotters writes colours in capitals, and a style matches letters exactly.
        let Colour { light, dark } = colours::of("jemalloc");
        let light = light.to_uppercase();
        assert!(svg.matches(&format!("stroke=\"{light}\"")).count() >= 2, "{svg}");
        assert!(svg.contains(&format!("[stroke=\"{light}\"] {{ stroke: {dark} }}")), "{svg}");
    }

    #[test]
    fn nothing_is_no_picture() {
        assert!(picture(Vec::new()).svg().is_err());
    }
}
