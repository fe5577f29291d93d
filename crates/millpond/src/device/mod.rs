//! Devices.

mod facts;
pub mod model;

pub use facts::DeviceFacts;
