//! A key-value store in a file, read through the page cache. Keys and values are lines; a page
//! holds the entries whose keys have the same hash. The cached pages and the heap share one limit.
//!
//! ```text
//! $ printf 'set apple red\nget apple\nget plum\n' | cargo run --example store -- colours.db 16
//! ok
//! red
//! -
//! ```
//!
//! The second argument is the limit in MiB. At the end, and at the line `sync`, the store waits
//! until all entries are on the device.

use quarry::{Budget, Error, FileBacking, Mapping, PageCache, PageSlot, Quarry, ReadWrite};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, Write};

#[global_allocator]
static A: Quarry = Quarry;

/// Pages of the file: 64 MiB.
const PAGES: u64 = 16_384;

struct Store {
    pages: Mapping<FileBacking<ReadWrite>>,
}

/// The entries of a page: `key\0value\n`, one after the other, followed by zeroes.
fn entries(page: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let used = page.iter().position(|byte| *byte == 0xff).unwrap_or(page.len());
    let text = std::str::from_utf8(&page[..used]).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('\0')).filter(|(key, _)| !key.is_empty())
}

impl Store {
    fn page_of(key: &str) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(key) % PAGES
    }

    fn get(&self, key: &str) -> Result<Option<String>, Error> {
        let page = match self.pages.read(Self::page_of(key)) {
            Err(Error::OutOfRange { .. }) => return Ok(None),
            page => page?.latch_shared(),
        };
        let found = entries(&page).find(|(found, _)| *found == key);
        Ok(found.map(|(_, value)| value.to_owned()))
    }

    /// Returns whether the page had room for the entry.
    fn set(&self, key: &str, value: &str) -> Result<bool, Error> {
        let index = Self::page_of(key);
        let page = match self.pages.read(index) {
            Err(Error::OutOfRange { .. }) => match self.pages.get_or_alloc(index)? {
                PageSlot::Found(page) => page,
                PageSlot::New(page) => page.fill_dirty(|_| {}),
            },
            page => page?,
        };
        let mut page = page.latch_exclusive();
        let mut text = String::new();
        for (found, kept) in entries(&page).filter(|(found, _)| *found != key) {
            text += &format!("{found}\0{kept}\n");
        }
        text += &format!("{key}\0{value}\n");
        let fits = text.len() <= page.len();
        if fits {
            page[..text.len()].copy_from_slice(text.as_bytes());
            page[text.len()..].fill(0xff);
        }
        Ok(fits)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(limit)) = (arguments.next(), arguments.next()) else {
        return Err("usage: store FILE MEBIBYTES".into());
    };
    let budget = Budget::get().ok_or("QUARRY_DISABLE=1: there is no page cache")?;
    Quarry::set_limit(limit.parse::<usize>()? << 20)?;
    let file = FileBacking::open_writable(path)?;
    let store = Store { pages: PageCache::builder().read_ahead(0).open(file)? };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("set"), Some(key), Some(value)) => {
                writeln!(out, "{}", if store.set(key, value)? { "ok" } else { "full" })?;
            }
            (Some("get"), Some(key), None) => {
                writeln!(out, "{}", store.get(key)?.as_deref().unwrap_or("-"))?;
            }
            (Some("sync"), None, None) => {
                store.pages.sync()?;
                writeln!(out, "ok")?;
            }
            _ => writeln!(out, "use: set KEY VALUE, get KEY, or sync")?,
        }
    }
    store.pages.sync()?;
    let stats = budget.stats();
    eprintln!(
        "{} pages of {} are cached; {} KiB of {} are in use",
        store.pages.pages(),
        PAGES,
        stats.used >> 10,
        stats.limit >> 10
    );
    Ok(())
}
