//! The files of `data`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Reads the tables `[[name]]` of a file of `data`.
pub(crate) fn tables<T: Deserialize<'static>>(text: &'static str, name: &str) -> Vec<T> {
    let mut all: BTreeMap<String, Vec<T>> = toml::from_str(text).expect("a test reads all of them");
    all.remove(name).unwrap_or_default()
}
