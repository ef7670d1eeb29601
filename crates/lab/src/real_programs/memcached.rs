//! memcached: its text protocol.

use super::clients::{Connection, Exchange, Protocol, Reply};
use super::traffic::{Deed, Traffic};

pub(super) fn protocol() -> Box<dyn Protocol> {
    Box::new(Memcached)
}

struct Memcached;

impl Protocol for Memcached {
    fn connection(&self, number: usize) -> Connection {
        let mut traffic = Traffic::new(number, false);
        Box::new(move || exchange(traffic.draw()))
    }
}

fn exchange(deed: Deed) -> Exchange {
    match deed {
        Deed::Set { key, value } => Exchange::new(store("set", &key, &value), "STORED\r\n"),
        Deed::Append { key, tail, .. } => Exchange::new(store("append", &key, &tail), "STORED\r\n"),
        Deed::Get { key, found } => {
            Exchange::new(format!("get {key}\r\n").into_bytes(), value(&key, found))
        }
        Deed::Delete { key, existed } => {
            let reply = if existed { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
            Exchange::new(format!("delete {key}\r\n").into_bytes(), reply)
        }
        Deed::Push { .. } | Deed::Pop { .. } => unreachable!("memcached has no lists"),
    }
}

fn store(verb: &str, key: &str, value: &[u8]) -> Vec<u8> {
    [format!("{verb} {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn value(key: &str, found: Option<Vec<u8>>) -> Reply {
    let Some(value) = found else { return "END\r\n".into() };
    let head = format!("VALUE {key} 0 {}\r\n", value.len());
    Reply::Exactly([head.as_bytes(), &value, b"\r\nEND\r\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_the_text_protocol() {
        let key = || "k".to_owned();
        let set = exchange(Deed::Set { key: key(), value: b"abc".to_vec() });
        assert_eq!(set.request, b"set k 0 0 3\r\nabc\r\n");
        let got = exchange(Deed::Get { key: key(), found: Some(b"abc".to_vec()) });
        assert_eq!(got.reply, "VALUE k 0 3\r\nabc\r\nEND\r\n".into());
        let gone = exchange(Deed::Delete { key: key(), existed: false });
        assert_eq!(gone.reply, "NOT_FOUND\r\n".into());
    }
}
