//! A file system in memory. Its directories hold files; inodes and dentries are objects of slab
//! caches; the files' pages lie in the page cache, which reads and writes a device.
//!
//! Every page on the device was written there from the cache. A page that is read back is compared
//! with the bytes that were written, which finds any dirty page that reclaim dropped.

use super::device::{self, Device};
use crate::file_cache::FileCache;
use crate::host::Mutex;
use crate::memory::Buffer;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of an inode and of a dentry: ext4 in Linux 4.14.
const INODE_BYTES: usize = 1024;
const DENTRY_BYTES: usize = 192;
/// Bytes of an entry of a directory; a page holds 64 of them.
const ENTRY_BYTES: u64 = 64;
/// Pages of a request to the device, for read-ahead and for writeback of neighbours (128 KiB).
const REQUEST_PAGES: u64 = 32;
/// Inodes of directories are numbered from here on.
const DIRECTORIES: u64 = 1 << 40;

/// A file that is open, or that a directory names.
pub(crate) struct Inode<M: FileCache> {
    number: u64,
    content: Mutex<Content<M>>,
}

/// The data that the lock of an inode protects.
struct Content<M: FileCache> {
    mapping: M::Mapping,
    pages: u64,
    /// True for each page that is on the device. A page neither on the device nor dirty is a hole.
    on_device: Vec<bool>,
    /// True for each page that was written since it last reached the device.
    dirty: Vec<bool>,
    /// The inode and its dentry; `None` once the file is deleted.
    objects: Option<[Buffer; 2]>,
}

struct Directory<M: FileCache> {
    number: u64,
    blocks: Mutex<Content<M>>,
    files: Mutex<Vec<Option<Arc<Inode<M>>>>>,
}

pub(crate) struct FileSystem<'a, M: FileCache> {
    memory: &'a M,
    inodes: M::Cache,
    dentries: M::Cache,
    device: Device,
    directories: Vec<Directory<M>>,
    next: AtomicU64,
    /// Number of dirty pages of all files, and the number above which writers must write back.
    dirty: AtomicU64,
    most_dirty: u64,
    /// Files with dirty pages, the longest dirty one first.
    unwritten: Mutex<VecDeque<Arc<Inode<M>>>>,
}

impl<'a, M: FileCache> FileSystem<'a, M> {
    /// Makes a file system with this many directories. If more than `most_dirty` pages are dirty, a
    /// task that wants to write first writes back the files that have been dirty longest.
    pub(crate) fn new(memory: &'a M, directories: u64, device: Device, most_dirty: u64) -> Self {
        let directory = |number| Directory {
            number: DIRECTORIES + number,
            blocks: Mutex::new(Content::new(memory, None)),
            files: Mutex::default(),
        };
        Self {
            memory,
            inodes: memory.create_cache("inode_cache", INODE_BYTES),
            dentries: memory.create_cache("dentry", DENTRY_BYTES),
            device,
            directories: (0..directories).map(directory).collect(),
            next: AtomicU64::new(1),
            dirty: AtomicU64::new(0),
            most_dirty,
            unwritten: Mutex::default(),
        }
    }

    /// Creates a file at the end of a directory. Returns its place there, and its inode.
    pub(crate) fn create(&self, directory: usize) -> (usize, Arc<Inode<M>>) {
        let mut objects = [self.inodes, self.dentries]
            .map(|cache| self.memory.alloc(cache).expect("memory for an inode"));
        let number = self.next.fetch_add(1, Relaxed);
        objects[0].clear(INODE_BYTES);
        objects[1].write(0, &number.to_le_bytes());
        let content = Mutex::new(Content::new(self.memory, Some(objects)));
        let inode = Arc::new(Inode { number, content });
        let place = {
            let mut files = self.directories[directory].files.lock();
            files.push(Some(Arc::clone(&inode)));
            files.len() - 1
        };
        self.write_entry(directory, place);
        (place, inode)
    }

    /// Opens a file, if it is there.
    pub(crate) fn open(&self, directory: usize, place: usize) -> Option<Arc<Inode<M>>> {
        self.directories[directory].files.lock().get(place)?.clone()
    }

    /// Number of files that were ever created in a directory.
    fn places(&self, directory: usize) -> usize {
        self.directories[directory].files.lock().len()
    }

    /// A random place in a directory, with or without a file.
    pub(crate) fn any_place(&self, directory: usize, random: &mut StdRng) -> usize {
        random.random_range(0..self.places(directory))
    }

    /// Opens a random file of a directory.
    pub(crate) fn open_any(&self, directory: usize, random: &mut StdRng) -> Arc<Inode<M>> {
        loop {
            if let Some(file) = self.open(directory, self.any_place(directory, random)) {
                return file;
            }
        }
    }

    /// Deletes a random file of a directory.
    pub(crate) fn unlink_any(&self, directory: usize, random: &mut StdRng) {
        while !self.unlink(directory, self.any_place(directory, random)) {}
    }

    /// The directory of file or task number `number`, and its place in that directory. Numbers are
    /// dealt to the directories in turn.
    pub(crate) fn dealt(&self, number: u64) -> (usize, usize) {
        let directories = self.directories.len() as u64;
        ((number % directories) as usize, (number / directories) as usize)
    }

    /// Deletes a file: its entry, its pages and its inode. Returns false if there is no such file.
    pub(crate) fn unlink(&self, directory: usize, place: usize) -> bool {
        let taken = self.directories[directory].files.lock().get_mut(place).and_then(Option::take);
        let Some(inode) = taken else { return false };
        self.write_entry(directory, place);
        let mut content = inode.content.lock();
        self.forget_dirty(&mut content);
        self.memory.truncate(content.mapping, 0);
        self.memory.destroy_mapping(content.mapping);
        let [object, dentry] = content.objects.take().expect("a file is deleted once");
        content.pages = 0;
        self.memory.free(self.dentries, dentry);
        self.memory.free(self.inodes, object);
        true
    }

    /// Sets the length of a file to `pages`, without writing to it.
    pub(crate) fn set_length(&self, inode: &Inode<M>, pages: u64) {
        inode.content.lock().resize(pages);
    }

    /// Length of a file in pages; 0 if it was deleted.
    pub(crate) fn length(&self, inode: &Inode<M>) -> u64 {
        inode.content.lock().pages
    }

    /// Reads pages; returns whether all their bytes were right. Pages beyond the end do not count.
    pub(crate) fn read(&self, inode: &Inode<M>, from: u64, count: u64) -> bool {
        let content = inode.content.lock();
        let (mut is_right, mut ahead) = (true, 0);
        for index in from..content.pages.min(from + count) {
            let is_hole = content.is_hole(index);
            let on_device = content.on_device[index as usize];
            let mut fill = |page: &mut [u8]| {
                if on_device {
                    // A request also brings in the next pages, as far as this call reads them.
                    if ahead <= index {
                        let pages = REQUEST_PAGES.min(from + count - index);
                        self.device.wait(pages);
                        ahead = index + pages;
                    }
                    device::fill(inode.number, index, page);
                } else {
                    page.fill(0);
                }
            };
            let mut see = |page: &[u8]| {
                is_right &= match is_hole {
                    true => device::is_hole(page),
                    false => device::is_intact(inode.number, index, page),
                };
            };
            self.memory.read(content.mapping, index, &mut fill, &mut see);
        }
        is_right
    }

    /// Writes whole pages, and makes the file longer if they lie beyond its end. Returns false if
    /// the file was deleted.
    pub(crate) fn write(&self, inode: &Arc<Inode<M>>, from: u64, count: u64) -> bool {
        self.balance_dirty();
        let mut content = inode.content.lock();
        if content.objects.is_none() {
            return false;
        }
        let was_clean = !content.dirty.contains(&true);
        let length = content.pages.max(from + count);
        content.resize(length);
        for index in from..from + count {
            self.write_page(inode.number, &mut content, index);
        }
        drop(content);
        if was_clean {
            self.unwritten.lock().push_back(Arc::clone(inode));
        }
        true
    }

    /// Writes pages at the end of a file.
    pub(crate) fn append(&self, inode: &Arc<Inode<M>>, count: u64) -> bool {
        let length = self.length(inode);
        self.write(inode, length, count)
    }

    /// Writes a file's dirty pages to the device. Returns whether all were intact in the cache.
    pub(crate) fn fsync(&self, inode: &Inode<M>) -> bool {
        let mut content = inode.content.lock();
        content.objects.is_none() || self.write_back(inode.number, &mut content)
    }

    /// Deletes all files, writes back the directories, and ends them.
    ///
    /// # Panics
    /// If the bytes of a directory are wrong.
    pub(crate) fn end(self) {
        for (number, directory) in self.directories.iter().enumerate() {
            for place in 0..self.places(number) {
                self.unlink(number, place);
            }
            let mut blocks = directory.blocks.lock();
            assert!(self.write_back(directory.number, &mut blocks), "blocks of directories");
            self.memory.truncate(blocks.mapping, 0);
            self.memory.destroy_mapping(blocks.mapping);
        }
        assert_eq!(self.dirty.load(Relaxed), 0, "every dirty page is counted once");
    }

    /// Changes the entry of a file in the page of the directory that holds it.
    fn write_entry(&self, directory: usize, place: usize) {
        let directory = &self.directories[directory];
        let index = place as u64 * ENTRY_BYTES / device::PAGE_BYTES as u64;
        let mut blocks = directory.blocks.lock();
        let pages = blocks.pages.max(index + 1);
        blocks.resize(pages);
        self.write_page(directory.number, &mut blocks, index);
    }

    fn write_page(&self, inode: u64, content: &mut Content<M>, index: u64) {
        let on_device = content.on_device[index as usize];
        let mut fill = |page: &mut [u8]| {
            if on_device {
                self.device.wait(1);
                device::fill(inode, index, page);
            }
        };
        let mut change = |page: &mut [u8]| device::fill(inode, index, page);
        self.memory.write(content.mapping, index, &mut fill, &mut change);
        if !std::mem::replace(&mut content.dirty[index as usize], true) {
            self.dirty.fetch_add(1, Relaxed);
        }
    }

    fn write_back(&self, inode: u64, content: &mut Content<M>) -> bool {
        let Content { mapping, on_device, dirty, .. } = content;
        let (mut is_right, mut request) = (true, 0);
        let count = self.memory.flush(*mapping, &mut |index, page| {
            is_right &= device::is_intact(inode, index, page);
            is_right &= std::mem::take(&mut dirty[index as usize]);
            on_device[index as usize] = true;
            request += 1;
            if request == REQUEST_PAGES {
                self.device.wait(std::mem::take(&mut request));
            }
        });
        self.device.wait(request);
        self.dirty.fetch_sub(count, Relaxed);
        is_right && !dirty.contains(&true)
    }

    /// Lets a writing task write back the oldest files while too many pages are dirty.
    fn balance_dirty(&self) {
        while self.dirty.load(Relaxed) > self.most_dirty {
            let Some(oldest) = self.unwritten.lock().pop_front() else { return };
            self.fsync(&oldest);
        }
    }

    /// Dirty pages of a deleted file need not be written.
    fn forget_dirty(&self, content: &mut Content<M>) {
        let count = content.dirty.iter().filter(|is_dirty| **is_dirty).count();
        content.dirty.fill(false);
        self.dirty.fetch_sub(count as u64, Relaxed);
    }
}

impl<M: FileCache> Content<M> {
    fn new(memory: &M, objects: Option<[Buffer; 2]>) -> Self {
        let mapping = memory.create_mapping();
        Self { mapping, pages: 0, on_device: Vec::new(), dirty: Vec::new(), objects }
    }

    fn resize(&mut self, pages: u64) {
        self.pages = pages;
        self.on_device.resize(pages as usize, false);
        self.dirty.resize(pages as usize, false);
    }

    /// Returns whether a page was never written.
    fn is_hole(&self, index: u64) -> bool {
        !self.on_device[index as usize] && !self.dirty[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_cache::tests::Naive;
    use crate::memory::KernelMemory;

    #[test]
    fn files_are_read_as_they_were_written() {
        // A cache of ten pages, so that most reads bring pages back from the device.
        let memory = Naive::of(10);
        let system = FileSystem::new(&memory, 2, Device::default(), 4);
        for (directory, pages) in [(0, 20), (1, 3), (0, 1)] {
            let (_, file) = system.create(directory);
            for _ in 0..pages {
                assert!(system.append(&file, 1));
            }
            assert_eq!(system.length(&file), pages);
            assert!(system.read(&file, 0, pages) && system.read(&file, 0, pages));
            assert!(system.fsync(&file) && system.fsync(&file));
        }
        let (place, sparse) = system.create(1);
        system.set_length(&sparse, 5);
        assert!(system.read(&sparse, 0, 9), "holes read as zeros, and there is nothing after them");
        assert!(system.unlink(1, place) && !system.unlink(1, place));
        assert!(!system.append(&sparse, 1), "it was deleted");
        assert!(system.open(1, place).is_none() && system.open(1, 0).is_some());
        system.end();
        assert_eq!(memory.check_at_end(), Ok(()));
    }

    #[test]
    fn a_lost_write_is_found() {
        let memory = Naive::default();
        let system = FileSystem::new(&memory, 1, Device::default(), 100);
        let (_, file) = system.create(0);
        system.write(&file, 0, 2);
        let mapping = file.content.lock().mapping;
        memory.truncate(mapping, 1);
        assert!(!system.read(&file, 0, 2), "page 1 was dropped while it was dirty");
        assert!(!system.fsync(&file));
    }
}
