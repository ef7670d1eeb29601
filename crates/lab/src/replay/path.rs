//! A path through the kernel as a table: what is allocated and freed, from which cache or of which
//! order, in whose process, once for how many messages.
//!
//! A path has up to three legs, which follow from who does what: what a sender does for each
//! message, what the receiver does with it, and what the sender does when word of that comes back.
//! Within a leg steps are taken per message, in the order of the table. A step with a batch of `n`
//! serves `n` messages at once: in the first leg it comes before the first of them, later after the
//! last, and a burst that ends early ends the batch too.

use super::memory::{KernelMemory, Pages};

/// The source of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A slab cache.
    Cache {
        /// Its name.
        name: &'static str,
        /// Bytes of its objects.
        bytes: usize,
    },
    /// The page allocator.
    Pages(Pages),
}

impl Source {
    /// Blocks of 2^`order` pages of the kernel itself.
    pub(crate) const fn pages(order: u8) -> Self {
        Self::Pages(Pages { order, movable: false })
    }

    /// Bytes of a piece.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Cache { bytes, .. } => bytes,
            Self::Pages(pages) => 4096 << pages.order,
        }
    }
}

/// Sizes of the kernel's general caches.
const KMALLOC: [(usize, &str); 13] = [
    (8, "kmalloc-8"),
    (16, "kmalloc-16"),
    (32, "kmalloc-32"),
    (64, "kmalloc-64"),
    (96, "kmalloc-96"),
    (128, "kmalloc-128"),
    (192, "kmalloc-192"),
    (256, "kmalloc-256"),
    (512, "kmalloc-512"),
    (1024, "kmalloc-1024"),
    (2048, "kmalloc-2048"),
    (4096, "kmalloc-4096"),
    (8192, "kmalloc-8192"),
];

/// Returns the source of `kmalloc(bytes)`, in a kernel that passes requests larger than `limit`
/// through to the page allocator.
pub(crate) fn kmalloc(bytes: usize, limit: usize) -> Source {
    match KMALLOC.iter().find(|(bucket, _)| bytes <= *bucket && *bucket <= limit) {
        Some((bytes, name)) => Source::Cache { name, bytes: *bytes },
        None => Source::pages(bytes.div_ceil(4096).next_power_of_two().trailing_zeros() as u8),
    }
}

/// Something that a path allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its name; no two pieces of a path have the same one.
    pub(crate) name: &'static str,
    /// Its source.
    pub(crate) source: Source,
    /// Bytes at its start that the kernel clears.
    pub(crate) cleared: usize,
    /// True if a queue keeps a freed one for its next allocation (`tmp_page` of a pipe).
    pub(crate) recycled: bool,
}

impl Piece {
    /// A piece that is neither cleared nor kept.
    pub(crate) const fn new(name: &'static str, source: Source) -> Self {
        Self { name, source, cleared: 0, recycled: false }
    }

    /// One of which the kernel clears the first `bytes` bytes.
    pub(crate) const fn cleared(self, bytes: usize) -> Self {
        Self { cleared: bytes, ..self }
    }

    /// One that a queue keeps.
    pub(crate) const fn recycled(self) -> Self {
        Self { recycled: true, ..self }
    }
}

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Takes one.
    Alloc,
    /// Gives back those of a batch, one by one.
    Free,
    /// Gives back those of a batch as one list.
    FreeList,
}

/// The process that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The sender, or the process that does both.
    Sender,
    /// The receiver, or a later time of the same process.
    Receiver,
}

/// A line of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The action.
    pub(crate) act: Act,
    /// The piece.
    pub(crate) piece: Piece,
    /// The walker.
    pub(crate) role: Role,
    /// Once for how many messages.
    pub(crate) batch: u32,
}

/// Shorter lines for tables of steps.
pub(crate) const fn alloc(piece: Piece, role: Role, batch: u32) -> Step {
    Step { act: Act::Alloc, piece, role, batch }
}

/// A line that frees one by one.
pub(crate) const fn free(piece: Piece, role: Role, batch: u32) -> Step {
    Step { act: Act::Free, piece, role, batch }
}

/// A line that frees a list.
pub(crate) const fn free_list(piece: Piece, role: Role, batch: u32) -> Step {
    Step { act: Act::FreeList, piece, role, batch }
}

/// Work outside of the allocator: bytes copied between two buffers of the process, per message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// In the first leg.
    pub(crate) sender: usize,
    /// In the second leg.
    pub(crate) receiver: usize,
}

/// A path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The table.
    pub(crate) steps: Vec<Step>,
    /// The piece that holds the payload of messages, if they have any.
    pub(crate) carrier: Option<Piece>,
    /// Bytes that are copied into the carrier and out of it, per message.
    pub(crate) payload: usize,
    /// Further costs of a message.
    pub(crate) work: Work,
}

/// Number of legs.
pub(super) const LEGS: usize = 3;

/// A piece with what it comes from.
pub(super) struct PlannedPiece<C> {
    pub(super) from: From<C>,
    pub(super) cleared: usize,
    pub(super) recycled: bool,
    /// Messages that share one.
    pub(super) batch: u32,
}

/// Where a piece comes from, in a memory whose caches are called `C`.
#[derive(Clone, Copy)]
pub(super) enum From<C> {
    Cache(C),
    Pages(Pages),
}

/// A step on the piece with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedStep {
    pub(super) act: Act,
    pub(super) piece: usize,
    pub(super) batch: u32,
}

/// A path on a memory, with its legs apart.
///
/// * the first leg only allocates
/// * every piece is allocated by one step, and freed by at most one, in a later step
/// * the payloads that share a carrier fit into it
pub(crate) struct Plan<C> {
    pub(super) pieces: Vec<PlannedPiece<C>>,
    pub(super) legs: [Vec<PlannedStep>; LEGS],
    pub(super) carrier: Option<usize>,
    pub(super) payload: usize,
    pub(super) work: Work,
    /// Bursts from several senders can follow each other in a queue only if they are multiples of
    /// this.
    pub(super) longest_batch: u32,
}

impl Path {
    /// Creates its caches.
    ///
    /// # Panics
    /// If it breaks an equation of [`Plan`].
    pub(crate) fn plan<M: KernelMemory>(&self, memory: &M) -> Plan<M::Cache> {
        let allocs = || self.steps.iter().filter(|step| step.act == Act::Alloc);
        let number = |piece: Piece| {
            let mut found = allocs().enumerate().filter(|(_, step)| step.piece.name == piece.name);
            let (number, _) = found.next().expect("what is freed or filled was allocated");
            assert!(found.next().is_none(), "{}: allocated twice", piece.name);
            number
        };
        let pieces = allocs().map(|step| PlannedPiece {
            from: match step.piece.source {
                Source::Cache { name, bytes } => From::Cache(memory.create_cache(name, bytes)),
                Source::Pages(pages) => From::Pages(pages),
            },
            cleared: step.piece.cleared,
            recycled: step.piece.recycled,
            batch: step.batch,
        });
        let mut legs: [Vec<PlannedStep>; LEGS] = Default::default();
        let (mut leg, mut role) = (0, Role::Sender);
        for &Step { act, piece, role: whose, batch } in &self.steps {
            assert!(batch > 0, "{}: a batch of no messages", piece.name);
            leg += usize::from(whose != role);
            role = whose;
            assert!(act == Act::Alloc || leg > 0, "{}: freed in the first leg", piece.name);
            legs[leg].push(PlannedStep { act, piece: number(piece), batch });
        }
        if let Some(carrier) = self.carrier {
            let batch = allocs().nth(number(carrier)).map_or(0, |step| step.batch as usize);
            assert!(batch * self.payload <= carrier.source.bytes(), "{} overflows", carrier.name);
        }
        Plan {
            pieces: pieces.collect(),
            legs,
            carrier: self.carrier.map(number),
            payload: self.payload,
            work: self.work,
            longest_batch: self.steps.iter().map(|step| step.batch).max().unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::Uncached;
    use super::*;

    #[test]
    fn kmalloc_takes_the_next_bucket_or_pages() {
        let of = |bytes, limit| kmalloc(bytes, limit);
        assert_eq!(of(97, 8192), Source::Cache { name: "kmalloc-128", bytes: 128 });
        assert_eq!(of(129, 8192).bytes(), 192);
        assert_eq!(of(4097, 8192), Source::Cache { name: "kmalloc-8192", bytes: 8192 });
        assert_eq!(of(4097, 4096), Source::pages(1));
        assert_eq!(of(16_800, 8192), Source::pages(3));
    }

    #[test]
    fn legs_follow_from_roles() {
        let head = Piece::new("head", kmalloc(200, 8192));
        let answer = Piece::new("answer", Source::pages(0));
        let path = Path {
            steps: vec![
                alloc(head, Role::Sender, 1),
                free(head, Role::Receiver, 1),
                alloc(answer, Role::Receiver, 4),
                free(answer, Role::Sender, 4),
            ],
            carrier: Some(head),
            payload: 256,
            work: Work::default(),
        };
        let plan = path.plan(&Uncached::default());
        assert_eq!(plan.legs.each_ref().map(Vec::len), [1, 2, 1]);
        assert_eq!(plan.pieces.len(), 2);
        assert_eq!(plan.legs[2][0], PlannedStep { act: Act::Free, piece: 1, batch: 4 });
        assert_eq!((plan.carrier, plan.longest_batch), (Some(0), 4));
    }

    fn refused(steps: &[Step], carrier: Option<Piece>) {
        let path = Path { steps: steps.to_vec(), carrier, payload: 100, work: Work::default() };
        path.plan(&Uncached::default());
    }

    const PAGE: Piece = Piece::new("page", Source::pages(0));

    #[test]
    #[should_panic(expected = "page overflows")]
    fn payloads_fit_into_their_carrier() {
        refused(&[alloc(PAGE, Role::Sender, 41)], Some(PAGE));
    }

    #[test]
    #[should_panic(expected = "page: allocated twice")]
    fn names_of_pieces_are_unique() {
        refused(&[alloc(PAGE, Role::Sender, 1), alloc(PAGE, Role::Sender, 1)], Some(PAGE));
    }

    #[test]
    #[should_panic(expected = "page: freed in the first leg")]
    fn the_first_leg_only_allocates() {
        refused(&[alloc(PAGE, Role::Sender, 1), free(PAGE, Role::Sender, 1)], None);
    }
}
