//! Records what a reader still reads.

use super::wire::{Reader, Writer};
use super::{FormatError, VERSION, VERSION_WITHOUT_RECORDS};

const MAGIC: [u8; 4] = *b"MPVp";

/// A reader's pin. While it is renewed, nothing in the state as of its commit is deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The oldest commit that the reader reads.
    pub number: u64,
    /// Increases with each renewal. The writer drops a pin that stays the same.
    pub beat: u64,
    /// The reader's host and process. For people.
    pub owner: String,
}

impl Pin {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(MAGIC.to_vec());
        out.u16(VERSION_WITHOUT_RECORDS);
        out.u64(self.number);
        out.u64(self.beat);
        out.text(&self.owner);
        out.sealed()
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// If it is not a pin, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Pin, FormatError> {
        let mut from = Reader(bytes);
        from.magic(MAGIC)?;
        let version = from.u16()?;
        match version {
            VERSION_WITHOUT_RECORDS => {}
            0 | VERSION => return Err(FormatError::Value("version")),
            newer => return Err(FormatError::Version(newer)),
        }
        let mut from = Reader::unsealed(bytes)?;
        from.magic(MAGIC)?;
        from.u16()?;
        let pin = Pin {
            number: from.u64()?,
            beat: from.u64()?,
            owner: from.text()?,
        };
        from.end().map(|()| pin)
    }
}
