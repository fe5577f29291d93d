//! A store's usage figures for observers of a cache.

use super::Requests;
use super::reader::{self, StoreReader};
use super::writer::{self, Store, StoreUsage};
use crate::tier::TierUsage;
use millpond::device::{StoreFigure, StoreFigures, StoreValue};
use millpond::units::{Bytes, Nanos};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A store, as long as others have it.
#[derive(Clone, Debug)]
pub(crate) struct WeakStore(Opened);

#[derive(Clone, Debug)]
enum Opened {
    Writer(Weak<writer::Inner>),
    Reader(Weak<reader::Inner>),
}

impl WeakStore {
    pub(crate) fn of_writer(store: &Store) -> WeakStore {
        WeakStore(Opened::Writer(Arc::downgrade(&store.inner)))
    }

    pub(crate) fn of_reader(reader: &StoreReader) -> WeakStore {
        WeakStore(Opened::Reader(Arc::downgrade(&reader.inner)))
    }

    pub(crate) fn is_alive(&self) -> bool {
        match &self.0 {
            Opened::Writer(inner) => inner.strong_count() > 0,
            Opened::Reader(inner) => inner.strong_count() > 0,
        }
    }

    /// Its figures; `None`: it is gone. Costs what [`Store::usage`] costs.
    pub(crate) fn figures(&self) -> Option<StoreFigures> {
        let (name, list, tier) = match &self.0 {
            Opened::Writer(inner) => {
                let inner = inner.upgrade()?;
                let store = Store { inner };
                let list = of_writer(&store.usage(), store.fence().is_some());
                (store.name().to_owned(), list, store.tier())
            }
            Opened::Reader(inner) => {
                let inner = inner.upgrade()?;
                let reader = StoreReader { inner };
                let list = of_reader(&reader.requests(), reader.age());
                (reader.name().to_owned(), list, reader.tier())
            }
        };
        let figures = list.into_iter().chain(tier.iter().flat_map(of_tier));
        let figure = |(name, about, value)| StoreFigure { name, about, value };
        Some(StoreFigures {
            name,
            figures: figures.map(figure).collect(),
        })
    }
}

type Figure = (&'static str, &'static str, StoreValue);

const GET: (&str, &str) = ("get", "Requests that read an object, and their time.");
const READ: (&str, &str) = ("read", "Bytes that were read.");
const FAILED: (&str, &str) = ("failed", "Requests without an answer, or refused.");
const LONGEST: (&str, &str) = ("longest", "The longest request.");
const LISTS: (&str, &str) = ("lists", "Requests for lists of objects.");

/// What a reader has of it.
fn of_reader(requests: &Requests, age: Duration) -> Vec<Figure> {
    use StoreValue::{Time, Timed, Total, TotalBytes};
    let get = Timed(requests.gets, Nanos(requests.get_nanos));
    vec![
        (
            "age",
            "How long ago the commit that is read was known to be the newest.",
            Time(Nanos(age.as_nanos() as u64)),
        ),
        (GET.0, GET.1, get),
        (READ.0, READ.1, TotalBytes(Bytes(requests.get_bytes))),
        (FAILED.0, FAILED.1, Total(requests.failed)),
        (LONGEST.0, LONGEST.1, Time(Nanos(requests.nanos_max))),
        (LISTS.0, LISTS.1, Total(requests.lists)),
    ]
}

fn of_tier(usage: &TierUsage) -> Vec<Figure> {
    use StoreValue::{Bytes as Size, Number, Total, TotalBytes};
    vec![
        ("tier_hits", "Pages read from the disk tier.", Total(usage.hits)),
        (
            "tier_read",
            "Bytes of these pages.",
            TotalBytes(Bytes(usage.hit_bytes)),
        ),
        (
            "tier_written",
            "Bytes written to the disk tier.",
            TotalBytes(Bytes(usage.written_bytes)),
        ),
        (
            "tier_used",
            "Bytes of the disk tier's slots that have a page.",
            Size(Bytes(usage.used_bytes)),
        ),
        (
            "tier_evicted",
            "Pages of the disk tier replaced by others.",
            Total(usage.evicted),
        ),
        (
            "tier_refused",
            "Fetched pages not written to a full disk tier because they had not been used before.",
            Total(usage.refused),
        ),
        (
            "tier_skipped",
            "Fetched pages not written to the disk tier because its disk was slower than the store.",
            Total(usage.skipped),
        ),
        (
            "tier_damaged",
            "Pages of the disk tier that were torn, damaged or unreadable, and fetched again.",
            Total(usage.damaged),
        ),
        (
            "tier_given_up",
            "1: the disk tier failed and is no longer used.",
            Number(usage.given_up.is_some().into()),
        ),
    ]
}

/// What matters most comes first: a screen shows as many as it has room for.
fn of_writer(usage: &StoreUsage, is_fenced: bool) -> Vec<Figure> {
    use StoreValue::{Bytes as Size, Number, Time, Timed, Total, TotalBytes};
    let (layout, requests) = (&usage.layout, &usage.requests);
    let age = Nanos(usage.commit_age.as_nanos() as u64);
    let failures = u64::from(layout.checkpoint_failures) + u64::from(layout.deletion_failures);
    let put = Timed(requests.puts, Nanos(requests.put_nanos));
    let get = Timed(requests.gets, Nanos(requests.get_nanos));
    let needed = layout.live_bytes + layout.checkpoint_bytes;
    let garbage = layout.stored_bytes.saturating_sub(needed);
    vec![
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
        (GET.0, GET.1, get),
        (
            "written",
            "Bytes that were put.",
            TotalBytes(Bytes(requests.put_bytes)),
        ),
        (READ.0, READ.1, TotalBytes(Bytes(requests.get_bytes))),
        (FAILED.0, FAILED.1, Total(requests.failed)),
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
        (LONGEST.0, LONGEST.1, Time(Nanos(requests.nanos_max))),
        (LISTS.0, LISTS.1, Total(requests.lists)),
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
    ]
}
