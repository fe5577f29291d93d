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
//! 5. **Names are not used twice**: chunks have the epoch of their writer. What comes back by a delayed request is
//!    garbage, or checksums tell.

mod load;
mod options;
mod places;
mod reader;
mod requests;
mod state;
mod writer;

pub use load::LoadError;
pub use options::WriterOptions;
pub use places::Places;
pub use reader::{At, ReadError, Reader, ReaderOptions, ReaderTold};
pub use requests::{Answer, Body, Listed, Numbered, Request, RequestId};
pub use state::{File, Place, Snapshot, State, StateError};
pub use writer::{Fence, Lost, OpenError, SyncError, Ticket, Told, Uncommitted, Usage, WriteError, Writer};
