//! Suggestions for mistyped names.

use crate::usage::Usage;
use anyhow::Error;

/// Least similarity (the measure of Jaro and Winkler, 1 = equal) of a name that is suggested.
const LEAST_LIKENESS: f64 = 0.7;

/// An error for a name that `accepted` lacks; it suggests up to three similar names and lists all.
pub fn unknown<T: AsRef<str>>(what: &str, name: &str, accepted: &[T]) -> Error {
    let all: Vec<&str> = accepted.iter().map(AsRef::as_ref).collect();
    let guess = match nearest(name, &all)[..] {
        [] => String::new(),
        ref near => format!("did you mean {}? ", near.join(" or ")),
    };
    Usage(format!("no {what} {name}; {guess}accepted: {}", all.join(", "))).into()
}

/// Returns up to three of `accepted`, the most similar first.
fn nearest<'a>(name: &str, accepted: &[&'a str]) -> Vec<&'a str> {
    let likeness = |other: &str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    let mut near: Vec<(f64, &str)> = accepted
        .iter()
        .map(|other| (likeness(other), *other))
        .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_come_first_and_all_are_listed() {
        let accepted = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "quarry"];
        let error = unknown("allocator", "jemaloc", &accepted).to_string();
        assert!(error.starts_with("no allocator jemaloc; did you mean jemalloc or "), "{error}");
        let all = "accepted: glibc, jemalloc, tcmalloc, mimalloc, quarry";
        assert!(error.ends_with(all), "{error}");
        assert_eq!(
            unknown("allocator", "xyz", &accepted).to_string(),
            format!("no allocator xyz; {all}")
        );
    }
}
