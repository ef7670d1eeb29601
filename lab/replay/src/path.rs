//! A path through the kernel: what it allocates and frees, from which cache or of which order, in
//! which process, and how many messages share one allocation.
//!
//! A path has up to three legs: what a sender does for each message, what the receiver does with
//! it, and what the sender does when it learns that the message was received. Within a leg each
//! message takes the steps in the order of the table. A step with a batch of `n` serves `n`
//! messages at once: in the first leg it comes before the first of them, in later legs after the
//! last. A burst that ends early also ends its batch.

use crate::memory::{KernelMemory, Pages};

/// The source of a piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A slab cache.
    Cache {
        /// Its name.
        name: String,
        /// Bytes of its objects.
        bytes: usize,
    },
    /// `kmalloc` of this many bytes; the slab policy determines the real source.
    Kmalloc(usize),
    /// The page allocator.
    Pages(Pages),
}

impl Source {
    /// Number of bytes of a piece, as the kernel's `ksize` reports it.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Cache { bytes, .. } => *bytes,
            Self::Kmalloc(bytes) => bucket(*bytes),
            Self::Pages(pages) => 4096 << pages.order,
        }
    }
}

/// Bytes of the general cache that serves `kmalloc(bytes)`: a power of two from 8 on, or 96, or
/// 192. Larger requests go to the page allocator, which also rounds to powers of two.
const fn bucket(bytes: usize) -> usize {
    match bytes {
        ..=8 => 8,
        65..=96 => 96,
        129..=192 => 192,
        _ => bytes.next_power_of_two(),
    }
}

/// Returns the source of `kmalloc(bytes)` under a slab policy that passes requests of more than
/// `largest` bytes on to the page allocator.
fn kmalloc(bytes: usize, largest: usize) -> Source {
    let bucket = bucket(bytes);
    if bytes <= largest {
        return Source::Cache { name: format!("kmalloc-{bucket}"), bytes: bucket };
    }
    let order = bucket.div_ceil(4096).trailing_zeros() as u8;
    Source::Pages(Pages { order, movable: false })
}

/// The source of a piece, in a memory whose type for caches is `C`.
#[derive(Clone, Copy)]
pub(crate) enum From<C> {
    Cache(C),
    Pages(Pages),
}

/// Something that a path allocates, from a source of type `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<S = Source> {
    /// Its source.
    pub source: S,
    /// Bytes at the start of the piece that the kernel clears.
    pub cleared: usize,
    /// True if a queue keeps one freed piece for its next allocation (`tmp_page` of a pipe).
    pub recycled: bool,
    /// Number of messages that share one piece.
    pub batch: u32,
}

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Allocates one piece.
    Alloc,
    /// Allocates the pieces of a batch, which are pages, as one range.
    AllocRange,
    /// Puts the piece allocated last on the LRU lists.
    Add,
    /// Drops the page taken last, without a drain of the add batch that it may be in.
    Drop,
    /// Frees the pieces of a batch one by one.
    Free,
    /// Frees the pieces of a batch as one list.
    FreeList,
    /// Takes the pieces of a batch off the LRU lists and frees them as one list.
    Release,
    /// Frees the pieces of a batch as one range.
    FreeRange,
    /// Frees the pieces of a batch to their cache at once (`kmem_cache_free_bulk`).
    FreeBulk,
}

/// A line of a path's table.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// True if a receiver takes the step, or if the sending process takes it at a later time.
    received: bool,
    /// True if the sending process takes the step once the message was received, although the
    /// receiver has none.
    home: bool,
    act: Act,
    piece: &'a str,
    batch: u32,
}

impl<'a> Line<'a> {
    /// Parses `ROLE ACT PIECE [per COUNT]`; `count` returns how many messages COUNT stands for.
    ///
    /// # Panics
    /// If the text has another form.
    pub fn parse(text: &'a str, count: impl Fn(&str) -> u32) -> Self {
        let (line, batch) = text.split_once(" per ").map_or((text, 1), |(it, n)| (it, count(n)));
        let words: Vec<&str> = line.split(' ').collect();
        let [role, act, piece] = words[..] else { panic!("{text}: not ROLE ACT PIECE") };
        let (received, home) = match role {
            "sender" => (false, false),
            "receiver" => (true, false),
            "home" => (false, true),
            _ => panic!("{text}: a step of neither sender nor receiver"),
        };
        let act = match act {
            "alloc" => Act::Alloc,
            "alloc-range" => Act::AllocRange,
            "add" => Act::Add,
            "drop" => Act::Drop,
            "free" => Act::Free,
            "free-list" => Act::FreeList,
            "free-range" => Act::FreeRange,
            "release" => Act::Release,
            "free-bulk" => Act::FreeBulk,
            _ => panic!("{text}: no such act"),
        };
        assert!(batch > 0, "{piece}: a batch of no messages");
        Self { received, home, act, piece, batch }
    }

    fn allocates(&self) -> bool {
        matches!(self.act, Act::Alloc | Act::AllocRange)
    }

    /// Returns the piece that this line allocates, if the line belongs to the first leg of a path.
    pub fn sent(&self) -> Option<&'a str> {
        (!self.received && !self.home && self.allocates()).then_some(self.piece)
    }
}

/// A step on the piece with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) act: Act,
    pub(crate) piece: usize,
    pub(crate) batch: u32,
}

/// Work besides the allocator, per message, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// In the first leg.
    pub sender: u64,
    /// In the second leg.
    pub receiver: u64,
    /// Time in the second leg in which no CPU works, because the message is on the wire or at the
    /// other host.
    pub wire: u64,
}

const LEGS: usize = 3;

/// A path, divided into its legs. Its pieces come from sources of type `S`.
///
/// * the first leg frees nothing
/// * every piece is allocated by one step, and freed by at most one, in a later step
/// * the payloads that share a carrier fit into it
#[derive(Clone, Debug)]
pub struct Path<S = Source> {
    pub pieces: Vec<Piece<S>>,
    pub(crate) legs: [Vec<Step>; LEGS],
    /// The piece that holds the payload of messages, if messages have one.
    pub(crate) carrier: Option<usize>,
    /// Bytes that are copied into the carrier and out of it, per message.
    pub(crate) payload: usize,
    /// Time that a message costs besides allocation and copies.
    pub work: Work,
    /// Number of messages in the largest batch. In a socket's queue, a burst must be a multiple of
    /// this number or fill the queue, so that no two bursts share a batch.
    pub(crate) longest_batch: u32,
}

/// A path on a memory whose type for caches is `C`.
pub(crate) type Plan<C> = Path<From<C>>;

impl Path {
    /// Makes a path of lines. `piece` returns the piece for each name in them.
    ///
    /// # Panics
    /// If the path breaks an equation of [`Path`].
    pub fn new(
        lines: &[Line<'_>],
        piece: impl Fn(&str) -> Piece,
        carrier: Option<&str>,
        payload: usize,
        work: Work,
    ) -> Self {
        let allocs = || lines.iter().filter(|line| line.allocates());
        let number = |name: &str| {
            let mut found = allocs().enumerate().filter(|(_, line)| line.piece == name);
            let (number, _) = found.next().expect("what is freed or filled was allocated");
            assert!(found.next().is_none(), "{name}: allocated twice");
            number
        };
        let mut legs: [Vec<Step>; LEGS] = Default::default();
        let (mut leg, mut role) = (0, false);
        for &Line { received, home, act, piece, batch } in lines {
            leg = if home { LEGS - 1 } else { leg + usize::from(received != role) };
            role = received;
            let gives_back = !matches!(act, Act::Alloc | Act::AllocRange | Act::Add | Act::Drop);
            assert!(!gives_back || leg > 0, "{piece}: freed in the first leg");
            legs[leg].push(Step { act, piece: number(piece), batch });
        }
        // A batch shares one piece; a range has one for each message.
        let batch = |line: &Line<'_>| if line.act == Act::Alloc { line.batch } else { 1 };
        let pieces: Vec<Piece> =
            allocs().map(|line| Piece { batch: batch(line), ..piece(line.piece) }).collect();
        if let Some(name) = carrier {
            let Piece { source, batch, .. } = &pieces[number(name)];
            assert!(*batch as usize * payload <= source.bytes(), "{name} overflows");
        }
        let carrier = carrier.map(number);
        let longest_batch = lines.iter().map(|line| line.batch).max().unwrap_or(1);
        Self { pieces, legs, carrier, payload, work, longest_batch }
    }

    /// Creates the caches that the path's pieces come from.
    pub(crate) fn plan<M: KernelMemory>(&self, memory: &M) -> Plan<M::Cache> {
        let planned = |&Piece { ref source, cleared, recycled, batch }: &Piece| {
            let source = match source {
                Source::Kmalloc(bytes) => &kmalloc(*bytes, memory.largest_kmalloc()),
                source => source,
            };
            let source = match source {
                Source::Cache { name, bytes } => From::Cache(memory.create_cache(name, *bytes)),
                Source::Pages(pages) => From::Pages(*pages),
                Source::Kmalloc(_) => unreachable!("`kmalloc` returns the others"),
            };
            Piece { source, cleared, recycled, batch }
        };
        let Self { carrier, payload, work, longest_batch, .. } = *self;
        let (pieces, legs) = (self.pieces.iter().map(planned).collect(), self.legs.clone());
        Path { pieces, legs, carrier, payload, work, longest_batch }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a path for tests. A piece called `object` is an object, any other piece a page; a page
    /// called `page` has 64 cleared bytes.
    pub(crate) fn path(steps: &[&str], carrier: Option<&str>, payload: usize) -> Path {
        let page = Source::Pages(Pages { order: 0, movable: false });
        let piece = |name: &str| Piece {
            source: if name == "object" { Source::Kmalloc(200) } else { page.clone() },
            cleared: if name == "page" { 64 } else { 0 },
            recycled: name == "kept",
            batch: 1,
        };
        let count = |text: &str| text.parse().expect("a number");
        let lines: Vec<Line<'_>> = steps.iter().map(|step| Line::parse(step, count)).collect();
        Path::new(&lines, piece, carrier, payload, Work { sender: 16, receiver: 8, wire: 0 })
    }

    #[test]
    fn kmalloc_takes_the_next_bucket_or_pages() {
        let pages = |order| Source::Pages(Pages { order, movable: false });
        let cache = |name: &str, bytes| Source::Cache { name: name.to_owned(), bytes };
        let buckets = [1, 9, 64, 65, 97, 129, 193, 1500].map(bucket);
        assert_eq!(buckets, [8, 16, 64, 96, 128, 192, 256, 2048]);
        assert_eq!(kmalloc(97, 8192), cache("kmalloc-128", 128));
        assert_eq!(kmalloc(4097, 8192), cache("kmalloc-8192", 8192), "slub since 2.6.30");
        assert_eq!(kmalloc(4097, 4096), pages(1), "slub of 2.6.29");
        assert_eq!(kmalloc(4096, 4096), cache("kmalloc-4096", 4096));
        assert_eq!(kmalloc(16_800, 8192), pages(3));
        assert_eq!(kmalloc(16_800, 4 << 20), cache("kmalloc-32768", 32_768), "slab, slqb");
        for bytes in [1, 200, 4097, 9000, 16_800] {
            assert_eq!(kmalloc(bytes, 4096).bytes(), Source::Kmalloc(bytes).bytes());
        }
    }

    #[test]
    fn legs_follow_from_roles() {
        let steps = [
            "sender alloc object",
            "receiver free object",
            "receiver alloc answer per 4",
            "sender free answer per 4",
        ];
        let path = path(&steps, Some("object"), 256);
        assert_eq!(path.legs.each_ref().map(Vec::len), [1, 2, 1]);
        assert_eq!(path.pieces.len(), 2);
        assert_eq!(path.legs[2][0], Step { act: Act::Free, piece: 1, batch: 4 });
        assert_eq!((path.carrier, path.longest_batch), (Some(0), 4));
    }

    #[test]
    fn what_goes_home_is_freed_by_its_sender() {
        let path = path(&["sender alloc object", "home free object"], Some("object"), 8);
        assert_eq!(path.legs.each_ref().map(Vec::len), [1, 0, 1]);
        assert_eq!(path.legs[2][0].act, Act::Free);
    }

    #[test]
    #[should_panic(expected = "page overflows")]
    fn payloads_fit_into_their_carrier() {
        path(&["sender alloc page per 41"], Some("page"), 100);
    }

    #[test]
    #[should_panic(expected = "page: allocated twice")]
    fn names_of_pieces_are_unique() {
        path(&["sender alloc page", "sender alloc page"], Some("page"), 100);
    }

    #[test]
    #[should_panic(expected = "page: freed in the first leg")]
    fn the_first_leg_only_allocates() {
        path(&["sender alloc page", "sender free page"], None, 100);
    }
}
