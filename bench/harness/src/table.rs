//! Tables for a terminal or a page, and the format of numbers in them.

use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, TableStyle};
use console::Term;

/// The kind of an entry, by which renderers align and colour it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// A number.
    #[default]
    Number,
    /// Words, aligned left.
    Words,
    /// The name of a variant, in its colour.
    Variant,
    /// A gain.
    Better,
    /// A loss.
    Worse,
    /// A less important entry.
    Muted,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The text.
    pub text: String,
    /// Its kind.
    pub tone: Tone,
    /// A text that a page shows while the reader points at the entry.
    pub hint: Option<String>,
    /// A second, smaller line on a page; a terminal leaves it out.
    pub detail: Option<String>,
}

impl Entry {
    /// Makes an entry of a kind.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, ..Self::from(text) }
    }
}

impl<T: Into<String>> From<T> for Entry {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Words.
pub fn words(text: impl Into<String>) -> Entry {
    Entry::toned(Tone::Words, text)
}

/// The name of a variant.
pub fn variant(label: &str) -> Entry {
    Entry::toned(Tone::Variant, label)
}

/// A table. The tone of a head decides the kind of its column.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Names of columns.
    pub head: Vec<Entry>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<Entry>>,
}

impl Table {
    /// Makes a table of texts: words in the first column, numbers in the others by default.
    pub fn of(
        head: impl IntoIterator<Item = impl Into<Entry>>,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = impl Into<Entry>>>,
    ) -> Self {
        let mut head: Vec<Entry> = head.into_iter().map(Into::into).collect();
        if let Some(first) = head.first_mut() {
            first.tone = Tone::Words;
        }
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect());
        Self { head, rows: rows.collect() }
    }

    /// Returns the table as Markdown, for terminals as well. A narrow terminal gets several tables,
    /// one below the other, each with some of the columns.
    pub fn text(&self) -> String {
        self.text_of(usize::MAX)
    }

    /// Returns the same for lines of at most `most` letters, also where there is no terminal.
    pub fn text_of(&self, most: usize) -> String {
        let columns = Term::stdout().size_checked().map(|(_, columns)| columns.into());
        self.within(columns.map_or(most, |columns: usize| columns.min(most)))
    }

    /// Returns tables of at most `room` letters per line, each with the columns that name its rows
    /// and as many other columns as fit, but at least one.
    fn within(&self, room: usize) -> String {
        let is_name = |head: &&Entry| matches!(head.tone, Tone::Words | Tone::Variant);
        let names = self.head.iter().take_while(is_name).count();
        let is_narrow = |table: &Self| {
            table.grid(ASCII_MARKDOWN).lines().map(|line| line.chars().count()).max() <= Some(room)
        };
        if is_narrow(self) || names == self.head.len() {
            return self.wrapped(ASCII_MARKDOWN, room);
        }
        let mut parts: Vec<Self> = Vec::new();
        let mut columns: Vec<usize> = (0..names).collect();
        for column in names..self.head.len() {
            columns.push(column);
            let part = self.of_columns(&columns);
            match (is_narrow(&part), parts.last_mut()) {
                (true, Some(last)) if columns.len() > names + 1 => *last = part,
                _ => {
                    columns = (0..names).chain([column]).collect();
                    parts.push(self.of_columns(&columns));
                }
            }
        }
        let texts = parts.iter().map(|part| part.wrapped(ASCII_MARKDOWN, room));
        texts.collect::<Vec<String>>().join("\n\n")
    }

    /// Returns the table with cells that wrap if it is wider than `room`.
    fn wrapped(&self, style: TableStyle, room: usize) -> String {
        let mut grid = self.grid(style);
        if grid.lines().any(|line| line.trim_end().chars().count() > room) {
            let room = u16::try_from(room).unwrap_or(u16::MAX);
            grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(room);
        }
        grid.to_string()
    }

    fn of_columns(&self, columns: &[usize]) -> Self {
        let of = |row: &Vec<Entry>| columns.iter().filter_map(|at| row.get(*at).cloned()).collect();
        Self { head: of(&self.head), rows: self.rows.iter().map(of).collect() }
    }

    /// Returns the table in columns without ruled lines, as classic tables are. If a terminal is
    /// too narrow, the words of a cell wrap.
    pub fn plain(&self) -> String {
        let room = Term::stdout().size_checked().map_or(usize::MAX, |(_, room)| room.into());
        let lines = self.wrapped(NOTHING, room);
        lines.lines().map(str::trim_end).collect::<Vec<&str>>().join("\n")
    }

    fn grid(&self, style: TableStyle) -> Grid {
        let mut grid = Grid::new();
        grid.set_content_arrangement(ContentArrangement::Disabled);
        grid.load_style(style);
        let texts = |row: &[Entry]| row.iter().map(|it| it.text.clone()).collect::<Vec<String>>();
        grid.set_header(texts(&self.head));
        grid.add_rows(self.rows.iter().map(|row| texts(row)));
        for (column, head) in grid.column_iter_mut().zip(&self.head) {
            if head.tone != Tone::Words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        grid
    }
}

/// Returns the text of a table with words in the first column and numbers in the others.
pub fn render(head: Vec<String>, rows: Vec<Vec<String>>) -> String {
    Table::of(head, rows).text()
}

/// Writes a count of things: `1 run`, `2 runs`.
pub fn counted(count: impl ToString, what: &str) -> String {
    let count = count.to_string();
    if count == "1" { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Writes three significant digits (two below 1), or all digits before the point.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 0.0995 => 3,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Writes a ratio, with three digits after the point from 0.1 to 10.
pub fn multiple(ratio: f64) -> String {
    if (0.1..10.0).contains(&ratio) { format!("{ratio:.3}") } else { figure(ratio) }
}

/// Writes a [`figure`], or `absent` without a value.
pub fn figure_or(value: Option<f64>, absent: &str) -> String {
    value.map_or(absent.to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let of = [0.004, 0.38, 3.8049, 9.996, 16.04, 99.96, 12345.6].map(figure);
        assert_eq!(of, ["0.004", "0.38", "3.80", "10.0", "16.0", "100", "12346"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!([1.0, 1.5].map(|count| counted(count, "CPU")), ["1 CPU", "1.5 CPUs"]);
    }

    #[test]
    fn ratios_near_one_keep_their_digits() {
        assert_eq!([1.0042, 12.345, 0.0471].map(multiple), ["1.004", "12.3", "0.047"]);
    }

    #[test]
    fn a_narrow_terminal_gets_several_tables() {
        let head = [words("workload"), words("variant"), "ns".into(), "ratio".into(), "n".into()];
        let row = |name| vec![name, "quarry", "123.4", "1.000 [0.999, 1.001]", "8"];
        let table = Table::of(head, vec![row("pair-16"), row("")]);
        assert_eq!(table.within(200), table.grid(ASCII_MARKDOWN).to_string());
        for room in [32, 45, 55] {
            let text = table.within(room);
            let parts: Vec<&str> = text.split("\n\n").collect();
            assert!(parts.len() > 1, "{text}");
            let widest = text.lines().map(str::len).max();
            assert!(widest <= Some(room), "{room}:\n{text}");
            // With less room the words of a cell wrap.
            let cells = ["123.4", "1.000 [0.999, 1.001]", "| 8 |"];
            for cell in cells.into_iter().filter(|_| room > 40) {
                assert_eq!(text.matches(cell).count(), 2, "{text}");
            }
            assert!(room < 40 || text.matches("pair-16").count() == parts.len(), "{text}");
        }
    }

    #[test]
    fn words_wrap_where_they_do_not_fit() {
        let head = [words("experiment"), words("about")];
        let table = Table::of(head, vec![vec!["peers", "a long line of words about it"]]);
        for style in [ASCII_MARKDOWN, NOTHING] {
            assert_eq!(table.wrapped(style, 100), table.grid(style).to_string());
            let text = table.wrapped(style, 30);
            assert!(text.lines().all(|line| line.trim_end().len() <= 30), "{text}");
            assert!(text.contains("peers") && text.contains("about it"), "{text}");
        }
        assert_eq!(table.within(30), table.wrapped(ASCII_MARKDOWN, 30));
    }

    #[test]
    fn tables_are_markdown() {
        let head = [Entry::from("name"), "ns".into(), words("why")];
        let text = Table::of(head, vec![vec!["a", "1", "x"], vec!["bb", "22", "yy"]]).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| name | ns | why |");
        assert_eq!(lines[2], "| a    |  1 | x   |");
        assert_eq!(lines[3], "| bb   | 22 | yy  |");
        assert!(lines[1].starts_with("|---"), "{}", lines[1]);
    }
}
