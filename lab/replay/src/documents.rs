//! The documents: each is a folder of `lab/documents`, whose page explains its files. A further
//! document is a new folder, and an entry here.

use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The data of a document, as texts. It lacks those that are empty.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// Its number, which is the name of its folder.
    pub number: &'static str,
    /// The kernel paths of its benchmarks.
    pub paths: &'static str,
    /// Loads of file systems.
    pub loads: &'static str,
    /// The experiments that replay them.
    pub experiments: &'static str,
    /// Its machine, for predictions.
    pub machine: &'static str,
    /// The figures of its tables, in the columns of mmtests.
    pub tables: &'static str,
    /// Figures of its experiments' rows.
    pub rows: &'static str,
}

impl Document {
    const EMPTY: Self = Self {
        number: "",
        paths: "",
        loads: "",
        experiments: "",
        machine: "",
        tables: "",
        rows: "",
    };

    /// Reads one of its TOML files. O(bytes).
    ///
    /// # Panics
    /// If the file is not what is read: the files are part of the program, and tests read them all.
    pub fn read<T: DeserializeOwned>(&self, part: fn(&Self) -> &str) -> T {
        toml::from_str(part(self))
            .unwrap_or_else(|error| panic!("document {}: {error}", self.number))
    }
}

macro_rules! document {
    ($number:literal: $($part:ident $ending:literal),+) => {
        Document {
            number: $number,
            $($part: include_str!(
                concat!("../../documents/", $number, "/", stringify!($part), $ending)
            ),)+
            ..Document::EMPTY
        }
    };
}

/// All documents, in order.
pub const DOCUMENTS: [Document; 9] = [
    document!("000": paths ".toml", experiments ".toml", tables ".csv"),
    document!("001": paths ".toml", loads ".toml", experiments ".toml", tables ".csv"),
    document!("002": paths ".toml", experiments ".toml", machine ".toml"),
    document!("003": paths ".toml", experiments ".toml"),
    document!("004": paths ".toml", experiments ".toml", machine ".toml"),
    document!("005": paths ".toml", experiments ".toml", rows ".csv"),
    document!("006": paths ".toml", experiments ".toml", tables ".csv"),
    document!("008": paths ".toml", experiments ".toml", tables ".csv"),
    document!("009": paths ".toml", experiments ".toml"),
];

/// The tables of one kind of all documents' files together.
pub(crate) fn tables<T: DeserializeOwned>(part: fn(&Document) -> &str) -> BTreeMap<String, T> {
    let of = |document| Document::read::<BTreeMap<String, T>>(document, part);
    DOCUMENTS.iter().flat_map(of).collect()
}
