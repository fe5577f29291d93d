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
use super::{FormatError, VERSION, checksum};

const COMMIT_MAGIC: [u8; 4] = *b"MPVm";
const CHECKPOINT_MAGIC: [u8; 4] = *b"MPVk";
const FLAG_CLOSED: u16 = 1;

/// Of a commit, as many bytes say how long its head is.
pub const PREFIX_BYTES: usize = 16;

/// A commit, without the pages behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Its number.
    pub number: u64,
    /// The writer's epoch.
    pub epoch: u32,
    /// The writer's own number, drawn at random: tells it from others that wanted the same epoch.
    pub nonce: u128,
    /// Checksum of the head before; zero for commit 1.
    pub previous: u64,
    /// The newest checkpoint, by commit and epoch, when this was made; 0: there is none.
    pub checkpoint: (u64, u32),
    /// Bytes of a page, the same in all commits of a store.
    pub page_bytes: u32,
    /// How long what was superseded stays, in milliseconds, the same in all commits of a store.
    pub grace_ms: u64,
    /// Milliseconds since 1970, by the writer's clock: for people.
    pub at_unix_ms: u64,
    /// The writer is done: the next needs not take over.
    pub closed: bool,
    /// The writer, for people: its host and process.
    pub owner: String,
    /// What changes.
    pub ops: Vec<Op>,
}

impl Commit {
    /// The head as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(COMMIT_MAGIC.to_vec());
        out.u16(VERSION);
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

    /// Bytes of the head that begins with these [`PREFIX_BYTES`] or more.
    ///
    /// # Errors
    /// If they begin no commit.
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

    /// A commit from its head, and the head's checksum, which the next commit names. Bytes behind the head are ignored.
    ///
    /// # Errors
    /// If they are no commit, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Commit, u64), FormatError> {
        let head = bytes
            .get(..Commit::head_bytes(bytes)?)
            .ok_or(FormatError::Length)?;
        let mut from = Reader::unsealed(head)?;
        from.magic(COMMIT_MAGIC)?;
        from.u16()?;
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
        Ok((commit, checksum(head)))
    }
}

/// All that holds as of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The commit.
    pub number: u64,
    /// The epoch of the writer.
    pub epoch: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// What leads there from nothing.
    pub ops: Vec<Op>,
}

impl Checkpoint {
    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(CHECKPOINT_MAGIC.to_vec());
        out.u16(VERSION);
        out.u64(self.number);
        out.u32(self.epoch);
        out.u32(self.page_bytes);
        op::write_all(&self.ops, &mut out);
        out.sealed()
    }

    /// From what is stored.
    ///
    /// # Errors
    /// If it is no checkpoint, or damaged.
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
        Ok(Checkpoint {
            number: from.u64()?,
            epoch: from.u32()?,
            page_bytes: from.u32()?,
            ops: op::read_all(&mut from)?,
        })
    }
}
