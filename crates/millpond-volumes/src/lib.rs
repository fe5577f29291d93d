//! Files whose pages live in an object store: one fenced writer, any number of readers on other machines.
//!
//! # Modules, in rows
//!
//! ```text
//!   3  layout      what a writer and a reader ask of a store, as pure state machines
//!   2  format      the objects of a store, byte by byte
//!   1  mutation    deliberate mistakes, for tests of the tests
//! ```

pub mod format;
pub mod layout;
pub mod mutation;
