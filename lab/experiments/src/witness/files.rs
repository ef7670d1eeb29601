//! Files that are created, written, read as holes, and unlinked.

use super::gate::{Done, Task};
use anyhow::{Context, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    Empty,
    /// Bytes that were written.
    Full,
    /// A hole that was read page by page.
    Sparse,
    /// A hole that was read without read-ahead: the page cache has single pages, as before folios.
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measured {
    Creation,
    Deletion,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Files {
    pub(super) content: Content,
    pub(super) measured: Measured,
    pub(super) pages: u32,
}

impl Files {
    /// A task that creates and unlinks `operations` files in the new folder `folder`.
    pub(super) fn task(self, folder: PathBuf, operations: u64) -> Result<Task<'static>> {
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Box::new(move |gate| {
            // Lets the kernel's caches of inodes and directories grow before the window.
            for number in 0..operations.div_ceil(8) {
                let file = name(&folder, "warm", number);
                self.make(&file)?;
                fs::remove_file(&file)?;
            }
            let files: Vec<PathBuf> = (0..operations).map(|it| name(&folder, "file", it)).collect();
            if self.measured == Measured::Deletion {
                files.iter().try_for_each(|file| self.make(file))?;
            }
            let mut each_ns = Vec::with_capacity(files.len());
            gate.pass();
            for file in &files {
                let start = Instant::now();
                match self.measured {
                    Measured::Creation => self.make(file)?,
                    Measured::Deletion => fs::remove_file(file)?,
                }
                each_ns.push(start.elapsed().as_nanos() as u64);
            }
            Ok(Box::new(move || {
                let expected = self.measured == Measured::Creation;
                let is_right = |file: &&PathBuf| file.exists() == expected;
                let verified = files.iter().filter(is_right).count() as u64;
                Done { operations: files.len() as u64, verified, each_ns }
            }))
        }))
    }

    fn make(self, path: &Path) -> Result<()> {
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        let bytes = self.pages as usize * PAGE;
        let mut page = [0; PAGE];
        match self.content {
            Content::Empty => {}
            Content::Full => {
                for _ in 0..self.pages {
                    file.write_all(&page)?;
                }
            }
            Content::Sparse | Content::Single => {
                file.set_len(bytes as u64)?;
                if self.content == Content::Single {
                    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)?;
                }
                for index in 0..self.pages as usize {
                    file.read_exact_at(&mut page, (index * PAGE) as u64)?;
                }
            }
        }
        Ok(())
    }
}

fn name(folder: &Path, kind: &str, number: u64) -> PathBuf {
    folder.join(format!("{kind}-{number}"))
}
