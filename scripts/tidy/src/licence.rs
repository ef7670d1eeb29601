//! Licence expressions (SPDX), and whether accepted licences meet them.

/// Licences that a dependency may have. `deny.toml` has the same list.
pub const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Returns whether accepted licences meet `expression`: one side of each `OR`, both of each `AND`.
/// The old form `MIT/Apache-2.0` means `OR`. Refuses an expression that it cannot read.
#[must_use]
pub fn is_accepted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { tokens: &tokens, at: 0 };
    reader.any_of() == Some(true) && reader.at == tokens.len()
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl Reader<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let same = self.tokens.get(self.at) == Some(&word);
        self.at += usize::from(same);
        same
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut met = self.all_of()?;
        while self.takes("OR") {
            met |= self.all_of()?;
        }
        Some(met)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any_of()?;
            return self.takes(")").then_some(met);
        }
        let name = *self.tokens.get(self.at)?;
        self.at += 1;
        if self.takes("WITH") {
            let exception = *self.tokens.get(self.at)?;
            self.at += 1;
            return Some(ACCEPTED.contains(&format!("{name} WITH {exception}").as_str()));
        }
        Some(!matches!(name, ")" | "OR" | "AND" | "WITH") && ACCEPTED.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

    #[test]
    fn one_side_of_an_or_is_enough_and_both_of_an_and_are_needed() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_accepted(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "MIT Apache-2.0", "OR MIT"]
        {
            assert!(!is_accepted(bad), "{bad}");
        }
    }
}
