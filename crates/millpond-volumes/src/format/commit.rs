//! Commits and checkpoints.
//!
//! ```text
//!   commit      ├ head: who, what it follows, changes, checksum ┤├ pages of a small sync, each with its checksum ┤
//!   checkpoint  ├ the same without pages ───────────────────────┤
//! ```
//!
//! A head stores its own length in its first bytes, so that it can be read without the pages after it.

use super::op::{self, Op};
use super::wire::{Reader, Writer};
use super::{FormatError, VERSION, VERSION_WITHOUT_RECORDS, checksum};

const COMMIT_MAGIC: [u8; 4] = *b"MPVm";
const CHECKPOINT_MAGIC: [u8; 4] = *b"MPVk";
const FLAG_CLOSED: u16 = 1;

/// The number of leading bytes of a commit that tell how long its head is.
pub const PREFIX_BYTES: usize = 16;

fn version_of(ops: &[Op]) -> u16 {
    match ops.iter().any(|op| matches!(op, Op::Record { .. })) {
        true => VERSION,
        false => VERSION_WITHOUT_RECORDS,
    }
}

/// A version says whether there are records, and nothing else.
fn check_version(version: u16, ops: &[Op]) -> Result<(), FormatError> {
    match version == version_of(ops) {
        true => Ok(()),
        false => Err(FormatError::Value("version")),
    }
}

/// A commit without the pages after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Its number.
    pub number: u64,
    /// The writer's epoch.
    pub epoch: u32,
    /// The writer's random number, which distinguishes it from others that tried to take the same epoch.
    pub nonce: u128,
    /// Checksum of the previous head; zero for commit 1.
    pub previous: u64,
    /// The newest checkpoint when this was made, by commit and epoch; commit 0 if there is none.
    pub checkpoint: (u64, u32),
    /// Page size in bytes, the same in all commits of a store.
    pub page_bytes: u32,
    /// How long superseded objects are kept, in milliseconds, the same in all commits of a store.
    pub grace_ms: u64,
    /// Milliseconds since 1970, by the writer's clock. For people.
    pub at_unix_ms: u64,
    /// The writer is done: the next one need not take over.
    pub closed: bool,
    /// The writer's host and process. For people.
    pub owner: String,
    /// The changes.
    pub ops: Vec<Op>,
}

impl Commit {
    /// The stored form of the head.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(COMMIT_MAGIC.to_vec());
        out.u16(version_of(&self.ops));
        out.u16(if self.closed { FLAG_CLOSED } else { 0 });
        // The length of the head, which is known at the end.
        out.u64(0);
        out.u64(self.number);
        out.u32(self.epoch);
        out.u64(self.nonce as u64);
        out.u64((self.nonce >> 64) as u64);
        out.u64(self.previous);
        out.u64(self.checkpoint.0);
        out.u32(self.checkpoint.1);
        out.u32(self.page_bytes);
        out.u64(self.grace_ms);
        out.u64(self.at_unix_ms);
        out.text(&self.owner);
        op::write_all(&self.ops, &mut out);
        let len = out.0.len() + 8;
        out.0[8..16].copy_from_slice(&(len as u64).to_le_bytes());
        out.sealed()
    }

    /// The length of the head that starts with these bytes, at least [`PREFIX_BYTES`] of them.
    ///
    /// # Errors
    /// If they are not the start of a commit.
    pub fn head_bytes(bytes: &[u8]) -> Result<usize, FormatError> {
        let mut from = Reader(bytes);
        from.magic(COMMIT_MAGIC)?;
        let version = from.u16()?;
        if version == 0 || version > VERSION {
            return Err(FormatError::Version(version));
        }
        from.u16()?;
        usize::try_from(from.u64()?).map_err(|_| FormatError::Length)
    }

    /// Decodes a commit from its head. Also returns the head's checksum, which the next commit names. Bytes after the
    /// head are ignored.
    ///
    /// # Errors
    /// If the bytes are not a commit, or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Commit, u64), FormatError> {
        let head = bytes
            .get(..Commit::head_bytes(bytes)?)
            .ok_or(FormatError::Length)?;
        let mut from = Reader::unsealed(head)?;
        from.magic(COMMIT_MAGIC)?;
        let version = from.u16()?;
        let flags = from.u16()?;
        from.u64()?;
        let commit = Commit {
            number: from.u64()?,
            epoch: from.u32()?,
            nonce: u128::from(from.u64()?) | u128::from(from.u64()?) << 64,
            previous: from.u64()?,
            checkpoint: (from.u64()?, from.u32()?),
            page_bytes: from.u32()?,
            grace_ms: from.u64()?,
            at_unix_ms: from.u64()?,
            closed: flags & FLAG_CLOSED != 0,
            owner: from.text()?,
            ops: op::read_all(&mut from)?,
        };
        if flags & !FLAG_CLOSED != 0 {
            return Err(FormatError::Value("flag"));
        }
        check_version(version, &commit.ops)?;
        Ok((commit, checksum(head)))
    }
}

/// The complete state as of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The commit.
    pub number: u64,
    /// The epoch of the writer.
    pub epoch: u32,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// The changes that lead there from nothing.
    pub ops: Vec<Op>,
}

impl Checkpoint {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(CHECKPOINT_MAGIC.to_vec());
        out.u16(version_of(&self.ops));
        out.u64(self.number);
        out.u32(self.epoch);
        out.u32(self.page_bytes);
        op::write_all(&self.ops, &mut out);
        out.sealed()
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// If it is not a checkpoint, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Checkpoint, FormatError> {
        let mut from = Reader(bytes);
        from.magic(CHECKPOINT_MAGIC)?;
        let version = from.u16()?;
        if version == 0 || version > VERSION {
            return Err(FormatError::Version(version));
        }
        let mut from = Reader::unsealed(bytes)?;
        from.magic(CHECKPOINT_MAGIC)?;
        from.u16()?;
        let checkpoint = Checkpoint {
            number: from.u64()?,
            epoch: from.u32()?,
            page_bytes: from.u32()?,
            ops: op::read_all(&mut from)?,
        };
        check_version(version, &checkpoint.ops)?;
        Ok(checkpoint)
    }
}
