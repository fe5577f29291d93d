//! Names of objects.

use std::fmt;

/// The kind of an object, which is its folder below the prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `c/`
    Chunk,
    /// `m/`
    Commit,
    /// `k/`
    Checkpoint,
    /// `p/`
    Pin,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Chunk, Kind::Commit, Kind::Checkpoint, Kind::Pin];

    /// The folder's name.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Chunk => "c",
            Kind::Commit => "m",
            Kind::Checkpoint => "k",
            Kind::Pin => "p",
        }
    }
}

/// The name of an object below the prefix of its store. Within a kind, names sort as their numbers do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Pages, put by the writer of this epoch.
    Chunk {
        /// The writer's epoch.
        epoch: u32,
        /// A running number within the epoch.
        number: u32,
    },
    /// A commit by its number, from 1 on.
    Commit(u64),
    /// The complete state as of a commit.
    Checkpoint {
        /// The commit.
        number: u64,
        /// The writer's epoch, so that a writer that has lost its fence uses another name than the one that has it.
        epoch: u32,
    },
    /// What a reader still reads.
    Pin(u64),
}

impl Key {
    /// Its kind.
    pub fn kind(self) -> Kind {
        match self {
            Key::Chunk { .. } => Kind::Chunk,
            Key::Commit(_) => Kind::Commit,
            Key::Checkpoint { .. } => Kind::Checkpoint,
            Key::Pin(_) => Kind::Pin,
        }
    }

    /// The key for a name below the prefix; `None` if it is not an object of a store, which is then left alone.
    pub fn parse(name: &str) -> Option<Key> {
        let (folder, rest) = name.split_once('/')?;
        let hex = |text: &str, digits: usize| {
            let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(text, 16).ok())?
        };
        let short = |text: &str| hex(text, 8).and_then(|n| u32::try_from(n).ok());
        let decimal = |text: &str| {
            let is_number = text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse().ok())?
        };
        let key = match folder {
            "c" => {
                let (epoch, number) = rest.split_once('-')?;
                Key::Chunk {
                    epoch: short(epoch)?,
                    number: short(number)?,
                }
            }
            "m" => Key::Commit(decimal(rest)?),
            "k" => {
                let (number, epoch) = rest.split_once('-')?;
                Key::Checkpoint {
                    number: decimal(number)?,
                    epoch: short(epoch)?,
                }
            }
            "p" => Key::Pin(hex(rest, 16)?),
            _ => return None,
        };
        (key.to_string() == name).then_some(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Key::Chunk { epoch, number } => write!(f, "c/{epoch:08x}-{number:08x}"),
            Key::Commit(number) => write!(f, "m/{number:020}"),
            Key::Checkpoint { number, epoch } => write!(f, "k/{number:020}-{epoch:08x}"),
            Key::Pin(reader) => write!(f, "p/{reader:016x}"),
        }
    }
}

/// An object with pages: a chunk, or a commit with pages after its changes. Stored as 64 bits. If the highest is set,
/// the others are the number of a commit; else they are epoch and number of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(u64);

const IS_COMMIT: u64 = 1 << 63;

impl ObjectId {
    /// Epochs are below this, and hence commit numbers below 2^63.
    pub const EPOCH_END: u32 = 1 << 31;

    /// Of a chunk.
    pub fn chunk(epoch: u32, number: u32) -> ObjectId {
        assert!(epoch < Self::EPOCH_END, "epoch {epoch}");
        ObjectId(u64::from(epoch) << 32 | u64::from(number))
    }

    /// Of a commit.
    pub fn commit(number: u64) -> ObjectId {
        assert!(number < IS_COMMIT, "commit {number}");
        ObjectId(IS_COMMIT | number)
    }

    /// Its name.
    pub fn key(self) -> Key {
        match self.0 & IS_COMMIT {
            0 => Key::Chunk {
                epoch: (self.0 >> 32) as u32,
                number: self.0 as u32,
            },
            _ => Key::Commit(self.0 & !IS_COMMIT),
        }
    }

    /// The stored form.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Decodes the stored form.
    pub fn from_bits(bits: u64) -> ObjectId {
        ObjectId(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_key_and_no_other_name_does() {
        let keys = [
            Key::Chunk {
                epoch: 3,
                number: 0xabc,
            },
            Key::Commit(1),
            Key::Checkpoint { number: 64, epoch: 3 },
            Key::Pin(0xfeed),
        ];
        for key in keys {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
        for name in [
            "m/1",
            "c/3-abc",
            "x/1",
            "m",
            "p/FEED",
            "c/00000003-00000ABC",
            "probe",
        ] {
            assert_eq!(Key::parse(name), None, "{name}");
        }
    }

    #[test]
    fn an_object_with_pages_is_a_chunk_or_a_commit() {
        let chunk = ObjectId::chunk(7, 9);
        assert_eq!(chunk.key(), Key::Chunk { epoch: 7, number: 9 });
        assert_eq!(ObjectId::commit(12).key(), Key::Commit(12));
        assert_eq!(ObjectId::from_bits(chunk.bits()), chunk);
    }
}
