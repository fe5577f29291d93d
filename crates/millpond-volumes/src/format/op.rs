//! The changes in a commit. A checkpoint is the same: the changes from nothing to the complete state.

use super::wire::{Reader, Writer};
use super::{FormatError, ObjectId};
use std::sync::Arc;

/// A file's number in its store. A new file gets a number that was never used.
pub type FileNo = u64;

/// The location of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageEntry {
    /// The page of the file.
    pub page: u64,
    /// The object that contains it.
    pub object: ObjectId,
    /// Offset in the object.
    pub offset: u32,
    /// Length in the object.
    pub bytes: u32,
    /// How many of these bytes belong to the page. The rest of the page is zeros, because the file was cut there.
    pub kept: u32,
    /// Checksum of these bytes.
    pub checksum: u64,
}

/// A record's key or value.
pub type RecordBytes = Arc<[u8]>;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Creates an empty file.
    Create {
        /// Its number.
        file: FileNo,
        /// Its name, which no other file has.
        name: String,
    },
    /// Renames a file. A file that had the new name is removed.
    Rename {
        /// The file.
        file: FileNo,
        /// The new name.
        name: String,
    },
    /// Removes a file.
    Remove {
        /// The file.
        file: FileNo,
    },
    /// Sets a file's length. Pages past it are gone.
    Length {
        /// The file.
        file: FileNo,
        /// The length in bytes.
        bytes: u64,
    },
    /// Zeroes pages.
    Punch {
        /// The file.
        file: FileNo,
        /// The first page.
        from: u64,
        /// The first page that stays.
        to: u64,
    },
    /// Changes the location of pages.
    Pages {
        /// The file.
        file: FileNo,
        /// The pages, ascending.
        entries: Vec<PageEntry>,
    },
    /// Keeps the state as of a commit, with its pages, under a name.
    Snapshot {
        /// The name, which no other snapshot has.
        name: String,
        /// The commit, whose checkpoint is kept too.
        number: u64,
        /// The epoch of that checkpoint.
        epoch: u32,
    },
    /// Drops a snapshot.
    DropSnapshot {
        /// Its name.
        name: String,
    },
    /// The next new file gets at least this number. In checkpoints only.
    NextFile {
        /// The number.
        file: FileNo,
    },
    /// Sets a record, or removes it. What the records mean is of no concern to a store: a mount has names and attributes
    /// in them.
    Record {
        /// Its key.
        key: RecordBytes,
        /// Its value; `None`: there is no such record.
        value: Option<RecordBytes>,
    },
}

impl Op {
    pub(super) fn write(&self, out: &mut Writer) {
        match self {
            Op::Create { file, name } => {
                out.u8(1);
                out.u64(*file);
                out.text(name);
            }
            Op::Rename { file, name } => {
                out.u8(2);
                out.u64(*file);
                out.text(name);
            }
            Op::Remove { file } => {
                out.u8(3);
                out.u64(*file);
            }
            Op::Length { file, bytes } => {
                out.u8(4);
                out.u64(*file);
                out.u64(*bytes);
            }
            Op::Punch { file, from, to } => {
                out.u8(5);
                out.u64(*file);
                out.u64(*from);
                out.u64(*to);
            }
            Op::Pages { file, entries } => {
                out.u8(6);
                out.u64(*file);
                out.u32(entries.len() as u32);
                for entry in entries {
                    out.u64(entry.page);
                    out.u64(entry.object.bits());
                    out.u32(entry.offset);
                    out.u32(entry.bytes);
                    out.u32(entry.kept);
                    out.u64(entry.checksum);
                }
            }
            Op::Snapshot { name, number, epoch } => {
                out.u8(7);
                out.text(name);
                out.u64(*number);
                out.u32(*epoch);
            }
            Op::DropSnapshot { name } => {
                out.u8(8);
                out.text(name);
            }
            Op::NextFile { file } => {
                out.u8(9);
                out.u64(*file);
            }
            Op::Record { key, value } => {
                out.u8(if value.is_some() { 10 } else { 11 });
                out.bytes(key);
                if let Some(value) = value {
                    out.bytes(value);
                }
            }
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Op, FormatError> {
        Ok(match from.u8()? {
            1 => Op::Create {
                file: from.u64()?,
                name: from.text()?,
            },
            2 => Op::Rename {
                file: from.u64()?,
                name: from.text()?,
            },
            3 => Op::Remove { file: from.u64()? },
            4 => Op::Length {
                file: from.u64()?,
                bytes: from.u64()?,
            },
            5 => Op::Punch {
                file: from.u64()?,
                from: from.u64()?,
                to: from.u64()?,
            },
            6 => {
                let file = from.u64()?;
                let count = from.u32()?;
                let entries = (0..count).map(|_| {
                    Ok(PageEntry {
                        page: from.u64()?,
                        object: ObjectId::from_bits(from.u64()?),
                        offset: from.u32()?,
                        bytes: from.u32()?,
                        kept: from.u32()?,
                        checksum: from.u64()?,
                    })
                });
                Op::Pages {
                    file,
                    entries: entries.collect::<Result<_, _>>()?,
                }
            }
            7 => Op::Snapshot {
                name: from.text()?,
                number: from.u64()?,
                epoch: from.u32()?,
            },
            8 => Op::DropSnapshot { name: from.text()? },
            9 => Op::NextFile { file: from.u64()? },
            kind @ (10 | 11) => Op::Record {
                key: from.bytes()?.into(),
                value: match kind {
                    10 => Some(from.bytes()?.into()),
                    _ => None,
                },
            },
            _ => return Err(FormatError::Value("change")),
        })
    }
}

pub(super) fn write_all(ops: &[Op], out: &mut Writer) {
    out.u32(ops.len() as u32);
    ops.iter().for_each(|op| op.write(out));
}

pub(super) fn read_all(from: &mut Reader<'_>) -> Result<Vec<Op>, FormatError> {
    let count = from.u32()?;
    let ops: Result<Vec<_>, _> = (0..count).map(|_| Op::read(from)).collect();
    ops.and_then(|ops| from.end().map(|()| ops))
}
