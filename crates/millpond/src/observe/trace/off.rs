//! In the place of recording where the feature `trace` is left out: calls say what they do, and nothing takes it.

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
