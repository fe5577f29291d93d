//! Commits by the clock, of a store whose databases do not sync each transaction.

use millpond_sqlite::folder;
use millpond_volumes::CacheStore;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Commits what no sync has committed, every so often: `commit_ms` in the URI, for `synchronous=normal`.
pub(crate) struct Commits {
    /// Dropped to end it.
    goes_on: Sender<()>,
    thread: JoinHandle<()>,
}

impl Commits {
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(name: &str, store: &Arc<CacheStore>, period: Duration) -> Result<Commits, String> {
        let (goes_on, end) = mpsc::channel();
        let (name, store) = (name.to_owned(), store.clone());
        let work = move || {
            let mut trouble = None;
            while end.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let refused = commit(&store).err();
                if let Some(why) = refused.as_ref().filter(|why| trouble.as_ref() != Some(*why)) {
                    folder::log(&format!(
                        "{name} could not be committed: {why}; it is tried again"
                    ));
                }
                trouble = refused;
            }
        };
        let thread = thread::Builder::new().name("millpond-commit".into()).spawn(work);
        let thread = thread.map_err(|error| format!("no thread to commit: {error}"))?;
        Ok(Commits { goes_on, thread })
    }

    pub(crate) fn end(self) {
        drop(self.goes_on);
        // A panic was told when it came.
        let _ = self.thread.join();
    }
}

/// All that was written before, in one commit.
fn commit(store: &CacheStore) -> Result<(), String> {
    millpond::internal::write_out_all(store.cache()).map_err(|error| error.to_string())?;
    store.store().sync().map_err(|error| error.to_string())
}
