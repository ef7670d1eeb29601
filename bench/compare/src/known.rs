//! Other projects' software, from `known.toml`, which describes the fields.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(super) static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    toml::from_str(include_str!("known.toml")).expect("the file is constant and valid")
});

#[derive(Deserialize)]
pub(super) struct Known {
    pub(super) allocators: Vec<NamedAllocator>,
    pub(super) sanitizers: Vec<Sanitizer>,
    pub(super) embedded: Vec<EmbeddedAllocator>,
    pub(super) runtimes: Vec<Runtime>,
    pub(super) machines: BTreeMap<String, String>,
}

impl Known {
    pub(super) fn allocator(&self, name: &str) -> Option<&NamedAllocator> {
        self.allocators.iter().find(|it| it.name == name)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedAllocator {
    pub(super) name: String,
    #[serde(default)]
    pub(super) files: Vec<String>,
    #[serde(default)]
    pub(super) packages: Vec<String>,
    #[serde(default)]
    pub(super) is_built: bool,
    #[serde(default)]
    pub(super) setting: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sanitizer {
    pub(super) name: String,
    pub(super) start: String,
    pub(super) libraries: [String; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmbeddedAllocator {
    pub(super) name: String,
    pub(super) functions: Vec<String>,
    #[serde(default)]
    pub(super) is_own_if_referred: bool,
    pub(super) text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runtime {
    pub(super) executable: String,
    pub(super) why: String,
    pub(super) remedy: String,
}
