//! Finds the contender that `NAME`, `NAME:KEY=VALUE` or `NAME=FILE` specifies.

use crate::allocators::{self, Allocator, Maybe, QUARRY};
use crate::contenders::{self, Contender, Found};
use crate::known::KNOWN;
use anyhow::{Result, bail};
use quarry_harness::nearest;
use quarry_harness::usage::Usage;
use std::path::{Path, PathBuf};

/// Finds a shared object for a slab policy and settings.
pub type FindObject<'a> = &'a dyn Fn(Option<&str>, &[(String, String)]) -> Result<PathBuf>;

/// Quarry's shared objects and options, which the command brings.
pub struct BuiltIn<'a> {
    /// Slab policies, and `full`: `quarry-NAME` means the shared object for that policy.
    pub slabs: &'a [&'a str],
    /// Finds the shared object that has a slab policy (`None`: the default) and the options that
    /// the settings name.
    pub find: FindObject<'a>,
    /// Checks `KEY=VALUE`, and returns the name of the variable and the value.
    pub setting: &'a dyn Fn(&str) -> Result<(String, String)>,
    /// Names the call sites of the memory in use in the heap profiles of a folder, a line for each.
    pub held: &'a dyn Fn(&Path) -> Vec<String>,
}

/// Looks for the requested contenders. Fails on an unknown name or setting, on a name given twice,
/// if none is found, and if several were requested but only one is found.
pub(super) fn find(specifications: &[String], built_in: &BuiltIn<'_>) -> Result<Found> {
    let found = contenders::sort(specifications, |it| find_named(it, built_in))?;
    match (&found.contenders[..], &found.absent[..]) {
        // Comparing one contender with itself would not answer the request.
        ([only], [_, ..]) => bail!(
            "--allocators: {} is the only one of {} that is there: {}",
            only.name(),
            specifications.len(),
            found.absent.join("; ")
        ),
        ([], _) => bail!("--allocators: none of them is there: {}", found.absent.join("; ")),
        _ => Ok(found),
    }
}

/// Looks for one contender; the inner `Err` is a line on how to install it. Fails on an unknown
/// name or setting.
pub(super) fn find_named(specification: &str, built_in: &BuiltIn<'_>) -> Result<Maybe<Contender>> {
    // In tables a contender is called by its settings, but not by its file.
    let at = specification.find([':', '=']).unwrap_or(specification.len());
    let (label, name, settings) = match specification.split_at(at) {
        (label, rest) if rest.starts_with('=') => (label, specification, ""),
        (name, rest) => (specification, name, rest.strip_prefix(':').unwrap_or_default()),
    };
    let slab = name.strip_prefix(QUARRY).and_then(|rest| rest.strip_prefix('-'));
    let is_quarry = name == QUARRY || slab.is_some_and(|slab| built_in.slabs.contains(&slab));
    let (allocator, settings) = if is_quarry {
        let mut settings = quarry_settings(settings, built_in)?;
        // The slab policy is compiled in, so it selects the shared object.
        let wanted = settings.extract_if(.., |(key, _)| key == "QUARRY_SLAB").last();
        let slab = wanted.as_ref().map(|(_, slab)| slab.as_str()).or(slab);
        let found = (built_in.find)(slab, &settings);
        let found = found.map(|path| allocators::preloaded(label, path, None));
        (allocators::or_absent(label, found)?, settings)
    } else {
        (look_for(name, built_in)?, other_settings(name, settings)?)
    };
    Ok(allocator.map(|allocator| {
        let pairs: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Contender::from(allocator).with(label, &pairs)
    }))
}

fn look_for(name: &str, built_in: &BuiltIn<'_>) -> Result<Maybe<Allocator>> {
    let mut known = allocators::known();
    if !name.contains('=') && !known.contains(&name) {
        let others: Vec<_> = built_in.slabs.iter().map(|slab| format!("{QUARRY}-{slab}")).collect();
        known.extend(others.iter().map(String::as_str));
        known.push("NAME=FILE");
        return Err(nearest::unknown("allocator", name, &known));
    }
    allocators::find(name, &|| bail!("built in"))
}

fn quarry_settings(text: &str, built_in: &BuiltIn<'_>) -> Result<Vec<(String, String)>> {
    let parts = text.split(':').filter(|part| !part.is_empty());
    let settings: Vec<_> = parts.map(|part| (built_in.setting)(part)).collect::<Result<_>>()?;
    for (key, _) in &settings {
        match key.as_str() {
            "QUARRY_LIBRARY" => {
                bail!(Usage("--allocators: name another library as NAME=FILE".to_owned()))
            }
            "QUARRY_DISABLE" => {
                bail!(Usage("--allocators: what serves then is glibc: compare that".to_owned()))
            }
            _ => {}
        }
    }
    Ok(settings)
}

/// Settings of other allocators are environment variables, whose values may contain colons. If
/// `text` is empty, the setting that a known allocator needs applies.
fn other_settings(name: &str, text: &str) -> Result<Vec<(String, String)>> {
    let known = KNOWN.allocator(name).filter(|_| text.is_empty());
    let text = known.map_or(text, |it| it.setting.as_str());
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match text.split_once('=') {
        Some((key, value)) if is_variable(key) => Ok(vec![(key.to_owned(), value.to_owned())]),
        _ => bail!(Usage(format!(
            "--allocators {name}:{text}: accepted after the colon: VARIABLE=VALUE, such as \
             {name}:MALLOC_CONF=background_thread:true"
        ))),
    }
}

fn is_variable(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(specifications: &[&str]) -> Result<Found> {
        let find = |slab: Option<&str>, _: &[_]| match slab {
            None => Ok(PathBuf::from("/lib/libquarry.so")),
            Some(slab) => bail!("libquarry-{slab}.so not found"),
        };
        let setting = |text: &str| match text.split_once('=') {
            Some((key, value)) => Ok((format!("QUARRY_{key}"), value.to_owned())),
            None => bail!("--set {text}: no '='"),
        };
        let built_in = BuiltIn {
            slabs: &["sheaf", "slub-4.9", "slub"],
            find: &find,
            setting: &setting,
            held: &|_| Vec::new(),
        };
        let specifications: Vec<String> = specifications.iter().map(|s| (*s).to_owned()).collect();
        super::find(&specifications, &built_in)
    }

    #[test]
    fn settings_are_part_of_the_name_and_files_are_not() {
        let found = found(&["glibc", "quarry:POPULATE=0:THP=0", "me=/bin/sh"]).unwrap();
        let names: Vec<_> = found.contenders.iter().map(Contender::name).collect();
        assert_eq!(names, ["glibc", "quarry:POPULATE=0:THP=0", "me"]);
        let settings = &found.contenders[1].settings;
        assert_eq!(settings[0], ("QUARRY_POPULATE".to_owned(), "0".to_owned()));
        assert_eq!(settings.len(), 2);
        let description = &found.contenders[1].variant.description;
        assert_eq!(description, "libquarry.so, QUARRY_POPULATE=0, QUARRY_THP=0");
    }

    #[test]
    fn a_slab_policy_is_another_file() {
        let absent = found(&["glibc", "quarry", "quarry:SLAB=slub"]).unwrap().absent;
        assert_eq!(absent, ["quarry:SLAB=slub: libquarry-slub.so not found"]);
    }

    #[test]
    fn others_take_one_variable() {
        let found = found(&["glibc:MALLOC_ARENA_MAX=1"]).unwrap();
        let expected = ("MALLOC_ARENA_MAX".to_owned(), "1".to_owned());
        assert_eq!(found.contenders[0].settings, [expected]);
        let needed = ("GLIBC_TUNABLES".to_owned(), "glibc.pthread.rseq=0".to_owned());
        assert_eq!(other_settings("google-tcmalloc", "").unwrap(), [needed]);
        assert_eq!(other_settings("jemalloc", "").unwrap(), []);
    }

    #[test]
    fn what_is_absent_is_named_with_what_to_do() {
        let two = found(&["quarry-slub", "glibc", "quarry"]).unwrap();
        assert_eq!(two.contenders.len(), 2);
        assert_eq!(two.absent, ["quarry-slub: libquarry-slub.so not found"]);
    }

    #[test]
    fn one_that_is_left_is_not_compared_with_itself() {
        let error = found(&["quarry-slub", "glibc"]).unwrap_err();
        let expected = "--allocators: glibc is the only one of 2 that is there: quarry-slub: \
                        libquarry-slub.so not found";
        assert_eq!(error.to_string(), expected);
        assert!(!Usage::is_cause_of(&error), "on another machine it may be there");
        assert!(found(&["glibc"]).is_ok(), "nothing else was asked for");
        assert!(found(&["quarry-slub"]).is_err());
    }

    #[test]
    fn a_file_that_is_no_shared_object_is_no_allocator() {
        for (text, why) in [
            ("x=/no/such.so", "No such file or directory"),
            ("x=/etc/passwd", "not a shared object of this machine"),
            ("x=/", "directory"),
            ("x=", "No such file or directory"),
        ] {
            let error = found(&["glibc", text]).unwrap_err();
            assert!(Usage::is_cause_of(&error), "{error}");
            let error = error.to_string();
            assert!(error.starts_with(&format!("{text}: ")) && error.contains(why), "{error}");
            assert!(error.ends_with("; accepted: NAME=FILE with a shared object"), "{error}");
        }
    }

    #[test]
    fn mistakes_of_usage_are_named() {
        for (specifications, why) in [
            (&["quarry:DISABLE=1"][..], "--allocators: what serves then is glibc: compare that"),
            (&["quarry:LIBRARY=/x.so"], "--allocators: name another library as NAME=FILE"),
            (&["glibc:fast"], "accepted after the colon: VARIABLE=VALUE"),
            (&["jemaloc"], "no allocator jemaloc; did you mean jemalloc"),
            (&["quarry-slob"], "did you mean quarry-slub"),
            (&["glibc", "glibc"], "allocator glibc is named twice"),
        ] {
            let error = found(specifications).unwrap_err();
            assert!(Usage::is_cause_of(&error) && error.to_string().contains(why), "{error}");
        }
    }
}
