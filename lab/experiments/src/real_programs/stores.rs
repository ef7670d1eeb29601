//! Stores of keys and values: the protocols of redis (RESP, version 2) and memcached (as text).

use super::clients::{Connection, Exchange, Protocol, Reply};
use super::traffic::{Deed, Traffic};

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
}
