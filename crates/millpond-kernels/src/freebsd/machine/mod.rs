//! The machine of Dillon 2000: FreeBSD of 2000 as a news server, in virtual time.
//!
//! ```text
//!   readers ── pages? ──► memory: active, inactive, cache, free  ◄── pageout daemon (of 2016 on: and laundry thread)
//!     │ 8 MB/s of articles, own data, history                            │ decisions: the rules beside it
//!     ▼                                                                  ▼ clusters
//!   disk: one actuator, a one-way elevator, reads and writes alike ◄────┘
//! ```
//!
//! A machine of its own, as that of the Linux of 2011 is (decision 0007): the daemon writes from the end of the queue and
//! sleeps in the middle of a scan, and a thread that changes a page being written waits for it. What a page's fate is, how
//! many are written, what counts as short: all that the rules decide. Beside the news there are two small loads on the same
//! machine: one writer of a huge file among readers, and memory that is nothing but dirty.

mod counters;
mod daemon;
mod deadlock;
mod disk;
mod launder;
mod look;
mod memory;
mod modern;
mod options;
mod reader;
mod run;
mod scheduler;
mod stream;

pub use counters::{Counters, Noted};
pub use deadlock::{Stuck, stuck};
pub use options::{MachineOptions, News};
pub use reader::skewed;
pub use run::{Ran, run};
pub use scheduler::Machine;
pub use stream::{StreamOptions, Streamed, stream};
