//! Inherent methods, and their calls through `self` and `Self`: a type whose `impl` blocks stand in
//! several files ties these files together without a single `use`.

use crate::rust::{item_end, name_at, words};

/// An `impl` block.
#[derive(Debug, PartialEq, Eq)]
pub struct Impl {
    /// The name of the type that it is for.
    pub of: String,
    /// The names of the methods that it defines; none for the `impl` of a trait.
    pub methods: Vec<String>,
    /// The methods that it calls through `self` and `Self`, each with its offset in the file.
    pub calls: Vec<(String, usize)>,
}

/// The `impl` blocks of blanked code.
#[must_use]
pub fn impls(code: &str) -> Vec<Impl> {
    words(code, "impl").into_iter().filter_map(|offset| block(code, offset)).collect()
}

/// The block at the word `impl`; `None` where the word is part of a type.
fn block(code: &str, start: usize) -> Option<Impl> {
    let before = code[..start].trim_end_matches(' ').trim_end_matches("unsafe").trim_end();
    if !before.is_empty() && !before.ends_with([';', '}', '{', ']']) {
        return None;
    }
    let open = start + code[start..].find('{')?;
    let header = without_generics(&code[start + "impl".len()..open]);
    let header = header.split(" where").next()?.trim();
    let (is_inherent, of) = match header.split_once(" for ") {
        Some((_, of)) => (false, of),
        None => (true, header),
    };
    let of = of.trim().rsplit("::").next()?.to_owned();
    let end = item_end(code, open)?;
    let (mut methods, mut calls) = (Vec::new(), Vec::new());
    for at in words(&code[open..end], "fn").into_iter().filter(|_| is_inherent) {
        methods.push(name_at(code[open + at + "fn".len()..].trim_start()).to_owned());
    }
    for (receiver, joint) in [("self", "."), ("Self", "::")] {
        for at in words(&code[open..end], receiver) {
            let at = open + at + receiver.len();
            let Some(rest) = code[at..].trim_start().strip_prefix(joint) else { continue };
            let name = name_at(rest.trim_start());
            let next = rest.trim_start()[name.len()..].trim_start();
            if next.starts_with('(') || next.starts_with("::<") {
                calls.push((name.to_owned(), at));
            }
        }
    }
    Some(Impl { of, methods, calls })
}

/// `text` without the parts between `<` and `>`.
fn without_generics(text: &str) -> String {
    let (mut depth, mut kept, mut last) = (0usize, String::new(), ' ');
    for character in text.chars() {
        match character {
            '<' => depth += 1,
            // The arrow of a function type closes nothing.
            '>' if last != '-' => depth = depth.saturating_sub(1),
            '\n' if depth == 0 => kept.push(' '),
            _ if depth == 0 => kept.push(character),
            _ => {}
        }
        last = character;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_type_its_methods_and_its_calls() {
        let code = "impl<C: Config<P = fn(u8) -> u8>> crate::a::Stack<C>\nwhere\n C: Sized,\n{\n\
            fn one(&self) { self.two::<u8>(); self.field.three() }\n\
            fn two() -> impl Copy { Self::four(|| self\n.five()) }\n}";
        let found = impls(code);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].of, "Stack");
        assert_eq!(found[0].methods, ["one", "two"]);
        let calls: Vec<&str> = found[0].calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(calls, ["two", "five", "four"]);
    }

    #[test]
    fn the_block_of_a_trait_defines_no_inherent_method() {
        let code = "unsafe impl<'a> Drop for Page<'a> { fn drop(&mut self) { self.release() } }";
        let found = impls(code);
        assert_eq!((found[0].of.as_str(), found[0].methods.len()), ("Page", 0));
        assert_eq!(found[0].calls[0].0, "release");
    }
}
