//! Datagrams, a stream, and transactions over the loopback device, between two threads; and
//! hackbench with threads: in a group each sender writes to each receiver in turn, through a pipe
//! or a socket that the receiver alone reads.

use super::gate::{Done, Task};
use anyhow::{Result, ensure};
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
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
fn in_window(
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
fn receiver(
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

/// A group has this many senders, and as many receivers.
const MEMBERS: u64 = 20;

/// The two ends of a pipe or a socket, as files; both kinds carry a stream of bytes.
fn channel(pipes: bool) -> Result<[File; 2]> {
    let ends: [OwnedFd; 2] = if pipes {
        let (reader, writer) = pipe()?;
        [reader.into(), writer.into()]
    } else {
        let (reader, writer) = UnixStream::pair()?;
        [reader.into(), writer.into()]
    };
    Ok(ends.map(File::from))
}

/// The threads of a group with at least `operations` messages.
pub(super) fn group(bytes: usize, pipes: bool, operations: u64) -> Result<Vec<Task<'static>>> {
    let rounds = operations.div_ceil(MEMBERS * MEMBERS);
    let channels: Result<Vec<_>> = (0..MEMBERS).map(|_| channel(pipes)).collect();
    let (readers, writers): (Vec<File>, Vec<File>) =
        channels?.into_iter().map(|[reader, writer]| (reader, writer)).unzip();
    let writers = Arc::new(writers);
    let mut tasks: Vec<Task<'static>> = Vec::new();
    for reader in readers {
        let mut receive = receiver(reader, bytes);
        tasks.push(in_window(rounds, move |rounds| receive(rounds * MEMBERS)));
        let writers = Arc::clone(&writers);
        let send = move |rounds: u64| {
            let message = vec![0x5a; bytes];
            for _ in 0..rounds {
                writers.iter().try_for_each(|mut writer| writer.write_all(&message))?;
            }
            Ok(Done::default())
        };
        tasks.push(in_window(rounds, send));
    }
    Ok(tasks)
}
