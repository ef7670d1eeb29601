//! `--set KEY=VALUE`: the options of the library, checked by the library's own table.

use quarry_cli::policies;
use quarry_mm::heap::options::{OptionError, OptionHelp, StackOptions, all_options};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The key without the prefix `QUARRY_`.
    pub(crate) key: &'static str,
    pub(crate) value: String,
}

impl Setting {
    /// Checks `KEY=VALUE`; the key may carry the prefix `QUARRY_` and be in lower case. An error is
    /// its message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!("{text}: no '=' in it; accepted: KEY=VALUE"));
        };
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("QUARRY_").unwrap_or(&upper);
        if let Some(key) = policies::OPTIONS.iter().find(|name| **name == bare) {
            return Ok(Self { key, value: value.to_owned() });
        }
        let Some(option) = all_options().find(|option| option.name == bare) else {
            let names: Vec<_> = all_options().map(|option| option.name).collect();
            return Err(format!("{name}: no such option; accepted: {}", names.join(", ")));
        };
        let key = option.name;
        if key == "SLAB" && policies::named(value).is_none() {
            let accepted = policies::names().collect::<Vec<_>>().join(", ");
            return Err(format!("{key}={value}: bad value; accepted: {accepted}"));
        }
        let mut options = <StackOptions>::default();
        let mut kinds = [StackOptions::set, StackOptions::set_guard, StackOptions::set_records]
            .into_iter()
            .map(|set| set(&mut options, key, value));
        match kinds.find(|it| *it != Err(OptionError::UnknownName)) {
            Some(Err(OptionError::BadValue { accepted })) => {
                Err(format!("{key}={value}: bad value; accepted: {accepted}"))
            }
            _ => Ok(Self { key, value: value.to_owned() }),
        }
    }
}

pub(crate) fn help() -> String {
    let head = "Options for --set (also read from the environment as QUARRY_KEY):\n".to_owned();
    let line = |it: OptionHelp| format!("  {:<10} {} ({})\n", it.name, it.meaning, it.accepted);
    std::iter::once(head).chain(all_options().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_keys_in_any_spelling() {
        for text in ["LIMIT=512M", "limit=512M", "QUARRY_LIMIT=512M"] {
            let expected = Setting { key: "LIMIT", value: "512M".to_owned() };
            assert_eq!(Setting::parse(text), Ok(expected));
        }
    }

    #[test]
    fn names_what_is_wrong_and_what_is_accepted() {
        let message = |text: &str| Setting::parse(text).unwrap_err();
        assert_eq!(message("THP"), "THP: no '=' in it; accepted: KEY=VALUE");
        assert!(message("SPEED=9").starts_with("SPEED: no such option; accepted: STATS, "));
        assert_eq!(message("DISABLE=yes"), "DISABLE=yes: bad value; accepted: 0 or 1");
        assert!(message("LIMIT=1X").starts_with("LIMIT=1X: bad value; accepted: bytes"));
    }

    #[test]
    fn help_has_a_line_for_every_option() {
        assert_eq!(help().lines().count(), all_options().count() + 1);
    }
}
