//! Which thread holds which page by a guard, with debug assertions on: a call that would wait for a guard of
//! its own thread is then an error at once, instead of a wait for ever.
//!
//! A guard may go to another thread. It belongs to the last thread that made it or looked at its bytes.
//! Without debug assertions nothing is noted, and the watchdog names the page.

#[cfg(debug_assertions)]
pub(crate) use noted::{OwnGuard, held};
#[cfg(not(debug_assertions))]
pub(crate) use unnoted::{OwnGuard, held};

/// What a call would wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// Threads that change a page.
    ForWriters,
    /// Threads that read it as well.
    ForAll,
}

#[cfg(debug_assertions)]
mod noted {
    use super::Waits;
    use crate::sys::forks::OfProcess;
    use millpond_core::units::{FileId, PageIndex, PageKey};
    use std::collections::BTreeMap;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// By table (its address), file and page: guards of different caches are kept apart.
    type At = (usize, u32, u64);

    static GUARDS: OfProcess<BTreeMap<At, Vec<Arc<Noted>>>> = OfProcess::new();

    #[derive(Debug)]
    struct Noted {
        thread: AtomicU64,
        changes: bool,
    }

    /// A guard is there, until this is dropped.
    #[derive(Debug)]
    pub(crate) struct OwnGuard {
        at: At,
        noted: Arc<Noted>,
    }

    impl OwnGuard {
        pub(crate) fn new<T>(table: &T, key: PageKey, changes: bool) -> OwnGuard {
            let at = (std::ptr::from_ref(table).addr(), key.file().0, key.index().0);
            let thread = AtomicU64::new(this_thread());
            let noted = Arc::new(Noted { thread, changes });
            GUARDS.lock().entry(at).or_default().push(noted.clone());
            OwnGuard { at, noted }
        }

        /// The calling thread looks at the page.
        pub(crate) fn is_used(&self) {
            self.noted.thread.store(this_thread(), Ordering::Relaxed);
        }

        /// The calling thread gives the guard to another, which has not looked at it yet.
        #[cfg(feature = "tokio")]
        pub(crate) fn hand_on(&self) {
            self.noted.thread.store(NO_THREAD, Ordering::Relaxed);
        }
    }

    impl Drop for OwnGuard {
        fn drop(&mut self) {
            let mut guards = GUARDS.lock();
            if let Some(list) = guards.get_mut(&self.at) {
                list.retain(|noted| !Arc::ptr_eq(noted, &self.noted));
                if list.is_empty() {
                    guards.remove(&self.at);
                }
            }
        }
    }

    /// A page among these whose guard the calling thread holds and would wait for.
    pub(crate) fn held<T>(table: &T, file: FileId, pages: Range<u64>, waits: Waits) -> Option<PageIndex> {
        if pages.is_empty() {
            return None;
        }
        let at = |page| (std::ptr::from_ref(table).addr(), file.0, page);
        let thread = this_thread();
        let is_own = |noted: &Arc<Noted>| {
            noted.thread.load(Ordering::Relaxed) == thread && (noted.changes || waits == Waits::ForAll)
        };
        let guards = GUARDS.lock();
        let mut among = guards.range(at(pages.start)..at(pages.end));
        among
            .find(|(_, list)| list.iter().any(is_own))
            .map(|(&(_, _, page), _)| PageIndex(page))
    }

    #[cfg(feature = "tokio")]
    const NO_THREAD: u64 = u64::MAX;

    fn this_thread() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        // At the end of a thread the record has no owner.
        OWN.try_with(|own| *own).unwrap_or(0)
    }
}

#[cfg(not(debug_assertions))]
mod unnoted {
    use super::Waits;
    use millpond_core::units::{FileId, PageIndex, PageKey};
    use std::ops::Range;

    #[derive(Debug)]
    pub(crate) struct OwnGuard;

    impl OwnGuard {
        #[inline]
        pub(crate) fn new<T>(_: &T, _: PageKey, _: bool) -> OwnGuard {
            OwnGuard
        }

        #[inline]
        pub(crate) fn is_used(&self) {}

        #[cfg(feature = "tokio")]
        #[inline]
        pub(crate) fn hand_on(&self) {}
    }

    #[inline]
    pub(crate) fn held<T>(_: &T, _: FileId, _: Range<u64>, _: Waits) -> Option<PageIndex> {
        None
    }
}
