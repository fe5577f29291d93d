//! The device that knows which files belong to stores.

use super::CacheError;
use super::below::Below;
use super::gate::Gate;
use super::pool::Pool;
use super::share::{READERS, Share, WRITERS};
use crate::layout::SyncError;
use crate::store::{Error, WeakStore};
use bytes::Bytes;
use millpond::PageCache;
use millpond::device::{
    Completion, Device, DeviceFacts, DeviceFile, FileIdentity, Op, Request, StoreFigures,
};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest name of a memory file in bytes.
const STAND_IN_NAME_MAX: usize = 249;

/// A store in a cache: its part of the budget.
#[derive(Debug)]
pub(super) struct Quota {
    share: Share,
    /// Reads for which callers wait.
    callers: Gate,
    /// Others.
    ahead: Gate,
    /// Buffers for what is held.
    pool: Arc<Pool>,
}

impl Quota {
    pub(super) fn new(share: Share) -> Arc<Quota> {
        Arc::new(Quota {
            share,
            callers: Gate::new(share.callers()),
            ahead: Gate::new(share.ahead),
            pool: Pool::new(share.piece()),
        })
    }
}

/// A file of a store, and its stand-in in the cache.
#[derive(Debug)]
pub(super) struct Backing {
    pub(super) file: Below,
    pub(super) stand_in: File,
    pub(super) identity: FileIdentity,
    /// Its name in messages.
    pub(super) shown: String,
    quota: Arc<Quota>,
    /// Held during a write, so that the pages of one write are adjacent in the store.
    writing: Mutex<()>,
    /// A page, at its offset, that an earlier version of the file had in memory.
    pub(super) carried: Mutex<Option<(u64, Bytes)>>,
}

#[derive(Debug)]
struct Shared {
    below: Arc<dyn Device>,
    files: Mutex<HashMap<FileIdentity, Arc<Backing>>>,
    stores: Mutex<Vec<WeakStore>>,
    done: Mutex<Vec<Completion>>,
}

/// A device for a cache that has files of stores beside others.
///
/// ```
/// use millpond::{PageCache, device};
/// use millpond_volumes::{StoreOptions, Volumes};
/// let volumes = Volumes::new(device::best())?;
/// let cache = PageCache::builder().memory(64 << 20).page_size(64 << 10).device(volumes.clone()).build()?;
/// let store = volumes.store(&cache, "memory://cached", StoreOptions::new())?;
/// let file = store.create("a/file")?; // a millpond::File
/// file.write_at(b"pond", 0)?;
/// file.sync_data()?; // in the store
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Volumes {
    shared: Arc<Shared>,
    /// Separate, because writes wait while a store can't be written, and it can still be read.
    reads: Sender<Request>,
    writes: Sender<Request>,
    name: String,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error that a cache passes on: the store's reason, and a kind that stands for an errno. `ESTALE` if another
/// writer has the store, `ETIMEDOUT` if it does not answer, `ENOSPC` if it has no room, `ENOENT` if the file is gone, else
/// `EIO`.
fn io_error(error: &Error) -> io::Error {
    let (kind, text) = match error {
        // How much of it was taken is of no use: all of it is written again.
        Error::Short { why, .. } => return io_error(why),
        error if error.is_fenced() => (io::ErrorKind::StaleNetworkFileHandle, error.to_string()),
        Error::TimedOut(..) => (io::ErrorKind::TimedOut, error.to_string()),
        Error::NoFile(_) => (io::ErrorKind::NotFound, error.to_string()),
        Error::Deleted { .. } => (io::ErrorKind::StaleNetworkFileHandle, error.to_string()),
        Error::ReadOnly(_) => (io::ErrorKind::ReadOnlyFilesystem, error.to_string()),
        // That it is kept is said of it in the words of a cache.
        Error::Sync(SyncError::Store(why)) => (io::ErrorKind::Other, why.clone()),
        Error::Sync(SyncError::NoRoom(why)) => (io::ErrorKind::StorageFull, why.clone()),
        error => (io::ErrorKind::Other, error.to_string()),
    };
    io::Error::new(kind, text)
}

impl Volumes {
    /// A store's part of the budget of `cache`, which must use this device.
    pub(super) fn share_of(&self, cache: &PageCache, held_max: u64) -> Result<Share, CacheError> {
        if !cache.has_device(self) {
            return Err(CacheError::OtherDevice);
        }
        let memory = cache.memory();
        let least = memory.auto.map_or(memory.bytes, |range| range.min);
        Ok(Share::of(least.0, held_max))
    }

    /// Creates a device that does the transfers of store files itself, and passes all others to `below`.
    ///
    /// # Errors
    /// If its threads can't be created.
    pub fn new(below: Arc<dyn Device>) -> io::Result<Arc<Volumes>> {
        let name = format!("stores, and {}", below.name());
        let shared = Arc::new(Shared {
            below,
            files: Mutex::default(),
            stores: Mutex::default(),
            done: Mutex::default(),
        });
        let queue = |threads| {
            let (queue, requests) = channel();
            let requests = Arc::new(Mutex::new(requests));
            for _ in 0..threads {
                let (shared, requests) = (shared.clone(), requests.clone());
                let thread = std::thread::Builder::new().name(String::from("millpond-volume"));
                thread.spawn(move || serve(&shared, &requests))?;
            }
            Ok::<_, io::Error>(queue)
        };
        let (reads, writes) = (queue(READERS)?, queue(WRITERS)?);
        Ok(Arc::new(Volumes {
            shared,
            reads,
            writes,
            name,
        }))
    }

    /// Includes a store in the device's figures as long as the store lives.
    pub(super) fn watch(&self, store: WeakStore) {
        lock(&self.shared.stores).push(store);
    }

    /// Creates the stand-in of a store's file. A cache opens it between two calls of [`Volumes::knows`].
    pub(super) fn stand_in(
        (store, name): (&str, &str),
        file: Below,
        quota: &Arc<Quota>,
    ) -> Result<Arc<Backing>, Error> {
        let len = file.len()?;
        let short = &name.as_bytes()[..name.len().min(STAND_IN_NAME_MAX)];
        let made = memfd_create(short, MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(io::Error::from);
        let made = made.and_then(|stand_in| {
            stand_in.set_len(len)?;
            let metadata = stand_in.metadata()?;
            let (device, inode) = (metadata.dev(), metadata.ino());
            Ok((FileIdentity { device, inode }, stand_in))
        });
        let (identity, stand_in) = made.map_err(Error::System)?;
        Ok(Arc::new(Backing {
            file,
            stand_in,
            identity,
            shown: format!("{}/{name}", store.trim_end_matches('/')),
            quota: quota.clone(),
            writing: Mutex::default(),
            carried: Mutex::default(),
        }))
    }

    /// Does the file's transfers with its store until a cache has closed it. Returns whether it already did.
    pub(super) fn knows(&self, backing: &Arc<Backing>) -> bool {
        let before = lock(&self.shared.files).insert(backing.identity, backing.clone());
        before.is_some()
    }

    /// A cache could not open the file.
    pub(super) fn forgets(&self, identity: FileIdentity) {
        let known = lock(&self.shared.files).remove(&identity);
        // Not under the lock: it may be the last of its store, which is closed then.
        drop(known);
    }
}

/// Does transfers until the device is gone.
fn serve(shared: &Shared, requests: &Mutex<Receiver<Request>>) {
    loop {
        let next = lock(requests).recv();
        let Ok(request) = next else { return };
        let token = request.token;
        let result = match shared.of(&request.file) {
            Some(backing) => {
                let quota = &backing.quota;
                let of_reads = (request.op == Op::Read).then_some(&quota.ahead);
                let _inside = of_reads.map(|gate| gate.enter(backing.bytes_of(&request)));
                backing.transfer(&request)
            }
            None => shared.below.transfer(&request),
        };
        // The file and the memory are let go of before it is said.
        drop(request);
        lock(&shared.done).push(Completion { token, result });
        shared.below.wake();
    }
}

impl Shared {
    fn of(&self, file: &DeviceFile) -> Option<Arc<Backing>> {
        lock(&self.files).get(&file.identity()).cloned()
    }
}

impl Backing {
    /// In memory for it. Of a store with larger pages more is here than the pages that are wanted.
    fn bytes_of(&self, request: &Request) -> u64 {
        (request.segments.bytes() as u64).max(self.file.page_bytes())
    }

    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let done = match request.op {
            Op::Read => self.read(request),
            Op::Write => self.write(request),
        };
        done.map_err(|error| io_error(&error))
    }

    fn read(&self, request: &Request) -> Result<usize, Error> {
        let len = request.segments.bytes() as u64;
        let put = |at: usize, bytes: &[u8]| request.segments.put(at, bytes);
        let is_this =
            |(offset, bytes): &mut (u64, Bytes)| *offset == request.offset && bytes.len() as u64 == len;
        let carried = lock(&self.carried).take_if(is_this);
        if let Some((_, bytes)) = carried {
            put(0, &bytes);
            return Ok(bytes.len());
        }
        self.file.read_with(request.offset, len, put)
    }

    fn write(&self, request: &Request) -> Result<usize, Error> {
        let _writing = lock(&self.writing);
        let len = request.segments.bytes();
        // Whole pages of the store.
        let piece = self.quota.share.piece().max(self.file.page_bytes());
        let mut done = 0;
        while done < len {
            let offset = request.offset + done as u64;
            let part = (len - done).min((piece - offset % piece) as usize);
            let fill = |bytes: &mut [u8]| request.segments.take(done, bytes);
            let bytes = self.quota.pool.filled(part, fill);
            self.file.write_bytes(&bytes, offset, &self.shown)?;
            done += part;
        }
        Ok(len)
    }
}

impl Device for Volumes {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        match self.shared.of(&request.file) {
            Some(backing) => {
                let _inside = backing.quota.callers.enter(backing.bytes_of(request));
                backing.transfer(request)
            }
            None => self.shared.below.transfer(request),
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let (of_stores, mut others): (Vec<_>, Vec<_>) = requests
            .drain(..)
            .partition(|request| self.shared.of(&request.file).is_some());
        for request in of_stores {
            let queue = match request.op {
                Op::Read => &self.reads,
                Op::Write => &self.writes,
            };
            // Its threads live as long as it does.
            if let Err(refused) = queue.send(request) {
                requests.push(refused.0);
            }
        }
        let submitted = self.shared.below.submit(&mut others);
        requests.append(&mut others);
        match requests.is_empty() {
            true => submitted,
            false => Err(submitted
                .err()
                .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let is_done = !lock(&self.shared.done).is_empty();
        let timeout = if is_done { Some(Duration::ZERO) } else { timeout };
        let waited = self.shared.below.wait(done, timeout);
        done.append(&mut lock(&self.shared.done));
        waited
    }

    fn wake(&self) {
        self.shared.below.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        match self.shared.of(file) {
            Some(backing) => backing.file.sync_data().map_err(|error| io_error(&error)),
            None => self.shared.below.sync(file),
        }
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        if let Some(backing) = self.shared.of(file) {
            backing
                .file
                .set_len(len, &backing.shown)
                .map_err(|error| io_error(&error))?;
        }
        self.shared.below.set_len(file, len)
    }

    fn punch(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        match self.shared.of(file) {
            Some(backing) => backing
                .file
                .punch(offset..offset + len, &backing.shown)
                .map_err(|error| io_error(&error)),
            None => self.shared.below.punch(file, offset, len),
        }
    }

    /// A store has no room that could be kept for a file.
    fn allocate(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        match self.shared.of(file) {
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => self.shared.below.allocate(file, offset, len),
        }
    }

    fn keeps_unsynced(&self, file: &DeviceFile) -> bool {
        self.shared.of(file).is_some() || self.shared.below.keeps_unsynced(file)
    }

    fn closed(&self, file: &DeviceFile) {
        self.forgets(file.identity());
        self.shared.below.closed(file);
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        match self.shared.of(file) {
            Some(backing) => backing.quota.share.facts(),
            None => self.shared.below.facts(file),
        }
    }

    fn stores(&self) -> Vec<StoreFigures> {
        let stores = lock(&self.shared.stores).clone();
        let mut figures: Vec<_> = stores.iter().filter_map(WeakStore::figures).collect();
        lock(&self.shared.stores).retain(WeakStore::is_alive);
        figures.extend(self.shared.below.stores());
        figures
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.shared.below)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
