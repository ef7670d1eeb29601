//! Names of functions as text.

use quarry_wary::plain;

/// A function at an address; with inlined calls an address has several. A process can have a symbol
/// or a path of any bytes; here they have plain characters only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// Its demangled name; without a symbol the file and offset.
    pub function: String,
    /// Its symbol.
    pub system_name: String,
    /// Its source file, or empty.
    pub file: String,
    /// Its source line, or 0.
    pub line: u32,
}

impl Line {
    /// The function with this symbol.
    pub(crate) fn named(system_name: &str) -> Self {
        let function = plain(&readable(system_name)).into_owned();
        Self { function, system_name: plain(system_name).into_owned(), ..Self::default() }
    }

    /// The function at a line of a source file.
    pub(crate) fn at(self, file: &str, line: u32) -> Self {
        Self { file: plain(file).into_owned(), line, ..self }
    }

    /// Its name, and its file and line if they are known.
    #[must_use]
    pub fn text(&self) -> String {
        match self.file.is_empty() {
            true => self.function.clone(),
            false => format!("{}  {}:{}", self.function, self.file, self.line),
        }
    }
}

fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::default().no_return_type();
    let cxx =
        cpp_demangle::Symbol::new(name).ok().and_then(|it| it.demangle_with_options(&options).ok());
    cxx.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable() {
        assert_eq!(readable("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("main"), "main");
    }

    #[test]
    fn a_name_has_nothing_that_a_terminal_obeys() {
        let line = Line::named("f\x1b[31m<\u{202e}g").at("a\u{9b}2J.c", 7);
        assert_eq!(line.text(), "f?[31m<?g  a?2J.c:7");
        assert_eq!(line.system_name, "f?[31m<?g");
        assert!(Line::named("_ZN3a\x1bbE").function.chars().all(quarry_wary::is_plain));
    }
}
