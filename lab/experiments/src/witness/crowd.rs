//! hackbench with threads: in a group each sender writes to each receiver in turn, through a pipe
//! or a socket that the receiver alone reads.

use super::gate::{Done, Task};
use super::sockets::{in_window, receiver};
use anyhow::Result;
use std::fs::File;
use std::io::{Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

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
