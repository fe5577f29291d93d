//! What one process tells another that takes its mount over, and how the other becomes what the first was.
//!
//! ```text
//!   takes over                                          serves
//!   Hello ────────────────────────────────────────────► looks whether the two go together
//!             Answer: the connection, the lock, the pipe ◄──
//!   builds its cache
//!   Prepared ─────────────────────────────────────────► writes out what is dirty, stops, writes out the rest
//!                  Inodes, Handles, Table, Rest … ◄────── sends all that it knows
//!   builds its tables
//!   Serves ── from here on it is the one ─────────────► ends
//! ```
//!
//! Until `Serves` is sent the process that serves can go on, and does so if anything fails. After it nothing can fail any more.
//! `Hello` and `Answer` begin with the format in every version, so that two versions understand why they don't go together.

use crate::create_retries::Create;
use crate::directory::Directory;
use crate::flags::Durability;
use crate::inode::content::Content;
use crate::inode::record::InodeRecord;
use crate::inode::table::TableRecord;
use crate::inode::{Identity, Inode};
use crate::state::{MountState, OpenFile};
use millpond::internal::{Surface, write_out_all};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Of the messages. To be changed with any of them.
pub(crate) const FORMAT: u32 = 1;

/// What every version understands of an answer.
#[derive(Serialize, Deserialize)]
pub(crate) struct AnyAnswer {
    pub(crate) format: u32,
    pub(crate) version: String,
    /// Why not.
    pub(crate) refused: Option<String>,
}

/// What every version understands of a greeting.
#[derive(Serialize, Deserialize)]
pub(crate) struct AnyHello {
    pub(crate) format: u32,
    pub(crate) version: String,
}

/// By the process that takes over: with what it has been started. The kernel has been told otherwise if it differs.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) format: u32,
    pub(crate) version: String,
    pub(crate) process: u32,
    pub(crate) source: Identity,
    pub(crate) allows_other: bool,
    pub(crate) is_read_only: bool,
    pub(crate) is_cached: bool,
    pub(crate) lends: bool,
}

/// With the connection to the kernel, the source's directory and its lock, and both ends of the pipe for the exit report.
#[derive(Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) format: u32,
    pub(crate) version: String,
    pub(crate) refused: Option<String>,
    pub(crate) process: u32,
    pub(crate) request_bytes: u32,
    pub(crate) background: u16,
    pub(crate) applies_umask: bool,
    pub(crate) calibration: Option<Calibration>,
}

/// How fast the disk was found to be.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Calibration {
    facts: (u32, bool, bool, Option<u64>, Option<u64>, Option<u64>),
    reads: u32,
    read_latency: Duration,
    read_latency_max: Duration,
}

/// By the process that takes over, after the answer.
#[derive(Serialize, Deserialize)]
pub(crate) enum Progress {
    Prepared,
    Serves,
    Failed(String),
}

/// By the process that serves, when it has stopped.
#[derive(Serialize, Deserialize)]
pub(crate) enum Message {
    /// With one descriptor or two of each.
    Inodes(Vec<InodeRecord>),
    /// Chunks of pages of an inode that are lent to the kernel, with a bit for each page.
    Lent(u64, Vec<(u64, u16)>),
    Files(Vec<FileRecord>),
    /// With a descriptor of each.
    Directories(Vec<DirectoryRecord>),
    Table(TableRecord),
    /// What is lost, in sentences.
    Lost(Vec<String>),
    /// The last one.
    Rest(Rest),
    Failed(String),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FileRecord {
    handle: u64,
    inode: u64,
    durability: Durability,
    writes_through: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DirectoryRecord {
    handle: u64,
    inode: u64,
}

/// What belongs to no file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Rest {
    clock: i64,
    below_failed: Option<i32>,
    has_lost_stores: bool,
    is_given_up: bool,
    creates: Vec<Create>,
    /// Of each kind, so that what has come can be counted.
    counts: [usize; 3],
}

impl From<millpond::device::Calibration> for Calibration {
    fn from(of: millpond::device::Calibration) -> Calibration {
        let facts = of.facts;
        Calibration {
            facts: (
                facts.queue_depth,
                facts.rotational,
                facts.write_cache,
                facts.transfer_max,
                facts.readahead_max,
                facts.in_transit_max,
            ),
            reads: of.reads,
            read_latency: of.read_latency,
            read_latency_max: of.read_latency_max,
        }
    }
}

impl From<Calibration> for millpond::device::Calibration {
    fn from(of: Calibration) -> millpond::device::Calibration {
        let (queue_depth, rotational, write_cache, transfer_max, readahead_max, in_transit_max) = of.facts;
        millpond::device::Calibration {
            facts: millpond::device::DeviceFacts {
                queue_depth,
                rotational,
                write_cache,
                transfer_max,
                readahead_max,
                in_transit_max,
            },
            reads: of.reads,
            read_latency: of.read_latency,
            read_latency_max: of.read_latency_max,
            took: Duration::ZERO,
        }
    }
}

/// Which directory it is.
pub(crate) fn identity(directory: impl AsFd) -> io::Result<Identity> {
    Ok(Identity::of(&rustix::fs::fstat(directory)?))
}

/// So many records are sent at a time: of inodes with a name of 255 bytes each they are half of a message.
const RECORDS_MAX: usize = 50;

/// So many chunks of 30 bytes each.
const CHUNKS_MAX: usize = 2000;

/// So many sentences, each with a path.
const LOST_MAX: usize = 10;

impl MountState {
    /// Writes out everything: the file below has it then, durable or not.
    ///
    /// # Errors
    /// What is not written and why, in a sentence.
    pub(crate) fn write_everything_out(&self) -> Result<(), String> {
        let Some(cache) = &self.cache else {
            return Ok(());
        };
        if let Err(error) = write_out_all(cache) {
            self.note_refused(&error);
            return Err(match self.unwritten_now() {
                Some(unwritten) => format!("the disk refuses {unwritten}"),
                None => error.told(Surface::CommandLine),
            });
        }
        // Of closed files the times, too: the process that takes over does not have them in its cache.
        for inode in self.inodes.all() {
            if inode.times.lock().pending_mtime().is_some() {
                self.write_inode(&inode)
                    .map_err(|error| format!("a file's modification time can't be set: {error}"))?;
            }
        }
        Ok(())
    }

    /// That nothing is in memory only. Threads that change that have stopped.
    ///
    /// # Errors
    /// What is, in a sentence.
    pub(crate) fn check_written(&self) -> Result<(), String> {
        let unwritten = self.unwritten_now();
        unwritten.map_or(Ok(()), |unwritten| Err(format!("{unwritten} is not written")))
    }

    /// Sends everything by `send`, when nothing changes any more.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn send_all(
        &self,
        mut send: impl FnMut(&Message, &[OwnedFd]) -> io::Result<()>,
    ) -> io::Result<()> {
        let known = self.inodes.known();
        for part in known.chunks(RECORDS_MAX) {
            let (mut records, mut descriptors) = (Vec::new(), Vec::new());
            for (inode, lookups) in part {
                let (record, content) = inode.record(*lookups);
                descriptors.push(inode.fd.try_clone()?);
                if let Some(content) = content {
                    descriptors.push(content.descriptor()?);
                }
                records.push(record);
            }
            send(&Message::Inodes(records), &descriptors)?;
        }
        for (inode, _) in &known {
            for part in inode.lent.lent_pages().chunks(CHUNKS_MAX) {
                send(&Message::Lent(inode.id, part.to_vec()), &[])?;
            }
        }
        let files = self.files.all();
        for part in files.chunks(RECORDS_MAX) {
            let record = |(handle, file): &(u64, Arc<OpenFile>)| FileRecord {
                handle: *handle,
                inode: file.inode.id,
                durability: file.durability,
                writes_through: file.writes_through,
            };
            send(&Message::Files(part.iter().map(record).collect()), &[])?;
        }
        let directories = self.directories.all();
        for part in directories.chunks(RECORDS_MAX) {
            let record = |(handle, directory): &(u64, Arc<Directory>)| DirectoryRecord {
                handle: *handle,
                inode: directory.id,
            };
            let descriptors = part.iter().map(|(_, directory)| directory.file.try_clone());
            let descriptors: Vec<_> = descriptors.collect::<io::Result<_>>()?;
            send(
                &Message::Directories(part.iter().map(record).collect()),
                &descriptors,
            )?;
        }
        let table = self.inodes.record();
        let next_own = table.next_own;
        for part in table.ctimes.chunks(RECORDS_MAX) {
            let ctimes = part.to_vec();
            send(&Message::Table(TableRecord { next_own, ctimes }), &[])?;
        }
        let ctimes = Vec::new();
        send(&Message::Table(TableRecord { next_own, ctimes }), &[])?;
        self.note_lost();
        for part in self.lost_before.lock().chunks(LOST_MAX) {
            send(&Message::Lost(part.to_vec()), &[])?;
        }
        let rest = Rest {
            clock: self.clock.latest(),
            below_failed: self.below_failed.lock().map(Errno::raw_os_error),
            has_lost_stores: self.has_lost_stores.load(Ordering::Relaxed),
            is_given_up: self.is_given_up.load(Ordering::Relaxed),
            creates: self.create_retries.remembered(),
            counts: [known.len(), files.len(), directories.len()],
        };
        send(&Message::Rest(rest), &[])
    }

    /// Takes in one message of the process that served before. Whether it was the last.
    ///
    /// # Errors
    /// `InvalidData` if something is missing; the system's, if a file can't be opened in the cache.
    pub(crate) fn take_in(&self, message: Message, descriptors: Vec<OwnedFd>) -> io::Result<bool> {
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| missing("a descriptor"));
        match message {
            Message::Inodes(records) => {
                for record in records {
                    let inode = Inode::of_record(&record, next()?);
                    if let Some(is_writable) = record.is_writable {
                        let content = Content::open(next()?.into(), is_writable, self.cache.as_ref())?;
                        inode.data.lock().content = Some(Arc::new(content));
                    }
                    self.inodes.adopt(inode, record.lookups);
                }
            }
            Message::Files(records) => records
                .into_iter()
                .try_for_each(|record| self.take_in_file(record))?,
            Message::Directories(records) => {
                for DirectoryRecord { handle, inode } in records {
                    let directory = Directory::go_on_from(inode, next()?);
                    self.directories.go_on_from(handle, directory);
                }
            }
            Message::Lent(id, chunks) => {
                let inode = self.inodes.find(id).ok_or_else(|| missing("an inode"))?;
                if let Some(pool) = &self.lend_pool {
                    pool.go_on_from(&inode, &chunks);
                }
            }
            Message::Lost(lost) => self.lost_before.lock().extend(lost),
            Message::Table(record) => self.inodes.go_on_from(record),
            Message::Rest(rest) => {
                self.take_in_rest(rest)?;
                return Ok(true);
            }
            Message::Failed(why) => return Err(io::Error::other(why)),
        }
        Ok(false)
    }

    fn take_in_file(&self, record: FileRecord) -> io::Result<()> {
        let inode = self.inodes.find(record.inode);
        let inode = inode.ok_or_else(|| missing("the inode of an open file"))?;
        let content = {
            let mut data = inode.data.lock();
            data.opens += 1;
            data.content.clone()
        };
        let content = content.ok_or_else(|| missing("the content of an open file"))?;
        if record.writes_through {
            inode.lent.add_writer();
        }
        let file = OpenFile {
            inode,
            content,
            durability: record.durability,
            writes_through: record.writes_through,
        };
        self.files.go_on_from(record.handle, file);
        Ok(())
    }

    fn take_in_rest(&self, rest: Rest) -> io::Result<()> {
        let here = [self.inodes.count(), self.files.count(), self.directories.count()];
        if here != rest.counts {
            return Err(missing("an inode or an open file"));
        }
        self.clock.go_on_from(rest.clock);
        *self.below_failed.lock() = rest.below_failed.map(Errno::from_raw_os_error);
        self.has_lost_stores
            .store(rest.has_lost_stores, Ordering::Relaxed);
        self.is_given_up.store(rest.is_given_up, Ordering::Relaxed);
        self.create_retries.go_on_from(rest.creates);
        for inode in self.inodes.all() {
            inode.leave(&inode.data.lock(), &self.room);
        }
        Ok(())
    }
}

fn missing(what: &str) -> io::Error {
    let why = format!("the process that serves has not sent {what}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}
