//! In the place of recording where the feature `trace` is left out: calls say what they do, and nothing takes it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "what only recording looks at, and what is public with it"
)]

mod what;

use crate::api::file::File;
use crate::engine::driver::Shared;
use crate::files::FileInner;
use millpond_core::units::FileId;
use std::convert::Infallible;
use std::marker::PhantomData;
pub(crate) use what::What;

/// There is none.
pub(crate) struct Note<'a>(Infallible, PhantomData<&'a ()>);

impl Drop for Note<'_> {
    fn drop(&mut self) {}
}

impl Shared {
    pub(crate) fn note_opened(&self, _: &FileInner) {}

    pub(crate) fn note(&self, _: FileId, _: (u64, u64), _: What) -> Option<Note<'_>> {
        None
    }
}

impl File {
    pub(crate) fn note_bytes(&self, _: u64, _: usize, _: bool) -> Option<Note<'_>> {
        None
    }
}
