//! What the disk itself gives: direct reads beside direct writes of 1 MiB, of which a fixed number is in transit.
//!
//! There is no cache and no policy. The writer fills a buffer and hands it to one of as many threads, which write it into
//! blocks that were allocated when the file was made. So the rows are the line that a cache on the same files is held against:
//!
//! ```text
//!   1x1M   one write in transit: the calmest reads that writers without a pause allow
//!   2x1M   two: the device has the next write before it has ended the last
//!   4x1M   four
//! ```
//!
//! More in transit than the device needs for its full rate only makes reads wait.

use super::{Backend, Driver, RowRequest, Rows};
use crate::error::{LabError, Result};
use crate::machine;
use crate::outcome::Setting;
use crate::setup::{Device, Setup};
use crate::storage::{Access, Served, Storage, StorageFile};
use crate::workload::data::{AlignedBuf, WRITE_MAX};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// This kind of target.
pub const KIND: Backend = Backend {
    name: "bare",
    about: "direct reads beside direct writes of 1 MiB, a fixed number in transit: what this disk gives without a cache",
    rows,
    driver: Driver::Files(open),
};

/// Writes in transit.
const IN_TRANSIT: [(&str, usize); 3] = [("1x1M", 1), ("2x1M", 2), ("4x1M", 4)];

fn rows(request: &RowRequest) -> Result<Rows> {
    if request.device != Device::Real {
        // For modelled disks there is `paced`.
        return Ok(Rows::default());
    }
    Ok(Rows {
        rows: IN_TRANSIT.map(|(label, _)| request.row("bare", label)).into(),
        notes: Vec::new(),
    })
}

fn open(setup: &Setup) -> Result<Box<dyn Storage>> {
    let found = IN_TRANSIT.iter().find(|(label, _)| *label == setup.variant);
    let &(_, in_transit) = found.ok_or_else(|| LabError::UnknownName {
        what: "number of writes in transit",
        value: setup.variant.clone(),
        allowed: IN_TRANSIT.map(|(label, _)| label).join(", "),
    })?;
    let dir = File::open(&setup.dir).map_err(|e| LabError::path("cannot open", &setup.dir, e))?;
    Ok(Box::new(Bare {
        dir,
        queue: Arc::new(Queue::new(in_transit)),
        settings: machine::kernel_settings(&setup.dir),
    }))
}

struct Bare {
    dir: File,
    queue: Arc<Queue>,
    settings: Vec<Setting>,
}

/// A full buffer and its place in a file.
struct Write {
    file: Arc<File>,
    offset: u64,
    buf: AlignedBuf,
    len: usize,
}

/// Writes, and the threads that do them, one for each that may be in transit.
struct Queue {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
    /// A thread takes a write when it has ended its last.
    next: Option<SyncSender<Write>>,
}

#[derive(Default)]
struct State {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    unfinished: u64,
    free: Vec<AlignedBuf>,
    /// The first that failed.
    failed: Option<io::Error>,
}

impl Queue {
    fn new(in_transit: usize) -> Queue {
        let (next, writes) = mpsc::sync_channel::<Write>(0);
        let (state, writes) = (Arc::<State>::default(), Arc::new(Mutex::new(writes)));
        let threads = (0..in_transit)
            .map(|_| {
                let (state, writes) = (Arc::clone(&state), Arc::clone(&writes));
                thread::spawn(move || {
                    loop {
                        let next = writes.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(write) = next else { return };
                        let written = write.file.write_all_at(&write.buf[..write.len], write.offset);
                        state.ended(write.buf, written);
                    }
                })
            })
            .collect();
        Queue {
            state,
            threads,
            next: Some(next),
        }
    }

    /// Returns when a thread has taken it.
    fn write(&self, write: Write) {
        self.state.lock().unfinished += 1;
        let next = self.next.as_ref().expect("the queue is dropped last");
        next.send(write).expect("the threads end after the queue");
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.next = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, buf: AlignedBuf, written: io::Result<()>) {
        let mut counts = self.lock();
        counts.unfinished -= 1;
        counts.free.push(buf);
        if let (Err(error), None) = (written, &counts.failed) {
            counts.failed = Some(error);
        }
        self.changed.notify_all();
    }

    fn buffer(&self) -> AlignedBuf {
        let free = self.lock().free.pop();
        free.unwrap_or_else(|| AlignedBuf::new(WRITE_MAX))
    }

    /// Waits until no write is left.
    fn wait(&self) -> io::Result<()> {
        let mut counts = self
            .changed
            .wait_while(self.lock(), |counts| counts.unfinished > 0)
            .unwrap_or_else(PoisonError::into_inner);
        counts.failed.take().map_or(Ok(()), Err)
    }
}

impl Bare {
    fn file(&self, file: File, len: u64) -> Box<dyn StorageFile> {
        Box::new(BareFile {
            file: Arc::new(file),
            len,
            queue: Arc::clone(&self.queue),
            unwritten: Mutex::default(),
        })
    }
}

impl Storage for Bare {
    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(path)?;
        let len = file.metadata()?.len();
        Ok(self.file(file, len))
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(path)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(self.file(file, len)),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.queue.state.wait()?;
        Ok(rustix::fs::syncfs(&self.dir)?)
    }

    fn settings(&self) -> Vec<Setting> {
        self.settings.clone()
    }
}

struct BareFile {
    file: Arc<File>,
    len: u64,
    queue: Arc<Queue>,
    unwritten: Mutex<Unwritten>,
}

/// The bytes from `offset` on that wait until there are enough for a write.
#[derive(Default)]
struct Unwritten {
    offset: u64,
    len: usize,
    buf: Option<AlignedBuf>,
}

impl BareFile {
    fn write(&self, unwritten: &mut Unwritten) {
        if let Some(buf) = unwritten.buf.take() {
            self.queue.write(Write {
                file: Arc::clone(&self.file),
                offset: unwritten.offset,
                buf,
                len: unwritten.len,
            });
        }
        unwritten.offset += unwritten.len as u64;
        unwritten.len = 0;
    }
}

impl StorageFile for BareFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        self.file.read_exact_at(buf, offset)?;
        Ok(Served::Device)
    }

    /// Files are written from front to back, the last write up to the length that they were made with.
    fn write_at(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = &mut *unwritten;
        if offset != unwritten.offset + unwritten.len as u64 {
            self.write(unwritten);
            unwritten.offset = offset;
        }
        while !bytes.is_empty() {
            let buf = unwritten.buf.get_or_insert_with(|| self.queue.state.buffer());
            let (now, later) = bytes.split_at(bytes.len().min(WRITE_MAX - unwritten.len));
            buf[unwritten.len..][..now.len()].copy_from_slice(now);
            unwritten.len += now.len();
            offset += now.len() as u64;
            bytes = later;
            if unwritten.len == WRITE_MAX || offset >= self.len {
                self.write(unwritten);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut unwritten);
        self.queue.state.wait()?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::data::PAGE;
    use millpond_core::units::Bytes;

    fn bare(dir: &Path, variant: &str) -> Box<dyn Storage> {
        let setup = Setup::of_files("bare", variant, dir, Bytes::from_mib(64));
        open(&setup).unwrap()
    }

    #[test]
    fn a_file_has_every_byte_that_was_written_to_it() {
        let dir = crate::scratch::for_tests();
        if machine::is_in_memory(dir.path()) {
            println!("skipped: a file system in memory may have no O_DIRECT");
            return;
        }
        let len = 5 * WRITE_MAX / 2 + PAGE;
        let bytes: Vec<u8> = (0..len).map(|n| (n / PAGE * 7 + n % 251) as u8).collect();
        for step in [PAGE, 3 * PAGE, WRITE_MAX - PAGE, WRITE_MAX] {
            let path = dir.path().join(format!("file-{step}"));
            let storage = bare(dir.path(), "2x1M");
            let file = storage.create(&path, len as u64).unwrap();
            for (n, part) in bytes.chunks(step).enumerate() {
                file.write_at((n * step) as u64, part).unwrap();
            }
            storage.sync_all().unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes, "in steps of {step}");
        }
    }

    #[test]
    fn a_write_that_fails_is_told_by_the_next_sync() {
        let dir = crate::scratch::for_tests();
        let path = dir.path().join("file");
        std::fs::write(&path, [0; PAGE]).unwrap();
        let storage = bare(dir.path(), "1x1M");
        // This handle can't write.
        let file = storage.open(&path, Access::Random).unwrap();
        file.write_at(0, &[1; PAGE]).unwrap();
        let error = storage.sync_all().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        storage.sync_all().unwrap();
    }
}
