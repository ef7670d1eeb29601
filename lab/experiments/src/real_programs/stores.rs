//! Stores of keys and values: the protocols of redis (RESP, version 2) and memcached (as text). The
//! replies to requests are known, because no other client uses the store.

use super::clients::{Connection, Exchange, Protocol, Reply};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy)]
pub(super) struct Store {
    has_lists: bool,
    exchange: fn(Deed) -> Exchange,
    farewell: Option<fn() -> Exchange>,
}

pub(super) const REDIS: Store = Store {
    has_lists: true,
    exchange: resp,
    // After this request, resident memory is what the server keeps although it stores nothing.
    farewell: Some(|| Exchange::new(command(&[b"FLUSHALL", b"SYNC"]), "+OK\r\n")),
};

pub(super) const MEMCACHED: Store = Store { has_lists: false, exchange: text, farewell: None };

impl Protocol for Store {
    fn connection(&self, number: usize) -> Connection {
        let (mut traffic, exchange) = (Traffic::new(number, self.has_lists), self.exchange);
        Box::new(move || exchange(traffic.draw()))
    }

    fn farewell(&self) -> Option<Exchange> {
        self.farewell.map(|farewell| farewell())
    }
}

fn resp(deed: Deed) -> Exchange {
    let (verb, key, value, reply) = match deed {
        Deed::Set { key, value } => ("SET", key, Some(value), "+OK\r\n".into()),
        Deed::Get { key, found } => ("GET", key, None, bulk(found)),
        Deed::Append { key, tail, length } => ("APPEND", key, Some(tail), number(length)),
        Deed::Delete { key, existed } => ("DEL", key, None, number(existed.into())),
        Deed::Push { list, value, length } => ("LPUSH", list, Some(value), number(length)),
        Deed::Pop { list, found } => ("RPOP", list, None, bulk(found)),
    };
    let words = [verb.as_bytes(), key.as_bytes()].into_iter().chain(value.as_deref());
    Exchange::new(command(&words.collect::<Vec<_>>()), reply)
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend(bulk_of(word)));
    bytes
}

fn bulk_of(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn bulk(found: Option<Vec<u8>>) -> Reply {
    found.map_or_else(|| "$-1\r\n".into(), |value| Reply::Exactly(bulk_of(&value)))
}

fn number(number: usize) -> Reply {
    Reply::Exactly(format!(":{number}\r\n").into_bytes())
}

fn text(deed: Deed) -> Exchange {
    let store = |verb: &str, key: &str, value: &[u8]| {
        let head = format!("{verb} {key} 0 0 {}\r\n", value.len());
        Exchange::new([head.as_bytes(), value, b"\r\n"].concat(), "STORED\r\n")
    };
    match deed {
        Deed::Set { key, value } => store("set", &key, &value),
        Deed::Append { key, tail, .. } => store("append", &key, &tail),
        Deed::Get { key, found } => {
            let head = |value: &[u8]| format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
            let reply = found.map_or_else(Vec::new, |it| [&head(&it), &it[..], b"\r\n"].concat());
            let reply = Reply::Exactly([&reply[..], b"END\r\n"].concat());
            Exchange::new(format!("get {key}\r\n").into_bytes(), reply)
        }
        Deed::Delete { key, existed } => {
            let reply = if existed { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
            Exchange::new(format!("delete {key}\r\n").into_bytes(), reply)
        }
        Deed::Push { .. } | Deed::Pop { .. } => unreachable!("memcached has no lists"),
    }
}

const KEYS: u32 = 2000;
/// Longest value, in bytes. Replies of a few such values fit into a socket's buffer.
const LONGEST: usize = 4096;
const LONGEST_LIST: usize = 500;

/// A request and its expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Deed {
    /// Store a value.
    Set { key: String, value: Vec<u8> },
    /// Read a value.
    Get { key: String, found: Option<Vec<u8>> },
    /// Append to a value; the expected result is its new length.
    Append { key: String, tail: Vec<u8>, length: usize },
    /// Remove a value.
    Delete { key: String, existed: bool },
    /// Push to the head of a list; the expected result is its new length.
    Push { list: String, value: Vec<u8>, length: usize },
    /// Pop from the end of a list.
    Pop { list: String, found: Option<Vec<u8>> },
}

/// The requests of one connection in order, and a copy of its data on the server. Keys contain the
/// connection's number, so connections never share a key.
#[derive(Debug)]
struct Traffic {
    connection: usize,
    with_lists: bool,
    random: StdRng,
    values: HashMap<String, Vec<u8>>,
    list: VecDeque<Vec<u8>>,
}

impl Traffic {
    pub(super) fn new(connection: usize, with_lists: bool) -> Self {
        Self {
            connection,
            with_lists,
            random: StdRng::seed_from_u64(connection as u64),
            values: HashMap::new(),
            list: VecDeque::new(),
        }
    }

    pub(super) fn draw(&mut self) -> Deed {
        let key = format!("{}:key:{}", self.connection, self.random.random_range(0..KEYS));
        match self.random.random_range(0..100) {
            0..40 => {
                let value = self.value();
                self.values.insert(key.clone(), value.clone());
                Deed::Set { key, value }
            }
            40..70 => Deed::Get { found: self.values.get(&key).cloned(), key },
            70..80 => self.append(key),
            80..90 => Deed::Delete { existed: self.values.remove(&key).is_some(), key },
            _ if !self.with_lists => Deed::Get { found: self.values.get(&key).cloned(), key },
            _ => self.push_or_pop(),
        }
    }

    /// Appends to a value if it exists and is short enough, else reads it.
    fn append(&mut self, key: String) -> Deed {
        let tail = vec![b'+'; self.random.random_range(8..200)];
        match self.values.get_mut(&key) {
            Some(value) if value.len() + tail.len() <= LONGEST => {
                value.extend_from_slice(&tail);
                Deed::Append { key, tail, length: value.len() }
            }
            found => Deed::Get { found: found.cloned(), key },
        }
    }

    fn push_or_pop(&mut self) -> Deed {
        let list = format!("{}:list", self.connection);
        if self.list.len() < LONGEST_LIST && self.random.random_range(0..5) < 3 {
            let value = self.value();
            self.list.push_front(value.clone());
            return Deed::Push { list, value, length: self.list.len() };
        }
        Deed::Pop { list, found: self.list.pop_back() }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.random_range(0..10) {
            0..6 => self.random.random_range(16..128),
            6..9 => self.random.random_range(128..1024),
            _ => self.random.random_range(1024..LONGEST),
        };
        let mark: u8 = self.random.random_range(b'a'..=b'z');
        vec![mark; length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_those_of_the_protocols() {
        let key = || "k".to_owned();
        let get = || Deed::Get { key: key(), found: Some(b"abc".to_vec()) };
        let got = resp(get());
        assert_eq!(got.request, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(got.reply, "$3\r\nabc\r\n".into());
        let gone = resp(Deed::Pop { list: "l".to_owned(), found: None });
        assert_eq!(gone.reply, "$-1\r\n".into());
        let set = text(Deed::Set { key: key(), value: b"abc".to_vec() });
        assert_eq!(set.request, b"set k 0 0 3\r\nabc\r\n");
        assert_eq!(text(get()).reply, "VALUE k 0 3\r\nabc\r\nEND\r\n".into());
        let gone = text(Deed::Delete { key: key(), existed: false });
        assert_eq!(gone.reply, "NOT_FOUND\r\n".into());
    }

    #[test]
    fn every_kind_comes_and_is_consistent() {
        let mut traffic = Traffic::new(1, true);
        let mut held: HashMap<String, Vec<u8>> = HashMap::new();
        let mut kinds = std::collections::HashSet::new();
        for _ in 0..20_000 {
            let deed = traffic.draw();
            kinds.insert(std::mem::discriminant(&deed));
            match deed {
                Deed::Set { key, value } => {
                    held.insert(key, value);
                }
                Deed::Get { key, found } => assert_eq!(held.get(&key), found.as_ref()),
                Deed::Append { key, tail, length } => {
                    let value = held.get_mut(&key).unwrap();
                    value.extend(tail);
                    assert_eq!(length, value.len());
                    assert!(value.len() <= LONGEST);
                }
                Deed::Delete { key, existed } => assert_eq!(held.remove(&key).is_some(), existed),
                Deed::Push { length, .. } => assert!(length <= LONGEST_LIST),
                Deed::Pop { .. } => {}
            }
        }
        assert_eq!(kinds.len(), 6);
        let mut without = Traffic::new(1, false);
        let is_list = |deed: &Deed| matches!(deed, Deed::Push { .. } | Deed::Pop { .. });
        assert!((0..1000).all(|_| !is_list(&without.draw())));
    }
}
