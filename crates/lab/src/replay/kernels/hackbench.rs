//! hackbench: groups of 20 senders and 20 receivers (document 000).

use super::super::path::{Path, Piece, Role, Source, Work, alloc, free, kmalloc};
use super::{Cast, Scenario};

/// Senders of a group, and receivers.
const PEOPLE: usize = 20;
/// Bytes of a message.
const MESSAGE: usize = 100;

/// The medium that messages go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A pipe has 16 pages. A writer fills the last one before it takes another, all under the
    /// pipe's mutex; of the pages that were read, the pipe keeps one for its next writer.
    Pipe,
    /// A message through a socket is a head and a buffer of 512 bytes. A socket takes 212,992
    /// bytes of them.
    Socket,
}

/// One group is one task. Each sender sends `loops` messages to each receiver of its group: 400
/// messages a loop. There is no stand-in for other work: the copies and the scheduling, which are
/// nearly all that the original does, happen here too.
pub(crate) fn hackbench(medium: Medium, threads: bool, loops: u64) -> Scenario {
    let page = Piece::new("page", Source::pages(0)).recycled();
    let head = Source::Cache { name: "skbuff_head_cache", bytes: 256 };
    let head = Piece::new("head", head).cleared(200);
    let data = Piece::new("data", kmalloc(MESSAGE.next_multiple_of(64) + 320, 8192));
    let in_page = (4096 / MESSAGE) as u32;
    let (steps, carrier, capacity) = match medium {
        Medium::Pipe => {
            let steps =
                vec![alloc(page, Role::Sender, in_page), free(page, Role::Receiver, in_page)];
            (steps, page, 16 * in_page)
        }
        Medium::Socket => {
            let steps = vec![
                alloc(head, Role::Sender, 1),
                alloc(data, Role::Sender, 1),
                free(data, Role::Receiver, 1),
                free(head, Role::Receiver, 1),
            ];
            (steps, data, 212_992_usize.div_ceil(512 + 256) as u32)
        }
    };
    Scenario {
        path: Path { steps, carrier: Some(carrier), payload: MESSAGE, work: Work::default() },
        cast: Cast::Crew {
            senders: PEOPLE,
            receivers: PEOPLE,
            burst: 1,
            capacity,
            pipe: medium == Medium::Pipe,
            shared_files: threads,
            load: None,
            turns: Some(loops),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_briefly;
    use super::*;

    #[test]
    fn a_group_sends_400_messages_a_loop() {
        for (medium, threads) in [(Medium::Pipe, false), (Medium::Socket, true)] {
            let replayed = run_briefly(&hackbench(medium, threads, 3), 2);
            assert_eq!(replayed.sent, 2 * 400 * 3);
            let allocs = replayed.counters.zone_allocs;
            match medium {
                Medium::Pipe => assert!(allocs <= replayed.sent, "pages are shared or kept"),
                Medium::Socket => assert_eq!(allocs, 2 * replayed.sent),
            }
        }
    }
}
