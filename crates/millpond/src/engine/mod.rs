//! The engine: it steps the state machine of `millpond-core` and does what that asks for, with real memory, threads and
//! devices.

pub(crate) mod background;
pub(crate) mod budget;
pub(crate) mod calibration;
pub(crate) mod clock;
pub(crate) mod driver;
mod facts;
pub(crate) mod poison;
