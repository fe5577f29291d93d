//! Records what a reader still reads.

use super::wire::{Reader, Writer};
use super::{FormatError, VERSION};

const MAGIC: [u8; 4] = *b"MPVp";

/// A reader's pin: nothing that held as of its commit is deleted while it is renewed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The oldest commit that it reads.
    pub number: u64,
    /// Counts up with each renewal. A pin that stands still is given up by the writer.
    pub beat: u64,
    /// The reader, for people: its host and process.
    pub owner: String,
}

impl Pin {
    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(MAGIC.to_vec());
        out.u16(VERSION);
        out.u64(self.number);
        out.u64(self.beat);
        out.text(&self.owner);
        out.sealed()
    }

    /// From what is stored.
    ///
    /// # Errors
    /// If it is no pin, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Pin, FormatError> {
        let mut from = Reader(bytes);
        from.magic(MAGIC)?;
        let version = from.u16()?;
        if version == 0 || version > VERSION {
            return Err(FormatError::Version(version));
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
