//! Asks a process for a profile by sleeping on words of its record (`quarry_record::profile_bell`).

use anyhow::{Context, Result, ensure};
use quarry_record::PAGE_BYTES;
use quarry_record::profile_bell::{BELL, STOP, WISHES};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

/// Longest time in milliseconds until a sleeper notices that it must stop.
const NAP_MS: i64 = 50;

/// The statistics page of a process, mapped for reading.
struct Page(*mut libc::c_void);

// SAFETY: the mapping belongs to no single thread, and all reads of it are atomic.
unsafe impl Sync for Page {}
// SAFETY: as above.
unsafe impl Send for Page {}

impl Page {
    fn map(file: &File) -> Result<Self> {
        // A process that made its file shorter would end a reader of the mapping by SIGBUS.
        // SAFETY: takes numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let keeps_size = seals != -1 && seals & libc::F_SEAL_SHRINK != 0;
        let has_size = keeps_size && file.metadata()?.len() >= PAGE_BYTES as u64;
        ensure!(has_size, "its statistics page is not sealed, as the library seals it");
        let flags = libc::MAP_SHARED;
        // SAFETY: without MAP_FIXED this is a new mapping, which replaces no other.
        let raw = unsafe {
            libc::mmap(null_mut(), PAGE_BYTES, libc::PROT_READ, flags, file.as_raw_fd(), 0)
        };
        let error = std::io::Error::last_os_error();
        ensure!(raw != libc::MAP_FAILED, "mapping the statistics page: {error}");
        Ok(Self(raw))
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= PAGE_BYTES && offset.is_multiple_of(4), "a word of the page");
        // SAFETY: the word is aligned and inside the mapping. The file has at least this length:
        // `map` has checked it after the seal that keeps it. Other processes write the page by
        // atomic words.
        unsafe { &*self.0.byte_add(offset).cast::<AtomicU32>() }
    }

    /// Sleeps on a word until the process wakes this thread, or for [`NAP_MS`].
    fn sleep_on(&self, offset: usize) {
        let word = self.word(offset);
        let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP_MS * 1_000_000 };
        // SAFETY: FUTEX_WAIT reads the word and the timeout only.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                word.load(Ordering::Relaxed),
                &raw const nap,
            );
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.0, PAGE_BYTES) };
    }
}

/// A thread that sleeps on a word of a page until it is dropped.
struct Sleeper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    fn on(page: &Arc<Page>, offset: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (page, over) = (Arc::clone(page), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                page.sleep_on(offset);
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A request for a profile of a process, until this value is dropped.
pub(crate) struct Bell {
    page: Arc<Page>,
    record: usize,
    /// One thread sleeps on the bell, the other on the word for the wanted profile.
    _sleepers: [Sleeper; 2],
}

impl Bell {
    /// Asks for a profile with about one sample in `mean` bytes from the process whose record
    /// begins at `record` of the memfd `file`.
    pub(crate) fn ring(file: &File, record: usize, wish: usize) -> Result<Self> {
        let page = Arc::new(Page::map(file).context("reaching the process")?);
        let wish = record + WISHES + 4 * wish;
        let sleepers = [Sleeper::on(&page, record + BELL), Sleeper::on(&page, wish)];
        Ok(Self { page, record, _sleepers: sleepers })
    }

    /// Asks the process to end the profile, until `has_ended` returns true.
    pub(crate) fn stop(self, mut has_ended: impl FnMut() -> bool) {
        let _stop = Sleeper::on(&self.page, self.record + STOP);
        while !has_ended() {
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    fn memfd(bytes: u64) -> File {
        // SAFETY: the name ends with a NUL, and no other code knows the new descriptor.
        let file = unsafe {
            let number = libc::memfd_create(c"page".as_ptr(), libc::MFD_ALLOW_SEALING);
            File::from_raw_fd(number)
        };
        file.set_len(bytes).unwrap();
        file
    }

    fn seal(file: &File, seals: i32) {
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    }

    /// A shorter page would end this process by SIGBUS.
    #[test]
    fn a_page_that_may_become_shorter_is_not_mapped() {
        let ring = |file: &File| Bell::ring(file, 0, 12).map(drop);
        let page = memfd(PAGE_BYTES as u64);
        for (seals, why) in [(0, "no seal"), (libc::F_SEAL_GROW, "another seal")] {
            seal(&page, seals);
            let error = ring(&page).expect_err(why);
            assert!(format!("{error:#}").contains("is not sealed"), "{why}: {error:#}");
        }
        seal(&page, libc::F_SEAL_SHRINK);
        ring(&page).expect("its size stays");
        let short = memfd(PAGE_BYTES as u64 - 1);
        seal(&short, libc::F_SEAL_SHRINK);
        assert!(ring(&short).is_err(), "it was short already");
        assert!(ring(&File::open("/proc/self/exe").unwrap()).is_err(), "no memfd");
    }
}
