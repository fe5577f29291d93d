//! Traces from other sources: requests to a disk or a cache, converted to requests for pages.
//!
//! ```text
//!   bytes ──► format, by name and content ──► requests ──► uses of pages        for models
//!               │                                └───────► calls of a thread     for the simulator
//!               ├─ binary  u32, oracle-general                          record by record
//!               └─ text    pages, msr, blkparse                         line by line
//! ```
//!
//! A block request is split into the pages that it touches. A write keeps the uncovered part of its first and last
//! page, so these are needed; the pages between need no read. Formats that name objects instead of addresses have one
//! page per object. Times are dropped: requests come one after the other. The caller reads and unpacks files.

mod binary;
mod block;
mod detect;
mod requests;
#[cfg(test)]
mod tests;
mod text;

pub use detect::BEGIN;
pub use requests::{Kind, Request, Requests};

use crate::unknown::UnknownName;
use millpond_core::units::PageSize;
use requests::Builder;
use std::path::Path;
use std::str::FromStr;

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Page numbers of 32 bits, little endian.
    U32,
    /// Page numbers as text, one a line.
    Pages,
    /// libCacheSim's records of 24 bytes: time, object, size, next access.
    OracleGeneral,
    /// Microsoft Research Cambridge's block traces.
    Msr,
    /// The output of blktrace's `blkparse`.
    Blkparse,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] = [
        Format::U32,
        Format::Pages,
        Format::OracleGeneral,
        Format::Msr,
        Format::Blkparse,
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Format::U32 => "u32",
            Format::Pages => "pages",
            Format::OracleGeneral => "oracle-general",
            Format::Msr => "msr",
            Format::Blkparse => "blkparse",
        }
    }

    /// Names of all, separated by commas.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// By the name of a file, if that is enough.
    pub fn of_name(path: &Path) -> Option<Format> {
        detect::by_name(path)
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Format, UnknownName> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownName {
            what: "format",
            value: name.into(),
            allowed: Format::names(),
        })
    }
}

/// The meaning of the numbers in `oracle-general`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// Objects: a page each, whatever their size.
    Object,
    /// Blocks of 512 bytes: the first of a request.
    Sector,
    /// Bytes: where a request begins.
    Byte,
}

impl FromStr for Ids {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Ids, UnknownName> {
        match name {
            "object" => Ok(Ids::Object),
            "sector" => Ok(Ids::Sector),
            "byte" => Ok(Ids::Byte),
            _ => Err(UnknownName {
                what: "kind of id",
                value: name.into(),
                allowed: "object, sector, byte".into(),
            }),
        }
    }
}

/// The options for reading.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The format; `None`: what name and content say.
    pub format: Option<Format>,
    /// The size of the pages that requests are split into.
    pub page_size: PageSize,
    /// The meaning of ids; `None`: objects.
    pub ids: Option<Ids>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: None,
            page_size: PageSize::KIB_4,
            ids: None,
        }
    }
}

/// The format: what the options say, else the name, else the content, of which the first [`BEGIN`] bytes count.
///
/// # Errors
/// If neither says it.
pub fn format_of(path: &Path, bytes: &[u8], options: &Options) -> Result<Format, String> {
    let format = options.format.or_else(|| detect::by_name(path));
    format.or_else(|| detect::by_content(bytes)).ok_or_else(|| {
        format!(
            "it is no trace that is known: neither its name nor its content say which of these it is: {}",
            Format::names()
        )
    })
}

/// Reads the bytes of a trace, of a file of that name.
///
/// # Errors
/// The mistake, with the line or record.
pub fn parse(name: &Path, bytes: &[u8], options: &Options) -> Result<Requests, String> {
    let format = format_of(name, bytes, options)?;
    let mut to = Builder::new(options.page_size);
    match format {
        Format::U32 => binary::u32(bytes, &mut to)?,
        Format::OracleGeneral => binary::oracle_general(bytes, options.ids, &mut to)?,
        Format::Pages => text::each_line(bytes, |line| to.page(text::number(line, "the page")?))?,
        Format::Msr => block::msr(bytes, &mut to)?,
        Format::Blkparse => block::blkparse(bytes, &mut to)?,
    }
    Ok(to.finish(format))
}
