//! A test device that records what a crash could leave behind.
//!
//! ```text
//!   write ──► its bytes are taken ──► journal: begun ──► inner device ──► journal: done ──► completion
//!   length changed, synced ─────────────────────────────────────────────► journal          (the live image is the file)
//!
//!   journal   begun · length · begun · done · done · synced · begun …
//!                    ▲ a crash between any two ── AfterCrash::image ──► what the file may hold then
//! ```
//!
//! Transfers go to the inner device and the real file, which is the live image. What a crash leaves is derived from the
//! journal afterwards, for every boundary between two entries and as often as wanted, so one run of a program covers
//! many crashes. The rules are at the top of `image.rs`.
//!
//! The bytes of a write are copied when it is submitted, and the inner device writes the copy. A page that changes
//! while it is being written therefore has its old content on the device, the worst of the allowed timings.
//!
//! Makes three copies of each write and keeps everything written in memory: suited to files of a few MiB.

mod image;

pub use image::{AfterCrash, Fate, Happened, Survived};

use millpond::device::{
    Buffer, Completion, Device, DeviceFacts, DeviceFile, FileIdentity, Op, Request, Segments, Threads,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A device that keeps a journal of all requests.
///
/// ```
/// use millpond_testing::{Crashing, Fate};
/// use millpond::{OpenOptions, PageCache, device};
/// use std::sync::Arc;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let disk = Arc::new(Crashing::new(device::best(), 512));
/// let cache = PageCache::builder().device(disk.clone()).build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
/// file.write_at(b"first", 0)?;
/// file.sync_data()?;
/// let synced = disk.position(); // a crash from here on has all of it
/// file.write_at(b"FIRST", 0)?;
/// drop(file); // writes it, and syncs nothing
///
/// let journal = disk.journal();
/// let the_file = journal.files().next().expect("one was written");
/// let mut crash = journal.file(the_file).expect("it is in the journal");
/// loop {
///     for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(1), Fate::Drawn(2)] {
///         let (found, _) = crash.image(fate); // what the program would find after a crash at this moment
///         assert!(crash.until() < synced || found == b"first" || found == b"FIRST");
///     }
///     if crash.advance().is_none() {
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Crashing {
    inner: Arc<dyn Device>,
    name: String,
    sector_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    journal: Vec<Noted>,
    /// What each file held when it was first seen.
    bases: BTreeMap<FileIdentity, Arc<[u8]>>,
    under_way: HashMap<u64, UnderWay>,
    next_key: u64,
}

#[derive(Debug)]
struct UnderWay {
    token: u64,
    write: Option<UnderWayWrite>,
}

#[derive(Debug)]
struct UnderWayWrite {
    file: Arc<DeviceFile>,
    begun: usize,
    offset: u64,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Noted {
    file: FileIdentity,
    event: Event,
}

#[derive(Clone, Debug)]
enum Event {
    /// A write of `bytes` at `offset`, taken from memory after entry `since` was made.
    Begun {
        offset: u64,
        bytes: Arc<[u8]>,
        since: usize,
    },
    /// The write that began at that entry has ended, and the file has this length. If the write went further, a
    /// truncation came after it. If it failed: what the file holds there afterwards.
    Done {
        begun: usize,
        len: u64,
        failed: Option<Arc<[u8]>>,
    },
    /// The file's length was set to this.
    Length(u64),
    /// A sync requested when the journal had `asked` entries has succeeded.
    Synced { asked: usize },
}

/// All requests to a [`Crashing`] device, in order. See [`Journal::file`].
#[derive(Clone, Debug)]
pub struct Journal {
    sector_bytes: usize,
    entries: Vec<Noted>,
    bases: BTreeMap<FileIdentity, Arc<[u8]>>,
}

impl Journal {
    /// The files that were used.
    pub fn files(&self) -> impl Iterator<Item = FileIdentity> + '_ {
        self.bases.keys().copied()
    }

    /// The file before its first entry. `None` if it has none.
    pub fn file(&self, file: FileIdentity) -> Option<AfterCrash<'_>> {
        let base = self.bases.get(&file)?;
        let own = self.entries.iter().enumerate();
        let own = own.filter(move |(_, entry)| entry.file == file);
        let events = own.map(|(n, entry)| (n, &entry.event)).collect();
        Some(AfterCrash::new(self.sector_bytes, base, events))
    }
}

impl Crashing {
    /// Wraps `inner` as a disk that writes whole sectors of `sector_bytes`. A longer write that survives in part is cut
    /// at a sector boundary.
    ///
    /// # Panics
    /// If `sector_bytes` is not a power of two from 512 to 65536.
    pub fn new(inner: Arc<dyn Device>, sector_bytes: usize) -> Crashing {
        assert!(
            sector_bytes.is_power_of_two() && (512..=65_536).contains(&sector_bytes),
            "sectors of {sector_bytes} bytes"
        );
        Crashing {
            name: format!("crashing {}", inner.name()),
            inner,
            sector_bytes,
            state: Mutex::default(),
        }
    }

    /// The number of journal entries. Read before and after a call, it tells which crashes the call lies between.
    pub fn position(&self) -> usize {
        self.state.lock().journal.len()
    }

    /// The journal so far.
    pub fn journal(&self) -> Journal {
        let state = self.state.lock();
        Journal {
            sector_bytes: self.sector_bytes,
            entries: state.journal.clone(),
            bases: state.bases.clone(),
        }
    }

    /// Records the request under our own token. The bytes of a write are copied, and the write uses the copy.
    fn begin(&self, request: &Request) -> io::Result<Request> {
        let mut segments = request.segments.clone();
        let mut taken = None;
        if request.op == Op::Write {
            self.state.lock().see(&request.file)?;
            let since = self.position();
            let (bytes, own) = take(&segments)?;
            segments = own;
            taken = Some((since, bytes));
        }
        let mut state = self.state.lock();
        let write = taken.map(|(since, bytes)| {
            let write = UnderWayWrite {
                file: request.file.clone(),
                begun: state.journal.len(),
                offset: request.offset,
                bytes: bytes.len(),
            };
            let offset = request.offset;
            state.note(&request.file, Event::Begun { offset, bytes, since });
            write
        });
        state.next_key += 1;
        let (key, token) = (state.next_key, request.token);
        state.under_way.insert(key, UnderWay { token, write });
        Ok(Request {
            token: key,
            op: request.op,
            reason: request.reason,
            file: request.file.clone(),
            offset: request.offset,
            segments,
        })
    }

    /// One of our requests has ended. Returns the caller's token.
    fn end(&self, key: u64, result: &io::Result<usize>) -> Option<u64> {
        let UnderWay { token, write } = self.state.lock().under_way.remove(&key)?;
        if let Some(write) = write {
            // Some of it may be there.
            let failed = result
                .is_err()
                .then(|| content(&write.file, write.offset, write.bytes).unwrap_or_default());
            let begun = write.begun;
            // No length is set between our look at it and our entry.
            let mut state = self.state.lock();
            let len = write.file.len().unwrap_or(u64::MAX);
            state.note(&write.file, Event::Done { begun, len, failed });
        }
        Some(token)
    }
}

impl State {
    /// Takes what the file holds before its first use as durable.
    fn see(&mut self, file: &DeviceFile) -> io::Result<()> {
        if let Entry::Vacant(base) = self.bases.entry(file.identity()) {
            let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
            base.insert(content(&Arc::new(file.try_clone()?), 0, len)?);
        }
        Ok(())
    }

    fn note(&mut self, file: &DeviceFile, event: Event) {
        self.journal.push(Noted {
            file: file.identity(),
            event,
        });
    }
}

/// Moves the bytes on this thread.
fn move_here(request: &Request) -> io::Result<usize> {
    Threads::new("for a copy").transfer(request)
}

/// Copies the bytes, and returns them with the memory for a request that has them. The copy goes through the kernel,
/// because another thread may be changing the bytes.
fn take(segments: &Segments) -> io::Result<(Arc<[u8]>, Segments)> {
    let len = segments.bytes();
    let memory = Arc::new(DeviceFile::memory("taken", 0)?);
    let request = |op, segments| Request {
        token: 0,
        op,
        reason: None,
        file: memory.clone(),
        offset: 0,
        segments,
    };
    move_here(&request(Op::Write, segments.clone()))?;
    let mut buffer = Buffer::new(len.max(1));
    move_here(&request(Op::Read, Segments::of(buffer.clone(), 0, len)))?;
    let bytes = Buffer::bytes(&mut buffer).map(|all| Arc::from(&all[..len]));
    let bytes = bytes.ok_or_else(|| io::Error::other("the transfer is over and holds its memory"))?;
    Ok((bytes, Segments::of(buffer, 0, len)))
}

/// The content of the file in this range, as far as the file goes.
fn content(file: &Arc<DeviceFile>, offset: u64, len: usize) -> io::Result<Arc<[u8]>> {
    let mut buffer = Buffer::new(len.max(1));
    let read = move_here(&Request {
        token: 0,
        op: Op::Read,
        reason: None,
        file: file.clone(),
        offset,
        segments: Segments::of(buffer.clone(), 0, len),
    })?;
    let bytes = Buffer::bytes(&mut buffer).map(|all| Arc::from(&all[..read]));
    bytes.ok_or_else(|| io::Error::other("the transfer is over and holds its memory"))
}

impl Device for Crashing {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        if request.op == Op::Read {
            return self.inner.transfer(request);
        }
        let own = self.begin(request)?;
        let result = self.inner.transfer(&own);
        self.end(own.token, &result);
        result
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let mut own = Vec::with_capacity(requests.len());
        for request in requests.iter() {
            own.push(self.begin(request)?);
        }
        let result = self.inner.submit(&mut own);
        // What the inner device has not taken stays with the caller; it takes them in order.
        let taken = requests.len() - own.len();
        requests.drain(..taken);
        let mut state = self.state.lock();
        own.iter().for_each(|request| {
            state.under_way.remove(&request.token);
        });
        result
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let mut over = Vec::new();
        let result = self.inner.wait(&mut over, timeout);
        for Completion { token, result } in over {
            if let Some(token) = self.end(token, &result) {
                done.push(Completion { token, result });
            }
        }
        result
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        self.state.lock().see(file)?;
        let asked = self.position();
        self.inner.sync(file)?;
        self.state.lock().note(file, Event::Synced { asked });
        Ok(())
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        // All of it in one, so that the entries have the order in which the file has seen it: a write whose end is
        // entered before this went as far as the file did before.
        let mut state = self.state.lock();
        state.see(file)?;
        self.inner.set_len(file, len)?;
        state.note(file, Event::Length(len));
        Ok(())
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.inner.facts(file)
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
