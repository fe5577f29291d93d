//! The layout as state machines: answers of a store in, requests to it out. No I/O, clock, thread or randomness.
//!
//! ```text
//!                  write, sync, answered, tick
//!   driver ───────────────────────────────────────► Writer, Reader
//!     ▲                                                   │
//!     └──── requests, each with its number; told ◄────────┘
//! ```
//!
//! A [`Writer`] has a store to itself: by creating the commit behind the newest, which one writer alone can. A [`Reader`]
//! reads what held as of a commit, and follows. Both are told the time at each call, and called again at `next_tick`.
//!
//! # What makes it safe
//!
//! 1. **A commit is created, never changed.** Two writers that want the same number can't both have it, and the one
//!    that does not is fenced, for good.
//! 2. **What a commit names is in the store before it**: chunks first. A reader that has a commit can read all of it.
//! 3. **An unknown outcome is found out**: the same bytes are put again under the same name, or what is there is read.
//! 4. **The newest commit is never deleted, and no other before a grace has passed since it was superseded.** So a
//!    number that is free although it was taken once is seen only more than a grace after it was the newest. A writer
//!    that has not known for half a grace that its commit was the newest asks for newer ones before it believes
//!    anything. A reader's pin keeps all behind its commit; one that was not renewed for a grace begins anew.
//! 5. **Names are not used twice**: chunks have the epoch of their writer, which is behind that of anything that is there. An
//!    object that is there already under a name is ours if it has our bytes, and not because of its name. What comes back by a
//!    delayed request is garbage, or checksums tell.
//! 6. **What was lost is noticed.** A store that has lost commits, or what its newest commit needs, is no empty one, and no
//!    older one either, unless that is asked for.

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

pub use loaded::LoadError;
pub use options::WriterOptions;
pub use places::Places;
pub use reader::{At, Pinning, ReadError, Reader, ReaderOptions, ReaderTold};
pub use requests::{Answer, Body, Listed, Numbered, Request, RequestId};
pub use salvage::Salvaged;
pub use state::{File, Place, Snapshot, State, StateError};
pub use writer::{Fence, Lost, OpenError, SyncError, Ticket, Told, Uncommitted, Usage, WriteError, Writer};
