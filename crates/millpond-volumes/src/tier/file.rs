//! The file of a disk tier.
//!
//! ```text
//!   0        4 KiB                                                               16 MiB + 8 KiB, for pages of 32 KiB
//!   header │ table of 512 slots │ slot 0 │ slot 1 │ …             │ slot 511 │ table of 512 slots │ slot 512 │ …
//! ```
//!
//! The header is `MPVt`, the version, the size of a slot, the store's name, and a checksum of these. A table has the hash of
//! the page in each slot ([`PageHash`](super::ghosts::PageHash)), 0 for none. A slot has the page's bytes as they are in the
//! store. Writes have no order, and only a new header is synced: each read compares the page with its checksum, which the
//! commit has. So a table older than its slots, a torn slot and a flipped bit each mean that a page is missing.
//!
//! The file grows and shrinks at its end, and keeps what fits. Transfers bypass the kernel's cache where the file system
//! allows it (`O_DIRECT`); elsewhere the kernel is told to drop its copy (`POSIX_FADV_DONTNEED`).

use super::slots::{NO_PAGE, Slot};
use crate::format::checksum;
use bytes::Bytes;
use millpond::units;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Transfers begin and end at multiples of this.
pub(super) const BLOCK: u64 = 4096;
/// Slots of a table: as many as a block has hashes.
pub(super) const GROUP_SLOTS: u64 = BLOCK / 8;

const MAGIC: &[u8; 4] = b"MPVt";
const VERSION: u16 = 1;
/// The smallest file: a smaller one is of no use.
const BYTES_MIN: u64 = 16 << 20;
/// How long to wait for a lock: a process that is ending may still have it.
const LOCKED_FOR: Duration = Duration::from_secs(3);
/// What to do about a file that can't be used.
const REMOVE: &str = "remove it, or name another file";

/// Memory that begins and ends at blocks, as `O_DIRECT` needs.
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn zeroed(bytes: usize) -> Aligned {
        let len = bytes.next_multiple_of(BLOCK as usize);
        let memory = vec![0; len + BLOCK as usize - 1];
        let from = memory.as_ptr().align_offset(BLOCK as usize);
        Aligned { memory, from, len }
    }

    /// A copy of these bytes, with zeros up to a block.
    pub(super) fn of(bytes: &[u8]) -> Aligned {
        let mut aligned = Aligned::zeroed(bytes.len());
        aligned.all_mut()[..bytes.len()].copy_from_slice(bytes);
        aligned
    }

    pub(super) fn all(&self) -> &[u8] {
        &self.memory[self.from..][..self.len]
    }

    fn all_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..][..self.len]
    }

    fn into_bytes(self) -> Bytes {
        let range = self.from..self.from + self.len;
        Bytes::from(self.memory).slice(range)
    }
}

/// A file that this process has locked.
#[derive(Debug)]
pub(crate) struct TierFile {
    file: File,
    pub(super) path: PathBuf,
    store: String,
    bytes: u64,
    /// 0 in a new file, until it is chosen.
    slot_bytes: u64,
    is_direct: bool,
    #[cfg(test)]
    pub(super) fault: std::sync::atomic::AtomicU8,
}

fn because<E: std::fmt::Display>(path: &Path, what: &str) -> impl Fn(E) -> String {
    move |error| format!("the disk tier {}: {what}: {error}", path.display())
}

/// Faults for tests.
#[cfg(test)]
impl TierFile {
    pub(crate) const WRITES_FAIL: u8 = 1;
    pub(crate) const READS_HANG: u8 = 2;
}

impl TierFile {
    /// Opens the file of a store, or makes it, gives it this many bytes of disk space, and locks it.
    ///
    /// # Errors
    /// In a sentence: it is another kind of file, another store's or another user's, in use, too small, or there is no
    /// space for it.
    pub(crate) fn open(path: &Path, bytes: NonZeroU64, store: &str) -> Result<TierFile, String> {
        let (shown, bytes) = (path.display(), bytes.get() / BLOCK * BLOCK);
        if bytes < BYTES_MIN {
            let (given, least) = (units::Bytes(bytes), units::Bytes(BYTES_MIN));
            return Err(format!(
                "a disk tier of {given} is too small: give {shown} {least} or more"
            ));
        }
        let file = open_locked(path)?;
        let about = file.metadata().map_err(because(path, "it can't be examined"))?;
        // In a folder for all users, somebody else may have put a file there to read what is written to it.
        if about.uid() != rustix::process::geteuid().as_raw() {
            let owner = about.uid();
            return Err(format!(
                "the disk tier {shown} belongs to another user ({owner}): {REMOVE}"
            ));
        }
        let is_private = about.mode() & 0o077 == 0;
        if !is_private {
            let made_private = file.set_permissions(std::fs::Permissions::from_mode(0o600));
            made_private.map_err(because(path, "its permissions can't be set"))?;
        }
        let len = about.len();
        let mut tier = TierFile {
            is_direct: false,
            file,
            path: path.to_owned(),
            store: store.to_owned(),
            bytes,
            slot_bytes: 0,
            #[cfg(test)]
            fault: Default::default(),
        };
        match len {
            0 => tier
                .write_header()
                .map_err(because(path, "it can't be written"))?,
            _ => tier.read_header()?,
        }
        let sized = tier.resize(len);
        if sized.is_err() && len == 0 {
            // Left behind, it would take space, and the next opening would find it.
            let _ = std::fs::remove_file(path);
        }
        sized?;
        let flags = rustix::fs::fcntl_getfl(&tier.file).unwrap_or(OFlags::empty());
        tier.is_direct = rustix::fs::fcntl_setfl(&tier.file, flags | OFlags::DIRECT).is_ok();
        Ok(tier)
    }

    fn resize(&self, len: u64) -> Result<(), String> {
        let failed = because::<io::Error>(&self.path, "it can't be resized");
        if len > self.bytes {
            self.file.set_len(self.bytes).map_err(&failed)?;
        }
        let has = self.file.metadata().map_err(&failed)?.blocks() * 512;
        let free = rustix::fs::fstatvfs(&self.file).map_err(|error| failed(error.into()))?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        let no_room = || {
            let (wanted, has) = (units::Bytes(self.bytes), units::Bytes(has));
            let (shown, free) = (self.path.display(), units::Bytes(free));
            format!(
                "there is no space for a disk tier of {wanted} at {shown}: the file has {has}, and {free} are free"
            )
        };
        if self.bytes.saturating_sub(has) > free {
            return Err(no_room());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => Ok(()),
            // The file system reserves no space.
            Err(Errno::OPNOTSUPP) => self.file.set_len(self.bytes).map_err(failed),
            Err(error) => {
                // As it was.
                let _ = self.file.set_len(len.max(BLOCK).min(self.bytes));
                Err(match error {
                    Errno::NOSPC | Errno::DQUOT => no_room(),
                    error => failed(error.into()),
                })
            }
        }
    }

    fn write_header(&self) -> io::Result<()> {
        let mut header = Vec::from(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((self.slot_bytes as u32).to_le_bytes());
        header.extend((self.store.len() as u16).to_le_bytes());
        header.extend(self.store.as_bytes());
        if header.len() as u64 + 8 > BLOCK {
            return Err(io::Error::other("the store's address is too long"));
        }
        header.resize(BLOCK as usize - 8, 0);
        header.extend(checksum(&header).to_le_bytes());
        self.file.write_all_at(Aligned::of(&header).all(), 0)?;
        self.file.sync_all()
    }

    fn read_header(&mut self) -> Result<(), String> {
        let (path, shown) = (self.path.clone(), self.path.display());
        let mut header = Aligned::zeroed(BLOCK as usize);
        match self.file.read_exact_at(header.all_mut(), 0) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(because(&path, "it can't be read")(error));
            }
            _ => {}
        }
        let (fields, sum) = header.all().split_at(BLOCK as usize - 8);
        if !fields.starts_with(MAGIC) || checksum(fields).to_le_bytes() != sum {
            return Err(format!(
                "{shown} is not a disk tier, or is damaged, and was left as it is: {REMOVE}"
            ));
        }
        let version = u16::from_le_bytes([fields[4], fields[5]]);
        if version != VERSION {
            return Err(format!(
                "the disk tier {shown} has version {version}, and this program knows version {VERSION}: {REMOVE}"
            ));
        }
        let len = usize::from(u16::from_le_bytes([fields[10], fields[11]]));
        let store = fields.get(12..12 + len).unwrap_or_default();
        if store != self.store.as_bytes() {
            let (other, ours) = (String::from_utf8_lossy(store), &self.store);
            return Err(format!(
                "the disk tier {shown} belongs to {other}, not to {ours}: {REMOVE}"
            ));
        }
        self.slot_bytes = u64::from(u32::from_le_bytes([fields[6], fields[7], fields[8], fields[9]]));
        Ok(())
    }

    /// The page in each slot of this size. A file that had slots of another size is emptied.
    ///
    /// # Errors
    /// In a sentence: the file can't be read or written, or has no room for a slot.
    pub(super) fn tables(&mut self, slot_bytes: u64) -> Result<Vec<u64>, String> {
        let path = self.path.clone();
        if slot_bytes == 0 || !slot_bytes.is_multiple_of(BLOCK) || slot_bytes > BYTES_MIN / 2 {
            return Err(because(&path, "its slots can't have this size")(units::Bytes(
                slot_bytes,
            )));
        }
        if self.slot_bytes != slot_bytes {
            self.slot_bytes = slot_bytes;
            let written = because::<io::Error>(&path, "it can't be written");
            // Zeros all over.
            self.file.set_len(BLOCK).map_err(&written)?;
            self.resize(BLOCK)?;
            self.write_header().map_err(&written)?;
            return Ok(vec![NO_PAGE; self.count()]);
        }
        let read = self.read_tables();
        read.map_err(|error| because(&path, "it can't be read")(format!("{error}; {REMOVE}")))
    }

    fn read_tables(&self) -> io::Result<Vec<u64>> {
        let mut pages = Vec::with_capacity(self.count());
        let mut table = Aligned::zeroed(BLOCK as usize);
        while pages.len() < self.count() {
            let at = self.table_at(pages.len() as u64 / GROUP_SLOTS);
            self.file.read_exact_at(table.all_mut(), at)?;
            let (hashes, _) = table.all().as_chunks::<8>();
            let left = self.count() - pages.len();
            pages.extend(hashes.iter().take(left).map(|hash| u64::from_le_bytes(*hash)));
        }
        Ok(pages)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    fn group_bytes(&self) -> u64 {
        BLOCK + GROUP_SLOTS * self.slot_bytes
    }

    /// How many slots fit.
    fn count(&self) -> usize {
        let groups = self.bytes - BLOCK;
        let rest = (groups % self.group_bytes()).saturating_sub(BLOCK) / self.slot_bytes;
        let count = groups / self.group_bytes() * GROUP_SLOTS + rest;
        count.min(u64::from(Slot::MAX)) as usize
    }

    fn table_at(&self, group: u64) -> u64 {
        BLOCK + group * self.group_bytes()
    }

    fn slot_at(&self, slot: Slot) -> u64 {
        let slot = u64::from(slot);
        self.table_at(slot / GROUP_SLOTS) + BLOCK + slot % GROUP_SLOTS * self.slot_bytes
    }

    /// Whether the second slot begins where the first ends.
    pub(super) fn are_adjacent(first: Slot, second: Slot) -> bool {
        first.checked_add(1) == Some(second) && u64::from(second) % GROUP_SLOTS != 0
    }

    /// This many bytes from the start of a slot.
    pub(super) fn read(&self, slot: Slot, bytes: usize) -> io::Result<Bytes> {
        #[cfg(test)]
        while self.fault.load(std::sync::atomic::Ordering::Relaxed) == TierFile::READS_HANG {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut aligned = Aligned::zeroed(bytes);
        let at = self.slot_at(slot);
        self.file.read_exact_at(aligned.all_mut(), at)?;
        self.forget(at, aligned.len as u64);
        Ok(aligned.into_bytes().slice(..bytes))
    }

    /// Writes pages to adjacent slots. All but the last page fill their slots.
    pub(super) fn write(&self, slot: Slot, pages: &[&Aligned]) -> io::Result<()> {
        #[cfg(test)]
        if self.fault.load(std::sync::atomic::Ordering::Relaxed) == TierFile::WRITES_FAIL {
            return Err(Errno::IO.into());
        }
        let mut at = self.slot_at(slot);
        let slices: Vec<IoSlice<'_>> = pages.iter().map(|page| IoSlice::new(page.all())).collect();
        let bytes: usize = pages.iter().map(|page| page.len).sum();
        if rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.file, &slices, at))? == bytes {
            return Ok(());
        }
        // A signal, or a full disk.
        for page in pages {
            self.file.write_all_at(page.all(), at)?;
            at += page.len as u64;
        }
        Ok(())
    }

    /// Writes the table of a group.
    pub(super) fn write_table(&self, group: u64, pages: &[u64]) -> io::Result<()> {
        let hashes: Vec<u8> = pages.iter().flat_map(|page| page.to_le_bytes()).collect();
        let mut table = Aligned::zeroed(BLOCK as usize);
        table.all_mut()[..hashes.len()].copy_from_slice(&hashes);
        self.file.write_all_at(table.all(), self.table_at(group))
    }

    /// Has the kernel write what it keeps of the file in memory, and drop it.
    pub(super) fn settle(&self) -> io::Result<()> {
        if !self.is_direct {
            self.file.sync_data()?;
            self.forget(0, 0);
        }
        Ok(())
    }

    fn forget(&self, at: u64, bytes: u64) {
        if !self.is_direct {
            // Only advice: a failure costs memory of the kernel's.
            let _ = rustix::fs::fadvise(&self.file, at, NonZeroU64::new(bytes), Advice::DontNeed);
        }
    }
}

/// Opens or makes a regular file, and locks it.
fn open_locked(path: &Path) -> Result<File, String> {
    let shown = path.display();
    let mut options = OpenOptions::new();
    // It has the store's content: for this user only.
    let options = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    loop {
        let file = options.open(path).map_err(because(path, "it can't be opened"))?;
        let about = file.metadata().map_err(because(path, "it can't be examined"))?;
        if !about.is_file() {
            return Err(format!("{shown} can't be a disk tier: it is not a regular file"));
        }
        lock(&file).map_err(|error| match error {
            Errno::WOULDBLOCK => format!(
                "the disk tier {shown} is in use: give each process, and each store, a file of its own"
            ),
            error => because(path, "it can't be locked")(error),
        })?;
        // Whoever had the lock may have removed the file.
        let there = std::fs::metadata(path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino())) {
            return Ok(file);
        }
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < LOCKED_FOR => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(Errno::INTR) => {}
            locked => return locked,
        }
    }
}
