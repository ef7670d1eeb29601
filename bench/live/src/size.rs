//! Sizes and counts in few letters.

/// Writes a size in at most nine letters: `999 B`, `1.0 KiB`, `999.9 MiB`, `1023 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// Writes a difference of sizes with its sign: `+1.0 KiB`, `-3.5 MiB`, `0 B`.
#[must_use]
pub fn change(difference: i64) -> String {
    let sign = match difference.signum() {
        1 => "+",
        0 => "",
        _ => "-",
    };
    format!("{sign}{}", bytes(difference.unsigned_abs()))
}

/// Writes a count in at most six letters: `999`, `1.0k`, `12.5M`.
#[must_use]
pub fn count(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(value: u64, base: u64, units: &[&str]) -> String {
    let mut unit = 0;
    let mut tenths = u128::from(value) * 10;
    while tenths >= u128::from(base) * 10 && unit + 1 < units.len() {
        tenths = tenths.div_ceil(u128::from(base));
        unit += 1;
    }
    match unit {
        0 => format!("{value}{}", units[0]),
        _ if tenths >= 10_000 => format!("{}{}", tenths.div_ceil(10), units[unit]),
        _ => format!("{}.{}{}", tenths / 10, tenths % 10, units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(999 << 10), "999.0 KiB");
        assert_eq!(bytes(1000 << 10), "1000 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        for value in (0..64).flat_map(|shift| [1_u64 << shift, (1 << shift) - 1, 1000 << shift]) {
            assert!(bytes(value).len() <= 9, "{}", bytes(value));
            assert!(count(value).len() <= 6, "{}", count(value));
        }
        assert_eq!([1024, -1536, 0].map(change), ["+1.0 KiB", "-1.5 KiB", "0 B"]);
        assert_eq!(count(999), "999");
        assert_eq!(count(1500), "1.5k");
    }
}
