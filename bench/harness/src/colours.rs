//! Colours of allocators: the name alone determines the colour, on every page and in every picture.
//!
//! Known allocators and policies have fixed colours; a name with settings (`jemalloc tuned`,
//! `quarry:THP=0`) gets a shade of its colour. The hue of any other name follows from its letters,
//! and two names may share a hue; the pictures then give them different shapes and dashes.

/// A colour for light ground and one for dark ground, as `#rrggbb`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    /// Its contrast to white is at least 4 to 1.
    pub light: String,
    /// Its contrast to the ground of pictures on a dark page is at least 4 to 1.
    pub dark: String,
}

/// Degrees between hues: closer hues look the same.
const STEP: u64 = 15;
/// Lightness and chroma of the shades on light and on dark ground, in OKLCH.
const SHADES: [[(f64, f64); 2]; 2] = [[(0.54, 0.13), (0.78, 0.11)], [(0.47, 0.10), (0.84, 0.09)]];

/// Fixed colours. Those of allocators differ for colour-blind readers too (after Okabe and Ito).
/// Those of policies differ from each other, and are darker (on dark ground: lighter).
const KNOWN: [(&str, &str, &str); 25] = [
    ("quarry", "#c2500a", "#f28e4b"),
    ("glibc", "#8a6d00", "#e3c238"),
    ("jemalloc", "#0068ad", "#5ab0ec"),
    ("tcmalloc", "#00805c", "#2fc496"),
    ("mimalloc", "#a8447f", "#e28fc0"),
    ("tbbmalloc", "#2f7a88", "#7fd0dd"),
    ("snmalloc", "#5b4fc4", "#a79bf5"),
    ("rpmalloc", "#8c5a3c", "#cfa183"),
    ("hoard", "#c4183c", "#ff8797"),
    ("hardened_malloc", "#5e7300", "#b2cc4a"),
    ("scudo", "#4f6272", "#a9bccb"),
    ("jemalloc-new", "#2457d6", "#8fb2ff"),
    ("mimalloc2", "#8b3fb0", "#d39bf2"),
    ("mimalloc3", "#7a2e62", "#f2a9dc"),
    ("sheaf", "#813426", "#ffc3b6"),
    ("slab", "#314c8c", "#bcd4ff"),
    ("slub", "#265e21", "#b9e1b4"),
    ("slqb", "#6b3873", "#ecc4f2"),
    ("slam", "#006162", "#98e4e3"),
    ("order0", "#314c8c", "#bcd4ff"),
    ("v2016", "#81313c", "#ffc1c4"),
    ("v5.14", "#265e21", "#b9e1b4"),
    ("v6.7", "#623c7c", "#e3c7fa"),
    ("v6.18", "#724400", "#f2ce9d"),
    ("splice", "#813426", "#ffc3b6"),
];

/// Returns the colour of an allocator or policy. `quarry-slub` is the policy `slub`.
pub fn of(name: &str) -> Colour {
    let policy = name.strip_prefix("quarry-").unwrap_or(name);
    if let Some((light, dark)) = known(policy) {
        return Colour { light: light.to_owned(), dark: dark.to_owned() };
    }
    let ends = policy.rmatch_indices([' ', ':', '-']).map(|(at, _)| &policy[..at]);
    match ends.filter_map(known).next() {
        Some((light, dark)) => {
            Colour { light: mixed(light, 0.0, 0.38), dark: mixed(dark, 255.0, 0.45) }
        }
        None => derived(name),
    }
}

fn known(name: &str) -> Option<(&'static str, &'static str)> {
    KNOWN.iter().find(|(known, ..)| *known == name).map(|(_, light, dark)| (*light, *dark))
}

/// Red, green and blue of `#rrggbb`.
pub(crate) fn parts(colour: &str) -> [u8; 3] {
    let part = |at: usize| u8::from_str_radix(colour.get(at..at + 2).unwrap_or("80"), 16);
    [1, 3, 5].map(|at| part(at).unwrap_or(0x80))
}

fn mixed(colour: &str, end: f64, share: f64) -> String {
    let parts = parts(colour).map(f64::from);
    let moved = parts.map(|it| format!("{:02x}", (it + (end - it) * share).round() as u8));
    format!("#{}", moved.concat())
}

fn derived(name: &str) -> Colour {
    let hash = hash(name);
    let hues = 360 / STEP;
    let hue = (hash % hues * STEP) as f64;
    let [light, dark] = SHADES[(hash / hues % 2) as usize];
    Colour { light: hex(light, hue), dark: hex(dark, hue) }
}

/// FNV-1a, whose result never changes with a version or a machine.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    // The low bits of the hash by themselves depend on only a few letters of the name.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    hash ^ (hash >> 32)
}

/// From OKLCH to sRGB by the matrices of Ottosson (2020), clamped to the range of a screen.
fn hex((lightness, chroma): (f64, f64), hue: f64) -> String {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ];
    let part = |value: f64| match value.clamp(0.0, 1.0) {
        it if it <= 0.003_130_8 => 12.92 * it,
        it => 1.055 * it.powf(1.0 / 2.4) - 0.055,
    };
    let parts = linear.map(|value| format!("{:02x}", (part(value) * 255.0).round() as u8));
    format!("#{}", parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DARK_GROUND: &str = "#1a2029";

    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn colours_stand_out_from_their_ground() {
        let derived = (0..500).map(|number| format!("allocator {number}"));
        let shades = KNOWN.iter().map(|known| format!("{}:SETTING=1", known.0));
        let known = KNOWN.iter().map(|known| known.0.to_owned());
        for name in known.chain(shades).chain(derived) {
            let Colour { light, dark } = of(&name);
            let on_light = 1.05 / (luminance(&light) + 0.05);
            let on_dark = (luminance(&dark) + 0.05) / (luminance(DARK_GROUND) + 0.05);
            assert!(on_light > 4.0 && on_dark > 4.0, "{name}: {on_light:.1}, {on_dark:.1}");
        }
    }

    #[test]
    fn a_name_keeps_its_colour_for_ever() {
        assert_eq!(of("jemalloc").light, "#0068ad");
        assert_eq!(of("quarry-slub"), of("slub"));
        let of = |name| (of(name).light, of(name).dark);
        let said = ["another", "sheaf+v6.7", ""].map(of);
        let expected = [("#416729", "#b1d89d"), ("#8a4338", "#ffb5a8"), ("#416729", "#b1d89d")];
        assert_eq!(said, expected.map(|(one, two)| (one.to_owned(), two.to_owned())));
    }

    #[test]
    fn settings_are_shades_of_their_allocator() {
        assert_eq!(of("jemalloc tuned"), of("jemalloc:MALLOC_CONF=x"));
        assert_ne!(of("jemalloc tuned"), of("jemalloc"));
        assert_eq!(of("quarry-slub-4.9"), of("slub-2.6.29"));
        assert_ne!(of("jemalloc-new"), of("jemalloc-old"));
        assert_eq!(mixed("#804020", 0.0, 0.5), "#402010");
        assert_eq!(mixed("#804020", 255.0, 1.0), "#ffffff");
    }

    #[test]
    fn rivals_differ() {
        let peers = &KNOWN[..14];
        for (index, one) in peers.iter().enumerate() {
            assert!(peers[..index].iter().all(|two| two.1 != one.1 && two.2 != one.2), "{one:?}");
        }
        let many: std::collections::HashSet<Colour> =
            (0..100).map(|number| of(&format!("lib{number}"))).collect();
        assert!(many.len() > 30, "{}", many.len());
    }
}
