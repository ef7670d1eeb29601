//! Packets on the loopback device: netperf and sockperf (documents 000, 002 and 003).

use super::super::crew::Load;
use super::super::path::{Path, Piece, Role, Source, Step, Work, alloc, free, kmalloc};
use super::{Cast, Scenario, pair};

/// The cost of a packet beside the allocator: sender and receiver each copy this many bytes between
/// buffers of their own. Fixed before any variant ran, so that the page allocator has the share of
/// the baseline that document 003 measured: `__free_pages_ok` 12.37 % and `get_page_from_freelist`
/// 11.52 %, together 23.9 %. On the machine where it was fixed, one thread that walks the path of
/// `udp-u-4k` on slub+order0 took 233 ns for a packet without other work, the two copies of the
/// payload included, 106 of them in the page allocator, and 84 ns more for each 6 KiB copied on
/// either side: (106 / 0.239 - 233) / 84 * 6 KiB = 15 KiB. The same command prints the share on the
/// machine at hand: `quarry lab run udp-u-4k --calibrate`.
///
/// It is the only profile in the documents, so it serves for all packets: what a packet costs
/// hardly follows its size (document 000: 1,965 ns for 64 bytes without what hopcpu saved, 3,995 ns
/// for 16 KiB, of which the copies are a good half).
pub(crate) const PACKET_WORK: usize = 15 << 10;

/// The cost of a message on a stream of TCP beside the allocator, where the stack is entered once
/// for many: a quarter of a packet. Document 000, hopcpu: sockperf's messages took 1,208, 623, 390,
/// 445 and 547 ns by TCP, median 547, and 2,186 to 2,313 ns by UDP.
const STREAM_MESSAGE_WORK: usize = PACKET_WORK / 4;

/// The differences between kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// `kmalloc` of more bytes is a block of pages: `PAGE_SIZE` to 2.6.29, twice that since.
    kmalloc_limit: usize,
    /// Bytes that may wait in a socket: `net.core.rmem_default`.
    socket_bytes: usize,
    /// True if a packet is charged for the bucket that it lies in (since 3.3), not for its own
    /// bytes.
    charges_buckets: bool,
}

/// Document 003.
pub(crate) const LINUX_2_6_29: Kernel =
    Kernel { kmalloc_limit: 4096, socket_bytes: 129_024, charges_buckets: false };
/// Document 000.
pub(crate) const LINUX_4_9: Kernel =
    Kernel { kmalloc_limit: 8192, socket_bytes: 212_992, charges_buckets: true };

/// `struct sk_buff`: 232 bytes, in cache lines of their own.
const SKB: Source = Source::Cache { name: "skbuff_head_cache", bytes: 256 };
/// Two of them for what TCP may have to send again, and their reference count.
const SKB_FCLONE: Source = Source::Cache { name: "skbuff_fclone_cache", bytes: 512 };
/// `__alloc_skb` clears a head up to its `tail`.
const CLEARED: usize = 200;
/// `struct skb_shared_info`, at the end of each data buffer.
const SHARED_INFO: usize = 320;
/// Room for all headers of TCP.
const MAX_TCP_HEADER: usize = 320;

const HEAD: Piece = Piece::new("head", SKB).cleared(CLEARED);
const FCLONE_HEAD: Piece = Piece::new("head", SKB_FCLONE).cleared(CLEARED);

impl Kernel {
    /// Bytes that a datagram's buffer is asked for: payload, headers of UDP and IP (28), of the
    /// link with its alignment (31), rounded to cache lines; then the shared info.
    fn datagram_bytes(payload: usize) -> usize {
        (payload + 28 + 31).next_multiple_of(64) + SHARED_INFO
    }

    /// Packets that fill a socket. One that has any room left takes another packet.
    fn burst(self, payload: usize) -> u32 {
        let asked = Self::datagram_bytes(payload);
        let each = if self.charges_buckets {
            kmalloc(asked, self.kmalloc_limit).bytes() + 256
        } else {
            asked - SHARED_INFO + 232
        };
        self.socket_bytes.div_ceil(each) as u32
    }

    fn datagram(self, payload: usize, work: usize) -> Path {
        let source = kmalloc(Self::datagram_bytes(payload), self.kmalloc_limit);
        let data = Piece::new("data", source);
        Path {
            steps: vec![
                alloc(HEAD, Role::Sender, 1),
                alloc(data, Role::Sender, 1),
                free(data, Role::Receiver, 1),
                free(HEAD, Role::Receiver, 1),
            ],
            carrier: Some(data),
            payload,
            work: Work { sender: work, receiver: work },
        }
    }

    /// A stream of datagrams. `work` is [`PACKET_WORK`].
    pub(crate) fn udp_stream(self, payload: usize, burst: Option<u32>, work: usize) -> Scenario {
        let burst = burst.unwrap_or_else(|| self.burst(payload));
        Scenario { path: self.datagram(payload, work), cast: pair(burst) }
    }

    /// Datagrams one at a time, at a pace.
    pub(crate) fn udp_under_load(self, payload: usize, load: Load) -> Scenario {
        let capacity = self.burst(payload);
        Scenario { path: self.datagram(payload, PACKET_WORK), cast: under_load(load, capacity) }
    }
}

/// One message at a time into a queue that has room for more.
fn under_load(load: Load, capacity: u32) -> Cast {
    Cast::Crew {
        senders: 1,
        receivers: 1,
        burst: 1,
        capacity,
        pipe: false,
        shared_files: false,
        load: Some(load),
        turns: None,
    }
}

/// The acknowledgement: made and dropped by the receiver, for the loopback device delivers it on
/// the CPU that sends it.
const ACK: Piece = Piece::new("ack", SKB).cleared(CLEARED);

/// The steps of an acknowledgement for `messages` messages.
fn acknowledgement(kernel: Kernel, messages: u32) -> [Step; 4] {
    let bytes = MAX_TCP_HEADER + SHARED_INFO;
    let data = Piece::new("ack data", kmalloc(bytes, kernel.kmalloc_limit));
    [
        alloc(ACK, Role::Receiver, messages),
        alloc(data, Role::Receiver, messages),
        free(data, Role::Receiver, messages),
        free(ACK, Role::Receiver, messages),
    ]
}

/// A stream of TCP under Nagle's algorithm: messages are gathered in packets of 64 KiB, whose
/// payload lies in page fragments, blocks of 32 KiB that the process fills one after the other.
/// Every second packet is acknowledged. Four packets are on their way at a time.
pub(crate) fn tcp_stream(payload: usize) -> Scenario {
    const PACKET: usize = 64 << 10;
    const PACKETS: u32 = 4;
    let fragment = Piece::new("fragment", Source::pages(3));
    // The linear part: headers and what select_size leaves of 2 KiB.
    let data = Piece::new("data", kmalloc(2048, LINUX_4_9.kmalloc_limit));
    let messages = |bytes: usize| (bytes / payload).max(1) as u32;
    let (in_packet, in_fragment) = (messages(PACKET), messages(fragment.source.bytes()));
    let path = Path {
        steps: [
            alloc(FCLONE_HEAD, Role::Sender, in_packet),
            alloc(data, Role::Sender, in_packet),
            alloc(fragment, Role::Sender, in_fragment),
            free(fragment, Role::Receiver, in_fragment),
            free(data, Role::Receiver, in_packet),
            free(FCLONE_HEAD, Role::Receiver, in_packet),
        ]
        .into_iter()
        .chain(acknowledgement(LINUX_4_9, 2 * in_packet))
        .collect(),
        carrier: Some(fragment),
        payload,
        work: Work { sender: STREAM_MESSAGE_WORK, receiver: STREAM_MESSAGE_WORK },
    };
    Scenario { path, cast: pair(PACKETS * in_packet) }
}

/// Messages of TCP one at a time, at a pace, each a packet and an acknowledgement of its own: what
/// is measured for latency runs without Nagle's algorithm. They lie in the packet's linear part.
pub(crate) fn tcp_under_load(payload: usize, load: Load) -> Scenario {
    let data = Piece::new("data", kmalloc(2048, LINUX_4_9.kmalloc_limit));
    let path = Path {
        steps: [
            alloc(FCLONE_HEAD, Role::Sender, 1),
            alloc(data, Role::Sender, 1),
            free(data, Role::Receiver, 1),
            free(FCLONE_HEAD, Role::Receiver, 1),
        ]
        .into_iter()
        .chain(acknowledgement(LINUX_4_9, 1))
        .collect(),
        carrier: Some(data),
        payload,
        work: Work { sender: PACKET_WORK, receiver: PACKET_WORK },
    };
    // As many as fill the socket with heads and buckets.
    let capacity = LINUX_4_9.socket_bytes.div_ceil(2048 + 512) as u32;
    Scenario { path, cast: under_load(load, capacity) }
}

/// Transactions of one byte each way (document 002, Linux 3.0): request and answer are a head with
/// its clone and a small buffer, and each is freed by the other side. The acknowledgements travel
/// with them. A transaction costs each side one packet sent and one received.
pub(crate) fn tcp_rr() -> Scenario {
    let buffer = kmalloc(MAX_TCP_HEADER + 1 + SHARED_INFO, LINUX_4_9.kmalloc_limit);
    let data = Piece::new("data", buffer);
    let answer = Piece::new("answer head", SKB_FCLONE).cleared(CLEARED);
    let answer_data = Piece::new("answer data", buffer);
    let path = Path {
        steps: vec![
            alloc(FCLONE_HEAD, Role::Sender, 1),
            alloc(data, Role::Sender, 1),
            free(data, Role::Receiver, 1),
            free(FCLONE_HEAD, Role::Receiver, 1),
            alloc(answer, Role::Receiver, 1),
            alloc(answer_data, Role::Receiver, 1),
            free(answer_data, Role::Sender, 1),
            free(answer, Role::Sender, 1),
        ],
        carrier: Some(data),
        payload: 1,
        work: Work { sender: 2 * PACKET_WORK, receiver: 2 * PACKET_WORK },
    };
    Scenario { path, cast: pair(1) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{allocs_per_message, run_briefly};
    use super::*;

    #[test]
    fn datagrams_take_the_kernels_buckets() {
        let data = |kernel: Kernel, payload| {
            kernel.udp_stream(payload, None, PACKET_WORK).path.steps[1].piece.source
        };
        let bytes = [64, 128, 256, 1024, 2048, 3312, 4096].map(|n| data(LINUX_4_9, n).bytes());
        assert_eq!(bytes, [512, 512, 1024, 2048, 4096, 4096, 8192]);
        assert_eq!(data(LINUX_4_9, 8192), Source::pages(2));
        assert_eq!(data(LINUX_4_9, 16384), Source::pages(3));
        assert_eq!(data(LINUX_2_6_29, 4096), Source::pages(1), "document 003");
        assert_eq!(data(LINUX_2_6_29, 1024).bytes(), 2048);
    }

    #[test]
    fn bursts_fill_a_socket() {
        assert_eq!(LINUX_2_6_29.burst(4096), 30);
        assert_eq!(LINUX_2_6_29.burst(1024), 98);
        assert_eq!([64, 4096, 16384].map(|payload| LINUX_4_9.burst(payload)), [278, 26, 7]);
    }

    #[test]
    fn a_datagram_is_two_allocations() {
        let scenario = LINUX_2_6_29.udp_stream(4096, None, PACKET_WORK);
        assert_eq!(allocs_per_message(&scenario), 2.0);
        assert_eq!(run_briefly(&scenario, 2).sent % 30, 0);
    }

    #[test]
    fn small_messages_of_a_stream_hardly_allocate() {
        let per_packet =
            |payload| allocs_per_message(&tcp_stream(payload)) * 65536.0 / payload as f64;
        for payload in [64, 128, 256, 1024, 2048, 4096, 8192, 16384] {
            // Head, data, two fragments, and an acknowledgement of two pieces for two packets.
            assert_eq!(per_packet(payload), 5.0, "{payload} bytes");
        }
        assert!(allocs_per_message(&tcp_stream(14)) < 0.002);
        assert!(allocs_per_message(&tcp_stream(3312)) < 0.4);
    }

    #[test]
    fn a_transaction_is_four_allocations() {
        assert_eq!(allocs_per_message(&tcp_rr()), 4.0);
        run_briefly(&tcp_rr(), 5);
    }

    #[test]
    fn under_load_every_message_is_timed() {
        for scenario in
            [tcp_under_load(14, Load::Rate(50_000)), LINUX_4_9.udp_under_load(14, Load::Max)]
        {
            let replayed = run_briefly(&scenario, 1);
            assert_eq!(replayed.latencies.len() as u64, replayed.sent);
        }
    }
}
