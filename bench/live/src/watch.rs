//! Waits for the end of a program whose processes send their statistics pages to a socket.
//!
//! A page stays readable after its process has ended as long as a descriptor of it is open.

use crate::label::Label;
use crate::page::Page;
use crate::process::is_page;
use crate::snapshot::Snapshot;
use crate::{clock, total};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum number of pages that are kept open; of further pages only the figures are kept.
const MOST_PAGES: usize = 128;
/// Maximum number of processes with separate figures; the figures of further ones are summed.
const MOST_APART: usize = 64;
/// Bytes of a message: number and name of the process; see `malloc/quarry/src/watcher.rs`.
const MESSAGE_BYTES: usize = 64;

/// The processes of a program.
#[derive(Debug, Default)]
pub struct Family {
    pages: Vec<Known>,
    makers: Vec<u32>,
    ended: Ended,
}

#[derive(Debug)]
struct Known {
    page: Page,
    index: usize,
    name: Label,
    identity: (u64, u64),
}

/// The figures of a process up to its end, or until it executed another program.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The last figures.
    pub figures: Snapshot,
    /// True if the process executed another program, which has separate figures.
    pub was_replaced: bool,
    pub(crate) page: usize,
}

/// Figures of all processes that published some.
#[derive(Debug, Default)]
pub struct Ended {
    /// Processes with separate figures, in the order of their pages.
    pub processes: Vec<Member>,
    /// The sum of the figures of further processes, and the number of these processes.
    pub summed: Option<(Snapshot, usize)>,
}

impl Family {
    /// Receives pages from `socket` until the pidfd `program` reports the program's end. O(pages).
    ///
    /// # Errors
    /// The error of the system while waiting.
    pub fn wait(&mut self, socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let mut both =
                [PollFd::new(&socket, PollFlags::IN), PollFd::new(&program, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has_ended = !both[1].revents().is_empty();
            // Pages that were sent before the program ended have arrived by now.
            while self.take(socket) {}
            if has_ended {
                return Ok(());
            }
        }
    }

    fn take(&mut self, socket: BorrowedFd<'_>) -> bool {
        let mut text = [0; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags);
        match received {
            Ok(_) => {}
            Err(Errno::INTR) => return true,
            Err(_) => return false,
        }
        let (maker, name) = text.split_at(size_of::<u32>());
        let maker = u32::from_ne_bytes(maker.try_into().unwrap_or_default());
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptors.for_each(|it| self.keep(it, maker, Label::new(name)));
            }
        }
        true
    }

    /// Keeps a page that belongs to this user; processes of any user may send to the socket.
    fn keep(&mut self, descriptor: OwnedFd, maker: u32, name: Label) {
        let file = File::from(descriptor);
        let Ok(metadata) = file.metadata() else { return };
        let reader = nix::unistd::geteuid();
        let identity = (metadata.dev(), metadata.ino());
        let is_ours = reader.is_root() || metadata.uid() == reader.as_raw();
        if is_ours && is_page(&file) && self.pages.iter().all(|it| it.identity != identity) {
            let index = self.makers.len();
            self.makers.push(maker);
            self.pages.push(Known { page: Page { file, start: 0 }, index, name, identity });
        }
        if self.pages.len() > MOST_PAGES {
            self.retire();
        }
    }

    /// Closes pages whose processes have all ended; if too many remain, also the oldest page.
    fn retire(&mut self) {
        let now_ns = clock::now_ns();
        let lives =
            |it: &Member| Path::new("/proc").join(it.figures.process.pid.to_string()).exists();
        let mut kept = Vec::with_capacity(self.pages.len());
        for known in std::mem::take(&mut self.pages) {
            let figures = known.figures(now_ns);
            if figures.iter().any(lives) {
                kept.push(known);
            } else {
                figures.into_iter().for_each(|it| self.add(it));
            }
        }
        if kept.len() > MOST_PAGES {
            let oldest = kept.remove(0);
            oldest.figures(now_ns).into_iter().for_each(|it| self.add(it));
        }
        self.pages = kept;
    }

    fn add(&mut self, member: Member) {
        if self.ended.processes.len() < MOST_APART {
            self.ended.processes.push(member);
            return;
        }
        let figures = member.figures;
        self.ended.summed = Some(match self.ended.summed.take() {
            None => (figures, 1),
            Some((sum, count)) => (total::of(&[sum, figures]), count + 1),
        });
    }

    /// Returns the figures of all processes.
    #[must_use]
    pub fn figures(mut self) -> Ended {
        let now_ns = clock::now_ns();
        for known in std::mem::take(&mut self.pages) {
            known.figures(now_ns).into_iter().for_each(|it| self.add(it));
        }
        for member in &mut self.ended.processes {
            let later = &self.makers[member.page + 1..];
            member.was_replaced = later.contains(&member.figures.process.pid);
        }
        self.ended
    }
}

impl Known {
    fn figures(&self, now_ns: u64) -> Vec<Member> {
        let all = self.page.all(now_ns).unwrap_or_default();
        let member = |mut figures: Snapshot| {
            figures.process.name = self.name.clone();
            Member { figures, was_replaced: false, page: self.index }
        };
        all.into_iter().map(member).collect()
    }
}
