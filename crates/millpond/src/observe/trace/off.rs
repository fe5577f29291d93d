//! Stands in for recording where the feature `trace` is left out: calls report themselves, and nothing records them.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "what only recording looks at, and what is public with it"
)]

mod what;

use std::convert::Infallible;
use std::marker::PhantomData;
pub(crate) use what::What;

/// There is none.
pub(crate) struct Note<'a>(Infallible, PhantomData<&'a ()>);

impl Drop for Note<'_> {
    fn drop(&mut self) {}
}
