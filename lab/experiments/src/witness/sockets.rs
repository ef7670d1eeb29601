//! Datagrams, a stream, and transactions over the loopback device, between two threads.

use super::gate::{Done, Task};
use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Datagrams in flight at a time. Eight of 8 KiB, each 16 KiB with the kernel's overhead, fit into
/// a socket's buffer of the default size.
const BURST: u64 = 8;
/// A side that waits longer than this for a message fails the sample.
const PATIENCE: Duration = Duration::from_secs(10);
/// The warm-up has one operation for this many in the window.
const WARM_UP: u64 = 8;

pub(super) type Pair = [Task<'static>; 2];

fn end() -> (Ipv4Addr, u16) {
    (Ipv4Addr::LOCALHOST, 0)
}

/// Runs one side for the warm-up and then in the window; both sides pass the gate together.
pub(super) fn in_window(
    operations: u64,
    mut side: impl FnMut(u64) -> Result<Done> + Send + 'static,
) -> Task<'static> {
    Box::new(move |gate| {
        side(operations / WARM_UP)?;
        gate.pass();
        let done = side(operations)?;
        Ok(Box::new(move || {
            // Closes the sockets after the window.
            drop(side);
            done
        }))
    })
}

/// Reads messages of `bytes` bytes from a stream; the first and the last byte of each are checked.
pub(super) fn receiver(
    mut stream: impl Read + Send + 'static,
    bytes: usize,
) -> impl FnMut(u64) -> Result<Done> + Send + 'static {
    move |count| {
        let (mut message, mut done) = (vec![0; bytes], Done::default());
        for _ in 0..count {
            stream.read_exact(&mut message)?;
            done.operations += 1;
            done.verified += u64::from(message[0] == 0x5a && message[bytes - 1] == 0x5a);
        }
        Ok(done)
    }
}

/// Sender and receiver of datagrams. They alternate by bursts, so that no datagram is lost.
pub(super) fn datagrams(bytes: usize, operations: u64) -> Result<Pair> {
    let receiver = UdpSocket::bind(end())?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind(end())?;
    sender.connect(receiver.local_addr()?)?;
    let step = Arc::new(Barrier::new(2));
    let other = Arc::clone(&step);
    let send = move |count: u64| {
        let message = vec![0x5a; bytes];
        for number in 1..=count {
            sender.send(&message)?;
            if number % BURST == 0 {
                step.wait();
            }
        }
        Ok(Done::default())
    };
    let receive = move |count: u64| {
        let mut message = vec![0; bytes + 1];
        let mut done = Done::default();
        for number in 1..=count {
            let length = receiver.recv(&mut message)?;
            done.operations += 1;
            done.verified += u64::from(length == bytes && message[bytes - 1] == 0x5a);
            if number % BURST == 0 {
                other.wait();
            }
        }
        Ok(done)
    };
    Ok([in_window(operations, send), in_window(operations, receive)])
}

fn connection() -> Result<[TcpStream; 2]> {
    let listener = TcpListener::bind(end())?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.set_read_timeout(Some(PATIENCE))?;
    client.set_read_timeout(Some(PATIENCE))?;
    Ok([client, server])
}

/// Sender and receiver of a stream of messages, with Nagle's algorithm.
pub(super) fn stream(bytes: usize, operations: u64) -> Result<Pair> {
    let [mut client, server] = connection()?;
    client.set_nodelay(false)?;
    let send = move |count: u64| {
        let message = vec![0x5a; bytes];
        for _ in 0..count {
            client.write_all(&message)?;
        }
        Ok(Done::default())
    };
    Ok([in_window(operations, send), in_window(operations, receiver(server, bytes))])
}

/// Client and server of transactions of a byte each way.
pub(super) fn transactions(operations: u64) -> Result<Pair> {
    let [mut client, mut server] = connection()?;
    let ask = move |count: u64| {
        let mut done = Done::default();
        for number in 0..count {
            let (question, mut answer) = ([number as u8], [0]);
            client.write_all(&question)?;
            client.read_exact(&mut answer)?;
            done.operations += 1;
            done.verified += u64::from(answer[0] == !question[0]);
        }
        Ok(done)
    };
    let answer = move |count: u64| {
        let mut byte = [0];
        for _ in 0..count {
            server.read_exact(&mut byte)?;
            ensure!(server.write(&[!byte[0]])? == 1, "a connection takes a byte");
        }
        Ok(Done::default())
    };
    Ok([in_window(operations, ask), in_window(operations, answer)])
}
