//! A profile as text: the call sites with the largest value first.

use crate::line::Line;
use crate::profile::{Profile, Stack, View};
use crate::raw::Count;
use quarry_record::profile_bell::LEAST_MEAN;
use std::io::{self, Write};
use std::time::Duration;

/// With fewer samples than this, a call site's figures are hardly more than a guess.
const FEW: u64 = 10;

const CALLERS: usize = 12;
const LINE_CALLERS: usize = 3;

fn bytes(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", quarry_live::bytes(value.unsigned_abs()))
}

fn verb(shown: View) -> &'static str {
    match shown {
        View::Alloc => "allocated",
        View::Inuse => "in use",
        View::Frees => "freed",
        View::Pinned => "pinned",
    }
}

/// The 95 % interval of a call site's bytes, which were estimated as `value` from the samples
/// `sampled`. The number of samples has a Poisson distribution (interval by Wilson and Hilferty,
/// 1931). Objects so large that each is sampled add no uncertainty.
fn interval(value: i64, sampled: Count) -> (i64, i64) {
    let (value, count) = (value as f64, sampled.objects as f64);
    let doubt = (1.0 - sampled.bytes as f64 / value.max(1.0)).max(0.0).sqrt();
    let bound = |count: f64, sign: f64| {
        count * (1.0 - 1.0 / (9.0 * count) + sign * 1.96 / (3.0 * count.sqrt())).powi(3)
    };
    let at = |bound: f64| value * (1.0 + doubt * (bound / count - 1.0));
    let low = at(bound(count, -1.0).max(0.0)).max(sampled.bytes as f64);
    (low as i64, at(bound(count + 1.0, 1.0)) as i64)
}

fn sorted(profile: &Profile, shown: View) -> Vec<&Stack> {
    let held = |it: &Stack| it.values[shown.space()];
    let mut stacks: Vec<_> = profile.stacks.iter().filter(|it| held(it) != 0).collect();
    stacks.sort_by(|one, other| {
        let size = |it: &Stack| held(it).abs();
        let names = |it: &Stack| it.lines().map(|line| line.function.clone()).collect::<Vec<_>>();
        size(other).cmp(&size(one)).then_with(|| names(one).cmp(&names(other)))
    });
    stacks
}

/// A line for each of the `most` call sites with the largest `shown`: its bytes and its callers.
pub(crate) fn lines(profile: &Profile, shown: View, most: usize) -> Vec<String> {
    let line = |stack: &&Stack| {
        let callers: Vec<String> = stack.lines().take(LINE_CALLERS).map(Line::text).collect();
        let held = bytes(stack.values[shown.space()]);
        format!("{held} {}: {}", verb(shown), callers.join(" < "))
    };
    sorted(profile, shown).iter().take(most).map(line).collect()
}

/// Prints the `most` call sites with the largest `shown`.
pub(crate) fn write(
    profile: &Profile,
    shown: View,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (verb, stacks) = (verb(shown), sorted(profile, shown));
    let total = profile.total(shown.space());
    writeln!(
        out,
        "{}: {} {verb} in {} at {}, estimated from {} (one in {})",
        profile.process,
        bytes(total),
        counted(profile.total(shown.objects()), "object"),
        counted(stacks.len() as i64, "call site"),
        counted(profile.samples as i64, "sample"),
        bytes(profile.mean as i64)
    )?;
    if profile.lost > 0 {
        writeln!(out, "{} found no room", counted(profile.lost as i64, "more sample"))?;
    }
    let (hidden, mut has_few) = (stacks.len().saturating_sub(most), false);
    for stack in stacks.into_iter().take(most) {
        let held = stack.values[shown.space()];
        let share = 100.0 * held as f64 / (total as f64).abs().max(1.0);
        let objects = counted(stack.values[shown.objects()], "object");
        write!(out, "\n{} {verb} ({share:.1} %) in {objects}", bytes(held))?;
        let sampled = stack.samples[shown as usize];
        if shown == View::Pinned {
            let unit_ms = if stack.oldest_ms < 10_000 { 10 } else { 1000 };
            let oldest = Duration::from_millis(stack.oldest_ms / unit_ms * unit_ms);
            let samples = counted(sampled.objects as i64, "sample");
            let age = humantime::format_duration(oldest);
            write!(out, "; {samples}, the oldest of {age}")?;
        } else if sampled.objects > 0 && !profile.is_difference {
            let (low, high) = interval(held, sampled);
            let samples = counted(sampled.objects as i64, "sample");
            write!(out, "; {samples}: {} to {}", bytes(low), bytes(high))?;
            has_few |= sampled.objects < FEW && low < high;
        }
        writeln!(out)?;
        let lines = stack.lines().count();
        for line in stack.lines().take(CALLERS) {
            writeln!(out, "    {}", line.text())?;
        }
        if lines > CALLERS {
            writeln!(out, "    .. {} beyond", counted((lines - CALLERS) as i64, "caller"))?;
        }
    }
    if hidden > 0 {
        let beyond = counted(hidden as i64, "call site");
        writeln!(out, "\n{beyond} beyond; --top {} shows all", most + hidden)?;
    }
    if has_few && profile.mean > LEAST_MEAN as u64 {
        writeln!(
            out,
            "\nFewer than {FEW} samples say little: take --mean 4K (QUARRY_PROFILE_MEAN=4K)"
        )?;
    }
    Ok(())
}

pub(crate) fn counted(count: i64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::{counted, interval};
    use crate::raw::Count;

    #[test]
    fn one_is_no_plural() {
        let phrases = [0, 1, 2].map(|count| counted(count, "call site"));
        assert_eq!(phrases, ["0 call sites", "1 call site", "2 call sites"]);
    }

    #[test]
    fn few_samples_say_little_and_large_objects_much() {
        let of = |value, objects, bytes| interval(value, Count { objects, bytes });
        assert_eq!(of(64 << 20, 1, 64 << 20), (64 << 20, 64 << 20), "each is a sample");
        // Poisson: a count of 2 has the interval 0.24 to 7.2, and 100 has 81 to 122.
        let (low, high) = of(2_000_000, 2, 32);
        assert!((200_000..280_000).contains(&low) && (7_000_000..7_400_000).contains(&high));
        let (low, high) = of(100_000_000, 100, 1600);
        assert!((80_900_000..81_800_000).contains(&low), "{low}");
        assert!((121_000_000..122_000_000).contains(&high), "{high}");
    }
}
