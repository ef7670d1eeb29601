//! redis: its protocol (RESP, version 2).

use super::clients::{Connection, Exchange, Protocol, Reply};
use super::traffic::{Deed, Traffic};

pub(super) fn protocol() -> Box<dyn Protocol> {
    Box::new(Redis)
}

struct Redis;

impl Protocol for Redis {
    fn connection(&self, number: usize) -> Connection {
        let mut traffic = Traffic::new(number, true);
        Box::new(move || exchange(traffic.draw()))
    }

    /// Memory that is resident afterwards is then what the server keeps without use.
    fn farewell(&self) -> Option<Exchange> {
        Some(Exchange::new(command(&[b"FLUSHALL", b"SYNC"]), "+OK\r\n"))
    }
}

fn exchange(deed: Deed) -> Exchange {
    match deed {
        Deed::Set { key, value } => {
            Exchange::new(command(&[b"SET", key.as_bytes(), &value]), "+OK\r\n")
        }
        Deed::Get { key, found } => Exchange::new(command(&[b"GET", key.as_bytes()]), bulk(found)),
        Deed::Append { key, tail, length } => {
            Exchange::new(command(&[b"APPEND", key.as_bytes(), &tail]), number(length))
        }
        Deed::Delete { key, existed } => {
            Exchange::new(command(&[b"DEL", key.as_bytes()]), number(existed.into()))
        }
        Deed::Push { list, value, length } => {
            Exchange::new(command(&[b"LPUSH", list.as_bytes(), &value]), number(length))
        }
        Deed::Pop { list, found } => {
            Exchange::new(command(&[b"RPOP", list.as_bytes()]), bulk(found))
        }
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(bulk_of(word));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_resp() {
        let found = Some(b"abc".to_vec());
        let got = exchange(Deed::Get { key: "k".to_owned(), found });
        assert_eq!(got.request, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(got.reply, "$3\r\nabc\r\n".into());
        let gone = exchange(Deed::Pop { list: "l".to_owned(), found: None });
        assert_eq!(gone.reply, "$-1\r\n".into());
    }
}
