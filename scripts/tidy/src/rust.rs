//! Rust text without comments and strings: enough of a lexer for rules about lines and words.

/// A Rust file in the forms that rules need: all with the same lines, and offsets except in tests.
pub struct RustFile {
    /// Path from the root of the repository.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// Comments and the contents of strings blanked out.
    pub code: String,
    /// Like `code`, but items under `#[cfg(test)]` (or `cfg` of a condition that asks for `test`)
    /// are blanked out too; empty lines for `tests.rs` or a file in a `tests` or `benches` folder.
    pub shipped: String,
}

impl RustFile {
    /// Lexes a file.
    #[must_use]
    pub fn new(path: String, text: String) -> Self {
        let code = blank_comments_and_strings(&text);
        let is_test = ["/tests/", "/benches/"].iter().any(|part| path.contains(part))
            || path.ends_with("/tests.rs");
        let shipped = if is_test { "\n".repeat(code.lines().count()) } else { blank_tests(&code) };
        Self { path, text, code, shipped }
    }

    /// All Rust files of the repository.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let files = crate::workspace::text_files(&[".rs"]);
        files.into_iter().map(|file| Self::new(file.path, file.text)).collect()
    }
}

/// The line (from 1) of a byte offset.
#[must_use]
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Offsets at which `word` stands as a whole word.
#[must_use]
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(|offset| *offset == 0 || !is_word(bytes[offset - 1]))
        .filter(|offset| !bytes.get(offset + word.len()).is_some_and(|byte| is_word(*byte)))
        .collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The name at the start of `text`; empty if there is none.
pub(crate) fn name_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The segments of the path at the start of `text`; empty if there is none.
pub(crate) fn path_at(text: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = text;
    loop {
        let name = name_at(rest);
        if name.is_empty() {
            return segments;
        }
        segments.push(name.to_owned());
        let Some(after) = rest[name.len()..].strip_prefix("::") else { return segments };
        rest = after;
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of its `fn`.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// All functions with a body in blanked code, nested ones too.
#[must_use]
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for offset in words(code, "fn") {
        let name = name_at(code[offset + 2..].trim_start()).to_owned();
        // Function pointer types have no name: `fn(u32) -> u32`.
        if name.is_empty() {
            continue;
        }
        if let Some(end) = item_end(code, offset).filter(|end| code.as_bytes()[*end] == b'}') {
            let line = line_of(code, offset);
            found.push(Function { name, line, lines: line_of(code, end) - line + 1 });
        }
    }
    found
}

/// Offset of the last byte of the item at `from`: its `;`, or the brace that closes its body.
pub(crate) fn item_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(offset);
                }
            }
            b';' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

fn blank_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (start, _) in code.match_indices("#[cfg(") {
        let Some(length) = code[start..].find(']') else { continue };
        let condition = &code[start..start + length];
        let asks = words(condition, "test").iter().any(|at| !condition[..*at].contains("not("));
        let alternatives = condition.contains("any(");
        if asks
            && !alternatives
            && let Some(end) = item_end(code, start + length + 1)
        {
            blank(&mut bytes, start, end + 1);
        }
    }
    String::from_utf8(bytes).expect("blanks replace whole ranges")
}

pub(crate) fn blank(bytes: &mut [u8], from: usize, to: usize) {
    for byte in &mut bytes[from..to] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn blank_comments_and_strings(text: &str) -> String {
    let source = text.as_bytes();
    let mut bytes = source.to_vec();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + block_comment(rest)
        } else if let Some(length) = raw_string(source, at) {
            at + length
        } else if rest[0] == b'"' {
            at + quoted(rest, b'"')
        } else if let Some(length) = character(rest) {
            at + length
        } else {
            at += 1;
            continue;
        };
        blank(&mut bytes, at, end);
        at = end;
    }
    String::from_utf8(bytes).expect("blanks replace whole characters")
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length of the raw string (`r".."`, `br#".."#`, `cr".."`) that starts at `at`.
fn raw_string(source: &[u8], at: usize) -> Option<usize> {
    if at > 0 && is_word(source[at - 1]) {
        return None;
    }
    let rest = &source[at..];
    let prefix = [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = rest[prefix.len()..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix.len() + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &rest[open + 1..];
    let length = body.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| open + 1 + length + close.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Length of a character literal, `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted(rest, b'\''));
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)])
        .or_else(|error| std::str::from_utf8(&rest[1..=error.valid_up_to()]))
        .ok()?;
    let length = text.chars().next()?.len_utf8();
    (rest.get(1 + length) == Some(&b'\'')).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked_and_lifetimes_are_not() {
        let text = concat!(
            "a /* b /* c */ d */ 'e' '\\'' &'f str ",
            "\"g \\\" h\" r#\"i \" j\"# // k\nl 'é' m"
        );
        let code = blank_comments_and_strings(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "&'f", "str", "l", "m"]);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn items_under_cfg_test_are_not_shipped() {
        let file = RustFile::new(
            "malloc/x/src/lib.rs".to_owned(),
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n#[cfg(not(test))]\nfn c() {}\n\
             #[cfg(any(test, unix))]\nfn d() {}\n"
                .to_owned(),
        );
        let names: Vec<String> = functions(&file.shipped).into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "c", "d"]);
        assert_eq!(functions(&file.code).len(), 4);
    }

    #[test]
    fn functions_are_measured_from_fn_to_the_closing_brace() {
        let code = "trait T { fn no_body(&self); }\nfn a(\n x: [u8; 2],\n) -> fn(u8) {\n {}\n}\n";
        let expected = Function { name: "a".to_owned(), line: 2, lines: 5 };
        assert_eq!(functions(code), [expected]);
    }
}
