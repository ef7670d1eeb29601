//! Pages over HTTP: files, and pages that the server makes from them.

use super::clients::{Connection, Exchange, Protocol, Reply};
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::path::Path;

const FILES: usize = 24;
/// One page in this many is made from others.
const ONE_MADE_IN: u32 = 4;
const PARTS: usize = 5;

pub(super) struct Pages;

impl Protocol for Pages {
    fn prepare(&self, folder: &Path) -> Result<()> {
        let root = folder.join("pages");
        fs::create_dir_all(&root)?;
        let write = |name: String, bytes: Vec<u8>| {
            fs::write(root.join(&name), bytes).with_context(|| format!("pages/{name}"))
        };
        for number in 0..FILES {
            write(format!("{number}.txt"), file(number))?;
            write(format!("{number}.shtml"), template(number))?;
        }
        Ok(())
    }

    fn connection(&self, number: usize) -> Connection {
        let mut random = StdRng::seed_from_u64(number as u64);
        Box::new(move || {
            let number = random.random_range(0..FILES);
            match random.random_range(0..ONE_MADE_IN) {
                0 => exchange(&format!("{number}.shtml"), made(number)),
                _ => exchange(&format!("{number}.txt"), file(number)),
            }
        })
    }
}

fn exchange(name: &str, body: Vec<u8>) -> Exchange {
    let request = format!("GET /{name} HTTP/1.1\r\nHost: quarry\r\nUser-Agent: lab\r\n\r\n");
    Exchange::new(request.into_bytes(), Reply::Page(body))
}

/// The content of a file, of 150 to 2,736 bytes.
fn file(number: usize) -> Vec<u8> {
    format!("this is file {number}\n").repeat(10 + number * 7).into_bytes()
}

fn parts(number: usize) -> impl Iterator<Item = usize> {
    (0..PARTS).map(move |part| (number + part * 5) % FILES)
}

fn template(number: usize) -> Vec<u8> {
    let include = |part| format!("<p><!--#include file=\"{part}.txt\" --></p>");
    parts(number).map(include).collect::<String>().into_bytes()
}

fn made(number: usize) -> Vec<u8> {
    parts(number).flat_map(|part| [b"<p>", &file(part)[..], b"</p>"].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_name_what_the_page_holds() {
        let text = String::from_utf8(template(3)).unwrap();
        assert!(text.starts_with("<p><!--#include file=\"3.txt\" --></p>"), "{text}");
        let page = String::from_utf8(made(3)).unwrap();
        assert!(page.starts_with("<p>this is file 3\n") && page.ends_with("</p>"));
        assert_eq!(page.matches("<p>").count(), text.matches("#include").count());
    }
}
