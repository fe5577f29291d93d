//! A store's usage figures for observers of a cache.

use super::writer::{Inner, Store, StoreUsage};
use millpond::device::{StoreFigure, StoreFigures, StoreValue};
use millpond::units::{Bytes, Nanos};
use std::sync::{Arc, Weak};

/// A store, as long as others have it.
#[derive(Clone, Debug)]
pub(crate) struct WeakStore(Weak<Inner>);

impl WeakStore {
    pub(crate) fn new(store: &Store) -> WeakStore {
        WeakStore(Arc::downgrade(&store.inner))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Its figures; `None`: it is gone. Costs what [`Store::usage`] costs.
    pub(crate) fn figures(&self) -> Option<StoreFigures> {
        let store = Store {
            inner: self.0.upgrade()?,
        };
        let name = store.inner.driver.bucket().name.clone();
        let figures = list(&store.usage(), store.fence().is_some());
        Some(StoreFigures { name, figures })
    }
}

/// What matters most comes first: a screen shows as many as it has room for.
fn list(usage: &StoreUsage, is_fenced: bool) -> Vec<StoreFigure> {
    use StoreValue::{Bytes as Size, Number, Time, Timed, Total, TotalBytes};
    let (layout, requests) = (&usage.layout, &usage.requests);
    let age = Nanos(usage.commit_age.as_nanos() as u64);
    let failures = u64::from(layout.checkpoint_failures) + u64::from(layout.deletion_failures);
    let put = Timed(requests.puts, Nanos(requests.put_nanos));
    let get = Timed(requests.gets, Nanos(requests.get_nanos));
    let needed = layout.live_bytes + layout.checkpoint_bytes;
    let garbage = layout.stored_bytes.saturating_sub(needed);
    let figures = [
        (
            "fenced",
            "1: another writer has the store.",
            Number(is_fenced.into()),
        ),
        (
            "commits",
            "Commits that this process has made; opening makes one.",
            Total(usage.commits),
        ),
        (
            "commit_age",
            "How long ago the newest of them was made.",
            Time(age),
        ),
        (
            "uncommitted",
            "What the store has taken and no commit has; what is dirty in the cache is not counted.",
            Size(Bytes(layout.uncommitted_bytes)),
        ),
        ("put", "Requests that store an object, and their time.", put),
        ("get", "Requests that read an object, and their time.", get),
        (
            "written",
            "Bytes that were put.",
            TotalBytes(Bytes(requests.put_bytes)),
        ),
        (
            "read",
            "Bytes that were read.",
            TotalBytes(Bytes(requests.get_bytes)),
        ),
        (
            "failed",
            "Requests without an answer, or refused.",
            Total(requests.failed),
        ),
        (
            "garbage",
            "Stored bytes beyond live pages and checkpoints.",
            Size(Bytes(garbage)),
        ),
        (
            "garbage_objects",
            "Objects that wait to be deleted: for their grace, a reader or a snapshot.",
            Number(layout.garbage_objects),
        ),
        ("live", "Pages that files have.", Size(Bytes(layout.live_bytes))),
        ("longest", "The longest request.", Time(Nanos(requests.nanos_max))),
        ("lists", "Requests for lists of objects.", Total(requests.lists)),
        ("deletes", "Objects that were deleted.", Total(requests.deletes)),
        (
            "cleaned",
            "Live pages that were copied so that the garbage beside them could go.",
            TotalBytes(Bytes(layout.cleaned_bytes)),
        ),
        (
            "failing",
            "Consecutive failures to store a checkpoint, or to list or delete garbage.",
            Number(failures),
        ),
    ];
    let figure = |(name, about, value)| StoreFigure { name, about, value };
    figures.into_iter().map(figure).collect()
}
