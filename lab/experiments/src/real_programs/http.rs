//! Requests over HTTP: for pages (files, and pages that the server makes from them), and with
//! documents of JSON, in the protocol of `axum-json`.

use super::clients::{Connection, Exchange, Protocol, Reply};
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
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
                0 => get(&format!("{number}.shtml"), made(number)),
                _ => get(&format!("{number}.txt"), file(number)),
            }
        })
    }
}

fn get(name: &str, body: Vec<u8>) -> Exchange {
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

/// One request in this many is a document of any form, which the server sends back.
const ONE_ECHO_IN: u32 = 4;
/// Numbers of orders. The service keeps one order for all numbers with the same rest modulo 50,000.
const IDS: u64 = 200_000;
const MOST_LINES: u64 = 30;

pub(super) struct Documents;

impl Protocol for Documents {
    fn connection(&self, number: usize) -> Connection {
        let mut random = StdRng::seed_from_u64(number as u64);
        Box::new(move || match random.random_range(0..ONE_ECHO_IN) {
            0 => {
                let any = order(&mut random);
                post("echo", &any, &any)
            }
            _ => {
                let order = order(&mut random);
                post("orders", &order, &json!({ "id": order["id"], "cents": sum(&order) }))
            }
        })
    }
}

fn post(path: &str, document: &Value, reply: &Value) -> Exchange {
    let (body, reply) = (document.to_string(), reply.to_string());
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: quarry\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    Exchange::new((head + &body).into_bytes(), Reply::Document(reply.into_bytes()))
}

fn order(random: &mut StdRng) -> Value {
    let mut word = |stem: &str| format!("{stem}-{}", random.random_range(0..1_000_000));
    let customer = word("customer");
    let tags: Vec<String> = (0..5).map(|_| word("tag")).collect();
    let lines: Vec<Value> = (0..random.random_range(1..MOST_LINES))
        .map(|_| {
            json!({
                "article": format!("article-{}", random.random_range(0..1_000_000)),
                "count": random.random_range(0..100u64),
                "cents": random.random_range(0..100_000u64),
            })
        })
        .collect();
    json!({ "id": random.random_range(0..IDS), "customer": customer, "tags": tags, "lines": lines })
}

fn sum(order: &Value) -> u64 {
    let number = |line: &Value, name: &str| line[name].as_u64().unwrap_or(0);
    let lines = order["lines"].as_array().into_iter().flatten();
    lines.map(|line| number(line, "count") * number(line, "cents")).sum()
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

    #[test]
    fn the_sum_of_an_order_is_that_of_its_lines() {
        let order = json!({ "lines": [{ "count": 2, "cents": 30 }, { "count": 1, "cents": 5 }] });
        assert_eq!(sum(&order), 65);
    }

    #[test]
    fn requests_say_how_long_their_documents_are() {
        let Exchange { request, reply } = post("echo", &json!([1]), &json!([1]));
        let text = String::from_utf8(request).unwrap();
        assert!(text.starts_with("POST /echo HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 3\r\n\r\n[1]"), "{text}");
        assert_eq!(reply, Reply::Document(b"[1]".to_vec()));
    }
}
