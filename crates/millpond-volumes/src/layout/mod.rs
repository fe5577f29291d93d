//! The layout as state machines: answers of a store in, requests to it out. No I/O, clock, thread or randomness.
//!
//! ```text
//!                  write, sync, answered, tick
//!   driver ───────────────────────────────────────► Writer, Reader
//!     ▲                                                   │
//!     └──── requests, each with its number; told ◄────────┘
//! ```
//!
//! A [`Writer`] has a store to itself: it creates the commit after the newest one, which only one writer can. A
//! [`Reader`] reads the state as of a commit, and follows. Both get the time with each call, and are called again at
//! `next_tick`.
//!
//! # What makes it safe
//!
//! 1. **A commit is created, never changed.** Two writers that want the same number can't both have it. The one that
//!    fails is fenced, for good.
//! 2. **Everything a commit names is in the store before it**: chunks first. A reader that has a commit can read all of
//!    it.
//! 3. **An unknown outcome is resolved**: the same bytes are put again under the same name, or the existing object is
//!    read.
//! 4. **The newest commit is never deleted, and no other one before a grace has passed since it was superseded.** So a
//!    number that was taken once and is free again is seen only more than a grace after it was the newest. A writer
//!    that has not confirmed for half a grace that its commit is the newest asks for newer ones before it trusts
//!    anything. A reader's pin keeps everything after its commit; a reader whose pin was not renewed for a grace starts
//!    over.
//! 5. **Names are not used twice**: a chunk carries the epoch of its writer, which is later than that of any existing
//!    object. An existing object under a name is ours if it has our bytes, not because of its name. What a delayed
//!    request brings back is garbage, or fails its checksum.
//! 6. **Losses are noticed.** A store that has lost commits, or what its newest commit needs, is not treated as an
//!    empty or an older store, unless that is requested.

mod head;
mod load;
mod loaded;
mod options;
mod places;
mod reader;
mod requests;
mod salvage;
mod state;
mod writer;

pub use loaded::{LastWriter, LoadError};
pub use options::WriterOptions;
pub use places::Places;
pub use reader::{At, Pinning, ReadError, Reader, ReaderOptions, ReaderTold};
pub use requests::{Answer, Body, Listed, Numbered, Refusal, Request, RequestId};
pub use salvage::Salvaged;
pub use state::{File, Place, Snapshot, State, StateError};
pub use writer::{Fence, Lost, OpenError, SyncError, Ticket, Told, Uncommitted, Usage, WriteError, Writer};
