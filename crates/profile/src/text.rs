//! A profile as text: call sites by what they have, the largest first.

use crate::profile::{Profile, Stack, Value};
use std::io::{self, Write};

/// Callers that are shown of each call site.
const CALLERS: usize = 12;

/// Bytes in the largest unit of which there is at least one.
fn bytes(value: i64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut scaled, mut unit) = (value as f64, 0);
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

/// The values that belong together: bytes, objects, and what they are called.
fn pair(shown: Value) -> (Value, Value, &'static str) {
    match shown {
        Value::AllocObjects | Value::AllocSpace => {
            (Value::AllocSpace, Value::AllocObjects, "allocated")
        }
        Value::InuseObjects | Value::InuseSpace => {
            (Value::InuseSpace, Value::InuseObjects, "in use")
        }
        Value::FreeObjects | Value::FreeSpace => (Value::FreeSpace, Value::FreeObjects, "freed"),
    }
}

/// Prints the `most` call sites that have most of `shown`.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(
    profile: &Profile,
    shown: Value,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (space, objects, verb) = pair(shown);
    let of = |stack: &Stack, value: Value| stack.values[value as usize];
    let mut stacks: Vec<_> = profile.stacks.iter().filter(|it| of(it, shown) != 0).collect();
    stacks.sort_by(|one, other| {
        let keys = |it: &Stack| of(it, shown).abs();
        keys(other).cmp(&keys(one)).then_with(|| one.lines().cmp_by_function(other.lines()))
    });
    let total = profile.total(space);
    writeln!(
        out,
        "{} {verb} in {} at {}, estimated from {} (one in {})",
        bytes(total),
        counted(profile.total(objects), "object"),
        counted(stacks.len() as i64, "call site"),
        counted(profile.samples as i64, "sample"),
        bytes(profile.mean as i64)
    )?;
    if profile.lost > 0 {
        writeln!(out, "{} more samples found no room and are missing", profile.lost)?;
    }
    let hidden = stacks.len().saturating_sub(most);
    for stack in stacks.into_iter().take(most) {
        let share = 100.0 * of(stack, space) as f64 / (total as f64).abs().max(1.0);
        let (held, count) = (bytes(of(stack, space)), of(stack, objects));
        writeln!(out, "\n{held} {verb} ({share:.1} %) in {}", counted(count, "object"))?;
        let lines = stack.lines().count();
        for line in stack.lines().take(CALLERS) {
            match line.file.is_empty() {
                true => writeln!(out, "    {}", line.function)?,
                false => writeln!(out, "    {}  {}:{}", line.function, line.file, line.line)?,
            }
        }
        if lines > CALLERS {
            writeln!(out, "    .. {} beyond", counted((lines - CALLERS) as i64, "caller"))?;
        }
    }
    if hidden > 0 {
        let beyond = counted(hidden as i64, "call site");
        writeln!(out, "\n{beyond} beyond; --top {} shows all", most + hidden)?;
    }
    Ok(())
}

/// `1 sample`, `2 samples`.
fn counted(count: i64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// An order for call sites that have the same.
trait ByFunction<'a>: Iterator<Item = &'a crate::symbols::Line> + Sized {
    fn cmp_by_function(self, other: Self) -> std::cmp::Ordering {
        self.map(|line| &line.function).cmp(other.map(|line| &line.function))
    }
}

impl<'a, I: Iterator<Item = &'a crate::symbols::Line>> ByFunction<'a> for I {}

#[cfg(test)]
mod tests {
    use super::{bytes, counted};

    #[test]
    fn one_is_no_plural() {
        let phrases = [0, 1, 2].map(|count| counted(count, "call site"));
        assert_eq!(phrases, ["0 call sites", "1 call site", "2 call sites"]);
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(-1536), "-1.5 KiB");
        assert_eq!(bytes(5 << 20), "5.0 MiB");
    }
}
