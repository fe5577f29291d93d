//! The changes in a commit. A checkpoint is the same: the changes from nothing to the complete state.

use super::wire::{Reader, Writer};
use super::{FormatError, ObjectId};

/// Number of a file in its store. A file that is made has a number that none had before.
pub type FileNo = u64;

/// Where one page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageEntry {
    /// Which page of the file.
    pub page: u64,
    /// The object that has it.
    pub object: ObjectId,
    /// First byte there.
    pub offset: u32,
    /// Bytes there.
    pub bytes: u32,
    /// So many of them are the page's; the rest of the page is zeros, for the file was cut there.
    pub kept: u32,
    /// Of these bytes.
    pub checksum: u64,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// A file is made, empty.
    Create {
        /// Its number.
        file: FileNo,
        /// Its name, which no file has.
        name: String,
    },
    /// A file gets another name. A file that had this one is gone.
    Rename {
        /// Which.
        file: FileNo,
        /// The new name.
        name: String,
    },
    /// A file is gone.
    Remove {
        /// Which.
        file: FileNo,
    },
    /// A file is as long as this. Pages behind are gone.
    Length {
        /// Which.
        file: FileNo,
        /// Bytes.
        bytes: u64,
    },
    /// Pages are zeros.
    Punch {
        /// Which file.
        file: FileNo,
        /// The first page.
        from: u64,
        /// The first that stays.
        to: u64,
    },
    /// Pages are elsewhere than they were.
    Pages {
        /// Which file.
        file: FileNo,
        /// The pages, ascending.
        entries: Vec<PageEntry>,
    },
    /// What holds as of a commit keeps its pages, under a name.
    Snapshot {
        /// The name, which no snapshot has.
        name: String,
        /// The commit, whose checkpoint is kept too.
        number: u64,
        /// The epoch of that checkpoint.
        epoch: u32,
    },
    /// A snapshot is given up.
    DropSnapshot {
        /// Which.
        name: String,
    },
    /// The number that the next file gets is at least this: of checkpoints only.
    NextFile {
        /// It.
        file: FileNo,
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
