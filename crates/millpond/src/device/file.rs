//! A file from a device's point of view: opened for direct I/O, and again for buffered I/O.
//!
//! Direct I/O transfers only whole blocks, so the partial block at the end of a file goes through the page cache
//! (`transfer.rs`), on a second descriptor. The kernel keeps the two coherent: a direct read first writes back, and a
//! direct write then drops, what is cached of its range. Where the file system refuses direct I/O, everything goes
//! through the page cache and is dropped from it afterwards. The file reports this, because memory is then briefly used
//! twice.

use super::again::open_again;
use super::descriptor::Descriptor;
use super::exclusive::Exclusive;
use super::facts::{self, DeviceFacts};
use super::kind::{check_content, check_kind, identity, is_shortage, may_open};
use super::length::Lengths;
use super::load::DeviceLoad;
use crate::host::Notice;
use crate::sys::direct::{self, OpenedFor};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::ffi::CString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The access mode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// Reading and writing; a missing regular file is created.
    Create,
}

/// How a missing file is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making {
    /// The file must not exist.
    pub(crate) new: bool,
    /// The permissions, before the umask is applied.
    pub(crate) mode: u32,
}

impl Default for Making {
    fn default() -> Making {
        let (new, mode) = (false, 0o666);
        Making { new, mode }
    }
}

/// The identity of a file, independent of its names and of how often it is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileIdentity {
    /// The device number of the file system, or of the block device itself.
    pub device: u64,
    /// The inode number in the file system; zero for a block device.
    pub inode: u64,
}

/// An open file or block device.
pub struct DeviceFile {
    name: Arc<str>,
    pub(super) buffered: Descriptor,
    direct: Option<Direct>,
    direct_reason: String,
    caching: Caching,
    identity: FileIdentity,
    is_block_device: bool,
    /// Queried once, and only when needed: it takes longer than opening the file.
    facts: OnceLock<DeviceFacts>,
    lengths: Lengths,
    /// The major and minor number of the disk.
    disk: (u32, u32),
    opened_for: OpenedFor,
    pub(super) exclusive: Exclusive,
    /// It was opened as a descriptor, whose path the system knows, also when it changes.
    is_named_by_descriptor: bool,
}

struct Direct {
    file: Descriptor,
    memory_alignment: usize,
    block_bytes: usize,
}

/// What happens to pages that buffered I/O leaves in the kernel's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caching {
    /// They may stay: the file lives in memory, or they are only the end of a direct file.
    Stays,
    /// The kernel drops them with the transfer.
    DroppedByFlag,
    /// Advice drops them after the transfer.
    DroppedByAdvice,
}

impl DeviceFile {
    /// Opens the file or block device at `path`, with direct I/O if the file system allows it.
    ///
    /// # Errors
    /// If `path` is neither (a directory, a pipe, a terminal), or if opening it fails.
    pub fn open(path: &Path, access: Access) -> io::Result<DeviceFile> {
        DeviceFile::open_as(path, access, Making::default())
    }

    pub(crate) fn open_as(path: &Path, access: Access, making: Making) -> io::Result<DeviceFile> {
        // Before opening it, since opening a pipe waits for its other end.
        match fs::metadata(path) {
            // Whatever it is, opening it fails.
            Ok(_) if making.new => {}
            Ok(metadata) => {
                check_kind(path, &metadata)?;
                let at = (metadata.dev(), metadata.ino());
                if may_open(path, access)
                    && let Some(kept) = Descriptor::kept(at, access != Access::Read, false)
                {
                    return DeviceFile::with_name(kept, path);
                }
            }
            Err(error) if access == Access::Create && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(access != Access::Read)
            .create(access == Access::Create)
            .create_new(making.new)
            .mode(making.mode);
        DeviceFile::with_name(Descriptor::new(options.open(path)?), path)
    }

    /// Adopts an open file, for instance one without a name. Does not use its file position.
    ///
    /// # Errors
    /// If it is neither a regular file nor a block device.
    pub fn from_file(file: File) -> io::Result<DeviceFile> {
        DeviceFile::from_descriptor(Descriptor::new(file))
    }

    pub(crate) fn from_descriptor(opened: Descriptor) -> io::Result<DeviceFile> {
        let path = opened.path().unwrap_or_default();
        let mut file = DeviceFile::with_name(opened, &path)?;
        file.is_named_by_descriptor = true;
        Ok(file)
    }

    /// Creates a file of `len` zero bytes in memory, which excludes the disk from a measurement.
    ///
    /// # Errors
    /// If there is not enough memory, or `name` contains a NUL or more than 249 bytes.
    pub fn memory(name: &str, len: u64) -> io::Result<DeviceFile> {
        let file = direct::memory_file(&CString::new(name)?)?;
        file.set_len(len)?;
        let metadata = file.metadata()?;
        let opened_for = direct::opened_for(&file)?;
        Ok(DeviceFile {
            name: format!("{name} (memory)").into(),
            buffered: Descriptor::new(file),
            direct: None,
            direct_reason: String::from("the file is in memory"),
            caching: Caching::Stays,
            opened_for,
            identity: identity(&metadata),
            is_block_device: false,
            facts: OnceLock::from(DeviceFacts::MEMORY),
            lengths: Lengths::default(),
            disk: (0, 0),
            exclusive: Exclusive::default(),
            is_named_by_descriptor: false,
        })
    }

    fn with_name(opened: Descriptor, path: &Path) -> io::Result<DeviceFile> {
        let file = opened.file();
        let metadata = file.metadata()?;
        check_kind(path, &metadata)?;
        check_content(path, file, &metadata)?;
        super::length::look();
        let is_block_device = metadata.file_type().is_block_device();
        let number = if is_block_device {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        let disk = (libc::major(number), libc::minor(number));
        let opened_for = direct::opened_for(file)?;
        let (direct, direct_reason) = match Direct::open(file, path, &metadata, disk, opened_for.is_writable)
        {
            Ok(direct) => {
                let reason = format!("direct, blocks of {} bytes", direct.block_bytes);
                (Some(direct), reason)
            }

            Err(error) if is_shortage(&error) => return Err(error),
            Err(error) => (None, error.to_string()),
        };
        let caching = match &direct {
            Some(_) => Caching::Stays,
            None if direct::takes_dont_cache(file) => Caching::DroppedByFlag,
            None => Caching::DroppedByAdvice,
        };
        Ok(DeviceFile {
            name: path.display().to_string().into(),
            buffered: opened,
            direct,
            direct_reason,
            caching,
            identity: identity(&metadata),
            is_block_device,
            facts: OnceLock::new(),
            lengths: Lengths::default(),
            disk,
            opened_for,
            exclusive: Exclusive::default(),
            is_named_by_descriptor: false,
        })
    }

    /// Returns the file as if its file system refused direct I/O. Pages are dropped from the kernel's cache by flag
    /// (where the kernel can) or by advice.
    pub(crate) fn without_direct(mut self, by_flag: bool) -> DeviceFile {
        self.direct = None;
        self.direct_reason = String::from("a test");
        self.caching = match by_flag && direct::takes_dont_cache(self.buffered.file()) {
            true => Caching::DroppedByFlag,
            false => Caching::DroppedByAdvice,
        };
        self
    }

    /// Returns the path by which it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Returns what it was opened for.
    pub(crate) fn opened_for(&self) -> OpenedFor {
        self.opened_for
    }

    /// Returns whether whole blocks bypass the kernel's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns how its transfers are performed, and why, for people.
    pub fn path_taken(&self) -> String {
        let dropped = match self.caching {
            Caching::Stays => "",
            Caching::DroppedByFlag => "; buffered, pages dropped with each transfer (RWF_DONTCACHE)",
            Caching::DroppedByAdvice => "; buffered, pages dropped by posix_fadvise",
        };
        match self.caching {
            Caching::Stays => self.direct_reason.clone(),
            _ => format!("direct I/O is refused ({}){dropped}", self.direct_reason),
        }
    }

    /// Returns what its transfers must do without.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        if self.direct.is_some() || self.caching == Caching::Stays {
            return Vec::new();
        }
        let path = PathBuf::from(&*self.name);
        let why = self.direct_reason.clone();
        let mut notices = vec![Notice::NoDirect {
            path: path.clone(),
            why,
        }];
        if self.caching == Caching::DroppedByAdvice {
            notices.push(Notice::NoDontCache { path });
        }
        notices
    }

    /// Returns the alignment that the offset and length of a transfer need to bypass the page cache in one piece.
    pub fn block_bytes(&self) -> usize {
        self.direct.as_ref().map_or(1, |direct| direct.block_bytes)
    }

    /// Returns the identity of the file.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns what is known of the disk that holds the file.
    pub fn facts(&self) -> DeviceFacts {
        *self.facts.get_or_init(|| {
            let (major, minor) = self.disk;
            DeviceFacts::of_block_device(major, minor).unwrap_or(DeviceFacts::UNKNOWN)
        })
    }

    /// Returns the load on the disk from all its users.
    pub(super) fn load(&self) -> DeviceLoad {
        let (major, minor) = self.disk;
        DeviceLoad::of_block_device(major, minor)
    }

    /// Returns whether it is a block device, whose length is its size.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Returns the current length in bytes, or the size of a block device.
    ///
    /// # Errors
    /// As for `fstat`.
    pub fn len(&self) -> io::Result<u64> {
        match self.is_block_device {
            true => self.seek(SeekFrom::End(0)),
            false => Ok(self.buffered.file().metadata()?.len()),
        }
    }

    /// Returns whether the length is 0.
    ///
    /// # Errors
    /// As for [`len`](DeviceFile::len).
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Sets the length to `len` bytes. Bytes past a shorter length are discarded; new bytes read as zeros.
    ///
    /// # Errors
    /// As for `ftruncate`; a block device cannot change its size. Past the process's limit (`ulimit -f`) the error is
    /// `EFBIG`, without the signal.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_limit(len)?;
        self.buffered.file().set_len(len)
    }

    /// Deallocates the blocks of a range, so that it reads as zeros. The length stays the same, even if the range
    /// extends past it.
    ///
    /// # Errors
    /// As for `fallocate`; not every file system supports it.
    pub fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.buffered, flags, offset, len)?)
    }

    /// Allocates blocks for a range, written or not. The length stays the same, even if the range extends past it, and
    /// so does the content.
    ///
    /// # Errors
    /// As for `fallocate`: no room, or no file system that supports it. A part of the range may have its blocks then.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(
            &self.buffered,
            FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )?)
    }

    pub(super) fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// Returns where the file is now, if it was opened as a descriptor and has a name.
    pub(crate) fn present_path(&self) -> Option<PathBuf> {
        let path = self.is_named_by_descriptor.then(|| self.buffered.path())??;
        let is_named = path.is_absolute() && !path.as_os_str().as_bytes().ends_with(b" (deleted)");
        is_named.then_some(path)
    }

    /// Duplicates the open file.
    ///
    /// # Errors
    /// As for opening it.
    pub fn try_clone(&self) -> io::Result<DeviceFile> {
        DeviceFile::from_file(self.buffered.file().try_clone()?)
    }

    /// Makes earlier writes durable, including a changed length (`fdatasync`).
    ///
    /// # Errors
    /// As for `fdatasync`. Writes may then be lost, and the kernel may not report that again.
    pub(crate) fn sync(&self) -> io::Result<()> {
        loop {
            match self.buffered.file().sync_data() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        // Advice drops clean pages only, so of those that were written nothing had gone yet. Zero bytes: to the end.
        self.drop_cached(0, 0);
        Ok(())
    }

    /// Returns the descriptor for whole blocks, if there is one, with the alignment of memory and offsets.
    pub(super) fn direct(&self) -> Option<(usize, usize)> {
        self.direct
            .as_ref()
            .map(|direct| (direct.memory_alignment, direct.block_bytes))
    }

    pub(crate) fn descriptor(&self, direct: bool) -> BorrowedFd<'_> {
        match &self.direct {
            Some(open) if direct => open.file.as_fd(),
            _ => self.buffered.as_fd(),
        }
    }

    /// Prepares a buffered transfer.
    pub(super) fn flags(&self) -> i32 {
        match self.caching {
            Caching::DroppedByFlag => direct::DONT_CACHE,
            _ => 0,
        }
    }

    /// Finishes a buffered transfer.
    pub(super) fn drop_cached(&self, offset: u64, len: usize) {
        if self.caching == Caching::DroppedByAdvice {
            direct::drop_cached(self.buffered.as_fd(), offset, len);
        }
    }
}

impl Direct {
    /// Opens the same file again for direct I/O.
    fn open(
        file: &File,
        path: &Path,
        metadata: &Metadata,
        (major, minor): (u32, u32),
        is_writable: bool,
    ) -> io::Result<Direct> {
        let alignment = direct::direct_alignment(file);
        if alignment.is_some_and(|alignment| alignment.offset == 0) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system does not support it for this file",
            ));
        }
        let kept = Descriptor::kept((metadata.dev(), metadata.ino()), is_writable, true);
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(is_writable).custom_flags(libc::O_DIRECT);
            open_again(file, path, &options).map(Descriptor::new)
        };
        let opened = kept.map_or_else(open, Ok)?;
        let (memory_alignment, block_bytes) = match alignment {
            Some(alignment) => (alignment.memory, alignment.offset),
            None => {
                // Without a block device below (FUSE, network) 4096, which no file system finds too little.
                let block = facts::logical_block_bytes(major, minor).unwrap_or(4096);
                (block, block)
            }
        };
        let sane = |alignment: u32| {
            let sane = alignment.is_power_of_two() && alignment <= 1 << 16;
            sane.then_some(alignment as usize).ok_or_else(|| {
                let said = format!("its transfers would need to be aligned to {alignment} bytes");
                io::Error::new(io::ErrorKind::Unsupported, said)
            })
        };
        Ok(Direct {
            file: opened,
            memory_alignment: sane(memory_alignment)?,
            block_bytes: sane(block_bytes)?,
        })
    }
}

impl fmt::Debug for DeviceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.path_taken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn identity_is_of_the_file_not_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let first = DeviceFile::open(&one, Access::Create).unwrap();
        fs::hard_link(&one, &two).unwrap();
        let second = DeviceFile::open(&two, Access::Read).unwrap();
        assert_eq!(first.identity(), second.identity());
        let other = DeviceFile::open(&folder.path().join("three"), Access::Create).unwrap();
        assert_ne!(first.identity(), other.identity());
    }

    #[test]
    fn length_changes_under_every_handle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = DeviceFile::open(&path, Access::Create).unwrap();
        assert!(file.is_empty().unwrap());
        file.set_len(12_345).unwrap();
        assert_eq!(file.len().unwrap(), 12_345);
        File::create(&path).unwrap().write_all(b"abc").unwrap();
        assert_eq!(file.len().unwrap(), 3);
    }

    #[test]
    fn file_without_a_name_can_be_taken() {
        let file = DeviceFile::from_file(tempfile::tempfile().unwrap()).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(file.len().unwrap(), 5);
    }

    #[test]
    fn memory_file_is_not_direct_and_says_why() {
        let file = DeviceFile::memory("pond", 8192).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
        assert!(!file.is_direct());
        assert_eq!(file.path_taken(), "the file is in memory");
    }
}
