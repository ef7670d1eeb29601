//! Methods and their calls through `self`, `Self`, fields and traits: a type whose `impl` blocks
//! stand in several files ties these files together without a single `use`.

use crate::rust::{item_end, name_at, path_at, words};

/// Owners of a value whose methods are called through them.
const OWNERS: [&str; 4] = ["ManuallyDrop", "Box", "Rc", "Arc"];

/// An `impl` block.
#[derive(Debug, PartialEq, Eq)]
pub struct Impl {
    /// The path of the type that it is for, as the block names it; empty for a type without a name.
    pub of: Vec<String>,
    /// The path of the trait that it implements, if it does.
    pub of_trait: Option<Vec<String>>,
    /// The names of the methods that it defines.
    pub methods: Vec<String>,
    /// The methods that it calls.
    pub calls: Vec<Call>,
}

/// A call of a method of `self`, or of something in its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// The path before the method's name in a call like `Trait::method(self)`; otherwise empty.
    pub by: Vec<String>,
    /// The fields that lead from `self` to the receiver.
    pub fields: Vec<String>,
    /// The method's name.
    pub method: String,
    /// Where the call stands in the file.
    pub offset: usize,
}

/// A struct, and the paths of its fields' types by the fields' names.
#[derive(Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// Its fields; those of a tuple have numbers for names.
    pub fields: Vec<(String, Vec<String>)>,
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
    let header = header.split(" where").next()?;
    let (of_trait, of) = match header.split_once(" for ") {
        Some((of_trait, of)) => (Some(type_path(of_trait)), of),
        None => (None, header),
    };
    let end = item_end(code, open)?;
    let names = words(&code[open..end], "fn").into_iter();
    let names = names.map(|at| name_at(code[open + at + "fn".len()..].trim_start()).to_owned());
    let methods = names.filter(|name| !name.is_empty()).collect();
    Some(Impl { of: type_path(of), of_trait, methods, calls: calls(code, open, end) })
}

/// The calls between two offsets.
fn calls(code: &str, from: usize, to: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    for offset in words(&code[from..to], "self").into_iter().map(|at| from + at) {
        let (fields, method) = chain(&code[offset + "self".len()..]);
        let path = path_before(&code[..offset]);
        match (method, path.split_last()) {
            (Some(method), _) => calls.push(Call { by: vec![], fields, method, offset }),
            (None, Some((method, by))) if !by.is_empty() => {
                calls.push(Call { by: by.to_vec(), fields, method: method.clone(), offset });
            }
            _ => {}
        }
    }
    for offset in words(&code[from..to], "Self").into_iter().map(|at| from + at) {
        let path = path_at(&code[offset..]);
        if let [_, method] = &path[..]
            && is_call(&code[offset + path.join("::").len()..])
        {
            calls.push(Call { by: vec![], fields: vec![], method: method.clone(), offset });
        }
    }
    calls
}

/// The fields in `.field.field`, the text after a receiver, and the method that is called then.
fn chain(mut rest: &str) -> (Vec<String>, Option<String>) {
    let mut fields = Vec::new();
    while let Some(next) = rest.trim_start().strip_prefix('.') {
        let name = name_at(next.trim_start());
        rest = &next.trim_start()[name.len()..];
        if is_call(rest) {
            return (fields, Some(name.to_owned()));
        }
        fields.push(name.to_owned());
    }
    (fields, None)
}

fn is_call(after_name: &str) -> bool {
    let rest = after_name.trim_start();
    rest.starts_with('(') || rest.starts_with("::<")
}

/// The path in `Path::method(` or `<Type as Path>::method(`, the text before a first argument;
/// empty if another text stands there.
fn path_before(text: &str) -> Vec<String> {
    let text = text.trim_end().trim_end_matches("&mut").trim_end().trim_end_matches('&');
    let Some(text) = text.trim_end().strip_suffix('(') else { return Vec::new() };
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let start = text.trim_end_matches(is_path).len();
    let path = path_at(text[start..].trim_start_matches("::"));
    match text[..start].rsplit_once(" as ").filter(|(_, of_trait)| of_trait.ends_with('>')) {
        Some((_, of_trait)) => [path_at(of_trait), path].concat(),
        None => path,
    }
}

/// The structs of blanked code.
#[must_use]
pub fn structs(code: &str) -> Vec<Struct> {
    words(code, "struct").into_iter().filter_map(|offset| structure(code, offset)).collect()
}

fn structure(code: &str, start: usize) -> Option<Struct> {
    let rest = code[start + "struct".len()..].trim_start();
    let name = name_at(rest);
    let body = after_generics(&rest[name.len()..]).trim_start();
    let is_tuple = body.starts_with('(');
    let open = if is_tuple { 0 } else { body.find(['{', ';'])? };
    let end = item_end(body, open)?;
    let end = if is_tuple { body[..end].rfind(')')? } else { end };
    let parts = list(body.get(open + 1..end).unwrap_or_default()).into_iter().enumerate();
    let fields = parts.filter_map(|(number, part)| {
        let part = without_visibility(part);
        match is_tuple {
            true => Some((number.to_string(), type_path(part))),
            false => part.split_once(':').map(|(name, of)| (name.trim().to_owned(), type_path(of))),
        }
    });
    Some(Struct { name: name.to_owned(), fields: fields.collect() })
}

/// A field without its attributes and `pub`.
fn without_visibility(field: &str) -> &str {
    let mut field = field.trim_start();
    while field.starts_with("#[") {
        let end = field.find(']').map_or(field.len(), |end| end + 1);
        field = field[end..].trim_start();
    }
    match field.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, rest)| rest),
        Some(rest) if rest.starts_with(' ') => rest,
        _ => field,
    }
    .trim_start()
}

/// The path of the type that `text` names, without references and owners.
fn type_path(text: &str) -> Vec<String> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('&') {
        let rest = match rest.trim_start().strip_prefix('\'') {
            Some(lifetime) => &lifetime[name_at(lifetime).len()..],
            None => rest,
        };
        let rest = rest.trim_start();
        return type_path(rest.strip_prefix("mut ").unwrap_or(rest));
    }
    let path = path_at(text);
    let inner = text[path.join("::").len()..].strip_prefix('<');
    match (path.last(), inner) {
        (Some(owner), Some(inner)) if OWNERS.contains(&owner.as_str()) => type_path(inner),
        _ => path,
    }
}

/// Calls `visit` with each character that does not stand between `<` and `>`, and its offset, until
/// it returns false.
fn outside_generics(text: &str, mut visit: impl FnMut(usize, char) -> bool) {
    let (mut depth, mut last) = (0usize, ' ');
    for (offset, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            // The arrow of a function type closes nothing.
            '>' if last != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 && !visit(offset, character) => return,
            _ => {}
        }
        last = character;
    }
}

/// `text` without the parts between `<` and `>`.
fn without_generics(text: &str) -> String {
    let mut kept = String::new();
    outside_generics(text, |_, character| {
        kept.push(if character == '\n' { ' ' } else { character });
        true
    });
    kept
}

/// `text` after the generic parameters at its start, if there are any.
fn after_generics(text: &str) -> &str {
    let mut start = text.len();
    outside_generics(text, |offset, _| {
        start = offset;
        false
    });
    &text[start..]
}

/// Splits a list at its commas, but not at those between brackets of any kind.
fn list(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    outside_generics(text, |offset, character| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
        true
    });
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        path_at(text)
    }

    #[test]
    fn a_block_has_its_type_its_methods_and_its_calls() {
        let code = "impl<C: Config<P = fn(u8) -> u8>> crate::a::Stack<C>\nwhere\n C: Sized,\n{\n\
            fn one(&self) { self.two::<u8>(); self.field\n.0.three() }\n\
            fn two() -> impl Copy { Self::four(|| self\n.five()); self..; self.a.b }\n}";
        let found = impls(code);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].of, &found[0].of_trait), (&path("crate::a::Stack"), &None));
        assert_eq!(found[0].methods, ["one", "two"]);
        let calls = found[0].calls.iter();
        let calls: Vec<_> = calls.map(|it| (it.fields.join("."), it.method.as_str())).collect();
        let expected = [("", "two"), ("field.0", "three"), ("", "five"), ("", "four")];
        assert_eq!(calls, expected.map(|(fields, method)| (fields.to_owned(), method)));
    }

    #[test]
    fn the_block_of_a_trait_names_the_trait() {
        let code = "unsafe impl<'a> Drop for Page<'a> { fn drop(&mut self) { self.release() } }";
        let found = impls(code);
        assert_eq!((&found[0].of, &found[0].of_trait), (&path("Page"), &Some(path("Drop"))));
        assert_eq!(found[0].methods, ["drop"]);
        assert_eq!(found[0].calls[0].method, "release");
        assert_eq!(impls("impl T for &'a mut a::B {}")[0].of, path("a::B"));
        assert_eq!(impls("impl T for [u8] {}")[0].of, Vec::<String>::new());
    }

    #[test]
    fn a_call_by_a_path_has_the_path() {
        let code = "impl A { fn f(&mut self) { a::Host::one(&mut self.b, 1); two(self); T::x(1);\n\
            <Self as T<u8>>::three(self) } }";
        let calls = impls(code).remove(0).calls;
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert_eq!((&calls[1].by, calls[1].method.as_str()), (&path("T"), "three"));
        assert_eq!((&calls[0].by, calls[0].method.as_str()), (&path("a::Host"), "one"));
        assert_eq!(calls[0].fields, ["b"]);
    }

    #[test]
    fn a_struct_has_the_types_of_its_fields() {
        let code = "pub struct A<'a, T: Fn(u8) -> u8> where T: Fn(u8) {\n #[cfg(all(a, b))]\n\
            pub(super) one: &'a mut m::B<T, 4>,\n two: ManuallyDrop<Box<C>>, pub tri: [u8; 2] }\n\
            struct D(pub E<u8, u8>, F);\nstruct G;";
        let found = structs(code);
        let fields = |at: usize| -> Vec<String> {
            let one = |(name, of): &(String, Vec<String>)| format!("{name}: {}", of.join("::"));
            found[at].fields.iter().map(one).collect()
        };
        assert_eq!(fields(0), ["one: m::B", "two: C", "tri: "]);
        assert_eq!(fields(1), ["0: E", "1: F"]);
        assert_eq!((found[2].name.as_str(), fields(2).len()), ("G", 0));
    }
}
