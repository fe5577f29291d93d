//! Reading a trace: its complete part, in time order, with distinct file numbers.
//!
//! A cache reuses the number of a closed file. Here each file keeps one number as long as its device and inode identify
//! it. No input makes this panic, or use more memory than a few tens of times its length.

use super::format::{self, Kind, MAGIC, Opened};
use super::{Access, PAGES_MAX, What};
use millpond_core::units::Nanos;
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a file is not a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It can't be read.
    #[error("can't read {path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It does not begin like a trace.
    #[error("it is not a trace of `millpond record`: it does not begin with MPTRACE")]
    NotATrace,
    /// It has another version.
    #[error("it is a trace of version {0}, and this program knows version 1: use a newer one")]
    Version(u8),
    /// Its first block, which describes the recording, is incomplete.
    #[error("its first block is incomplete: nothing in it can be used")]
    NoBeginning,
}

/// A file in a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TracedFile {
    /// Its path when it was first opened.
    pub path: PathBuf,
    /// Its number of pages: the larger of the number at opening and the number used.
    pub pages: u64,
    /// Whether it is anonymous memory, not a file.
    pub is_region: bool,
}

/// A trace in memory.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Trace {
    /// The page size in bytes.
    pub page_bytes: u64,
    /// The budget of the cache, in bytes, when the recording began.
    pub memory_bytes: u64,
    /// Everything that the trace states about the cache.
    pub about: Value,
    /// The files, in the order of their first opening; [`Access::file`] is an index into this.
    pub files: Vec<TracedFile>,
    /// The accesses in the order of their start times, which count from the start of the recording.
    pub accesses: Vec<Access>,
    /// The number of accesses that could not be kept.
    pub lost: u64,
    /// The trace's end record; `None` if it has none.
    pub end: Option<Value>,
    /// The problem with the rest, if the trace could not be read completely.
    pub torn: Option<String>,
}

impl Trace {
    /// Reads the trace in a file.
    ///
    /// # Errors
    /// [`TraceError`]. A torn trace is read up to the damage ([`Trace::torn`]).
    pub fn read(path: &Path) -> Result<Trace, TraceError> {
        let failed = |source| TraceError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        // First whether it is one: there are files without an end.
        let beginning = MAGIC.len() as u64;
        (&mut file)
            .take(beginning)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if Trace::is_trace(&bytes) {
            file.read_to_end(&mut bytes).map_err(failed)?;
        }
        Trace::parse(&bytes)
    }

    /// Returns whether a file with this beginning is a trace, of any version.
    pub fn is_trace(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC[..7])
    }

    /// Reads a trace from memory.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn parse(bytes: &[u8]) -> Result<Trace, TraceError> {
        if !Trace::is_trace(bytes) || bytes.len() < MAGIC.len() {
            return Err(TraceError::NotATrace);
        }
        if bytes[7] != MAGIC[7] {
            return Err(TraceError::Version(bytes[7]));
        }
        let (kind, content, len) =
            format::first_block(&bytes[MAGIC.len()..]).ok_or(TraceError::NoBeginning)?;
        let about: Value = match kind {
            Kind::About => serde_json::from_slice(content).map_err(|_| TraceError::NoBeginning)?,
            _ => return Err(TraceError::NoBeginning),
        };
        let page_bytes = about["page_bytes"]
            .as_u64()
            .filter(|bytes| bytes.is_power_of_two() && (4096..=65536).contains(bytes))
            .ok_or(TraceError::NoBeginning)?;
        let mut blocks = Blocks::default();
        blocks.read(bytes, MAGIC.len() + len);
        let began = about["began_ns"].as_u64().unwrap_or(0);
        let (files, accesses) = blocks.resolve(began);
        Ok(Trace {
            page_bytes,
            memory_bytes: about["memory_bytes"].as_u64().unwrap_or(0),
            about,
            files,
            accesses,
            lost: blocks.lost,
            end: blocks.end,
            torn: blocks.torn,
        })
    }

    /// Returns the number of distinct pages used, of files and regions.
    pub fn distinct(&self) -> u64 {
        let uses = self.accesses.iter().filter(|access| access.what.is_use());
        let mut runs: Vec<_> = uses
            .map(|a| (a.file, a.page, a.page + u64::from(a.pages)))
            .collect();
        runs.sort_unstable();
        let (mut count, mut known) = (0, (u32::MAX, 0));
        for (file, page, end) in runs {
            let from = if file == known.0 { page.max(known.1) } else { page };
            count += end.saturating_sub(from);
            known = (file, if file == known.0 { end.max(known.1) } else { end });
        }
        count
    }
}

/// What the blocks say, as it stands there.
#[derive(Default)]
struct Blocks {
    opened: Vec<Opened>,
    accesses: Vec<Access>,
    lost: u64,
    end: Option<Value>,
    torn: Option<String>,
}

impl Blocks {
    /// Reads blocks from byte `at` on, as far as they are whole.
    fn read(&mut self, bytes: &[u8], mut at: usize) {
        while at < bytes.len() {
            if self.end.is_some() {
                self.torn = Some(format!("data follows its end, from byte {at} on"));
                return;
            }
            let block = format::first_block(&bytes[at..]);
            let Some(len) = block.and_then(|(kind, content, len)| self.take(kind, content).map(|()| len))
            else {
                let left = bytes.len() - at;
                self.torn = Some(format!(
                    "the block at byte {at} is incomplete: the last {left} bytes are left out"
                ));
                return;
            };
            at += len;
        }
        if self.end.is_none() {
            self.torn = Some("it has no end: the recording was cut off".into());
        }
    }

    fn take(&mut self, kind: Kind, content: &[u8]) -> Option<()> {
        match kind {
            Kind::About => return None,
            Kind::File => self.opened.push(format::opened(content)?),
            Kind::Accesses => {
                let (accesses, lost) = format::accesses(content)?;
                self.accesses.extend(accesses);
                self.lost = self.lost.saturating_add(lost);
            }
            Kind::End => {
                let end: Value = serde_json::from_slice(content).ok()?;
                // Those that were lost after the last block that was written.
                self.lost = self.lost.max(end["lost"].as_u64().unwrap_or(0));
                self.end = Some(end);
            }
        }
        Some(())
    }

    /// The files, and the accesses in order with the numbers of these files. An access to a file that no call
    /// has opened belongs to a file without a name.
    fn resolve(&mut self, began: u64) -> (Vec<TracedFile>, Vec<Access>) {
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.sort_by_key(|access| access.at);
        self.opened.sort_by_key(|opened| opened.at);
        let mut files: Vec<TracedFile> = Vec::new();
        let mut known: HashMap<(u64, u64), u32> = HashMap::new();
        let mut open: HashMap<u32, u32> = HashMap::new();
        let mut opened = self.opened.iter().peekable();
        for access in &mut accesses {
            while let Some(file) = opened.next_if(|file| file.at <= access.at.0) {
                let number = *known.entry(file.identity).or_insert_with(|| {
                    let path = PathBuf::from(OsStr::from_bytes(&file.path));
                    files.push(TracedFile {
                        path,
                        pages: 0,
                        is_region: false,
                    });
                    files.len() as u32 - 1
                });
                let known = &mut files[number as usize];
                known.pages = known.pages.max(file.pages);
                open.insert(file.number, number);
            }
            let is_region = access.what == What::Region;
            let slot = open
                .get(&access.file)
                .copied()
                .filter(|&n| files[n as usize].is_region == is_region);
            let number = slot.unwrap_or_else(|| {
                let what = if is_region { "region" } else { "file" };
                files.push(TracedFile {
                    path: format!("{what} {}", access.file).into(),
                    pages: 0,
                    is_region,
                });
                let number = files.len() as u32 - 1;
                open.insert(access.file, number);
                number
            });
            access.file = number;
            access.at = Nanos(access.at.0.saturating_sub(began));
            if access.what.is_use() {
                let end = access.page + u64::from(access.pages);
                let file = &mut files[number as usize];
                file.pages = file.pages.max(end).min(PAGES_MAX);
            }
        }
        (files, accesses)
    }
}
