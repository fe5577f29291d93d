//! The thread that writes a trace, from the first block to the one that says how it ended.
//!
//! Every quarter of a second, or when a buffer is full, it writes what calls have left. It ends when it is asked to, when the
//! file has the size that it may have, or when the disk takes no more; the file is cut to its last whole block then, and
//! the end goes behind it if there is room for that.

use super::format::{self, Kind};
use super::shards::Sink;
use super::{Calls, Ended, Recorded};
use crate::device::look_at_limit;
use millpond_core::stats::Stats as Counters;
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long accesses stay in memory at most.
const FLUSH: Duration = Duration::from_millis(250);

/// Left for the end in the size that a trace may have.
const END_BYTES: u64 = 1024;

/// A trace that is being written.
pub(super) struct Writer {
    pub(super) calls: Arc<dyn Calls>,
    pub(super) sink: Arc<Sink>,
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The file's length.
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    /// The counters at the beginning.
    pub(super) before: Counters,
    pub(super) began: Instant,
}

impl Writer {
    /// Writes until the end, and reports what the file contains.
    pub(super) fn run(mut self) -> Recorded {
        let mut lost = 0;
        let ended = loop {
            self.sink.wait(FLUSH);
            let stop = self.sink.stop.load(Ordering::Acquire);
            if stop {
                self.calls.set_recorded(false);
            }
            self.calls.shards().flush(stop);
            match self.write_out(&mut lost) {
                Ok(true) if stop => break Ended::Asked,
                Ok(true) => {}
                Ok(false) => break Ended::Size,
                Err(error) => break Ended::Failed(error.to_string()),
            }
        };
        // Accesses after the last take are not part of the trace.
        self.calls.set_recorded(false);
        self.calls.shards().flush(true);
        let took = self.began.elapsed();
        let end = self.end(took, &ended);
        // If there is no room for it, the trace ends without.
        let ended = match (self.append(&end), ended) {
            (Err(error), Ended::Asked | Ended::Size) => Ended::Failed(error.to_string()),
            (_, ended) => ended,
        };
        Recorded {
            path: self.path,
            accesses: self.sink.accesses.load(Ordering::Relaxed),
            lost: self.sink.lost.load(Ordering::Relaxed),
            bytes: self.bytes,
            took,
            ended,
        }
    }

    /// Writes what is there; `false` if the trace may not become that long. `lost`: losses already reported.
    fn write_out(&mut self, lost: &mut u64) -> io::Result<bool> {
        // In this order: the files of these accesses were opened before them.
        let buffers = self.sink.take();
        let mut out = Vec::new();
        for opened in self.sink.take_opened() {
            format::block(&mut out, Kind::File, |out| format::put_opened(out, &opened));
        }
        let mut has_room = self.append_within(&out)?;
        for buffer in buffers {
            let lost_now = self.sink.lost.load(Ordering::Relaxed);
            out.clear();
            format::block(&mut out, Kind::Accesses, |out| {
                format::put_accesses(out, &buffer, lost_now - *lost);
            });
            if has_room {
                has_room = self.append_within(&out)?;
            }
            if has_room {
                *lost = lost_now;
                self.sink
                    .accesses
                    .fetch_add(buffer.len() as u64, Ordering::Relaxed);
            }
            self.sink.give_back(buffer);
        }
        Ok(has_room)
    }

    fn append_within(&mut self, blocks: &[u8]) -> io::Result<bool> {
        if self.bytes + blocks.len() as u64 + END_BYTES > self.bytes_max {
            return Ok(false);
        }
        self.append(blocks).map(|()| true)
    }

    /// Writes whole blocks, or leaves the file as it was.
    pub(super) fn append(&mut self, blocks: &[u8]) -> io::Result<()> {
        if look_at_limit() < self.bytes + blocks.len() as u64 {
            // The beginning is written on the caller's thread, and trying would end the process.
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        if let Err(error) = self.file.write_all(blocks) {
            // If this fails too, a reader of the trace finds the torn block.
            let _ = self.file.set_len(self.bytes);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes));
            return Err(error);
        }
        self.bytes += blocks.len() as u64;
        self.sink.bytes.store(self.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self, took: Duration, ended: &Ended) -> Vec<u8> {
        let (before, now) = (&self.before, self.calls.counters());
        let mut counters = serde_json::Map::new();
        for (name, before, now) in [
            ("pgmajfault", before.pgmajfault, now.pgmajfault),
            ("readahead_pages", before.readahead_pages, now.readahead_pages),
            ("nr_dirtied", before.nr_dirtied, now.nr_dirtied),
            ("nr_written", before.nr_written, now.nr_written),
        ] {
            counters.insert(name.into(), now.saturating_sub(before).into());
        }
        let content = json!({
            "accesses": self.sink.accesses.load(Ordering::Relaxed),
            "lost": self.sink.lost.load(Ordering::Relaxed),
            "took_ns": took.as_nanos() as u64,
            "why": ended.to_string().chars().take(200).collect::<String>(),
            "counters": counters,
        });
        let mut out = Vec::new();
        format::block(&mut out, Kind::End, |out| {
            out.extend_from_slice(content.to_string().as_bytes());
        });
        out
    }
}

/// Why the trace can't be made, and what to do.
pub(super) fn with_a_way_out(source: io::Error) -> io::Error {
    let way_out = match source.kind() {
        io::ErrorKind::AlreadyExists => {
            "a trace needs a new file: give another name, or remove this one".to_owned()
        }
        io::ErrorKind::NotFound => "the cache's process sees no such directory".to_owned(),
        io::ErrorKind::PermissionDenied => format!(
            "the cache's process writes it, and user {} may not make files there",
            rustix::process::geteuid().as_raw()
        ),
        _ => return source,
    };
    io::Error::new(source.kind(), format!("{source}: {way_out}"))
}
