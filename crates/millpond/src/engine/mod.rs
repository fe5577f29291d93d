//! The engine: it steps the state machine of `millpond-core` and does what that asks for, with real memory, threads and
//! devices.

pub(crate) mod background;
pub(crate) mod budget;
pub(crate) mod call_flags;
pub(crate) mod driver;
mod facts;
mod handlers;
pub(crate) mod in_thread;
mod notes;
pub(crate) mod threads;
