//! How a command gets at a store.
//!
//! A command that changes a store looks at it first, as a reader that writes nothing: a mistyped address is an error then,
//! and not a new store.

use crate::failure::Failure;
use millpond_volumes::layout::ReadError;
use millpond_volumes::{Error, Pinning, Store, StoreOptions, StoreReader};
use std::time::Duration;

/// What stays as it is while it is read.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Options of all commands.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Access {
    /// The server, if it is not Amazon's: http://host:port. As AWS_ENDPOINT_URL does.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// If the newest commit is damaged or lost, take the store as of the newest one that is whole.
    #[arg(long)]
    salvage: bool,
}

impl Access {
    pub(crate) fn options(&self) -> StoreOptions {
        let options = StoreOptions::new().salvage(self.salvage);
        match &self.endpoint {
            Some(endpoint) => options.endpoint(endpoint),
            None => options,
        }
    }

    /// A look at the store as it is: puts nothing there, not even a pin.
    pub(crate) fn look(&self, url: &str, snapshot: Option<&str>) -> Result<StoreReader, Failure> {
        self.read(url, snapshot, Pinning::Never)
    }

    /// For a reading that takes its time: of one commit, which is kept from being deleted if this user may put a pin.
    pub(crate) fn hold(&self, url: &str, snapshot: Option<&str>) -> Result<StoreReader, Failure> {
        self.read(url, snapshot, Pinning::IfAllowed)
    }

    /// The same, of which the one that was opened last is used again.
    pub(crate) fn hold_again(
        &self,
        open: &mut Option<(String, StoreReader)>,
        url: &str,
        snapshot: Option<&str>,
    ) -> Result<StoreReader, Failure> {
        if let Some((_, reader)) = open.as_ref().filter(|(of, _)| of == url) {
            return Ok(reader.clone());
        }
        let reader = self.hold(url, snapshot)?;
        *open = Some((url.to_owned(), reader.clone()));
        Ok(reader)
    }

    fn read(&self, url: &str, snapshot: Option<&str>, pinning: Pinning) -> Result<StoreReader, Failure> {
        let options = self.options().pinning(pinning).poll(NEVER);
        let options = match snapshot {
            Some(name) => options.snapshot(name),
            None => options,
        };
        let reader = StoreReader::open(url, options).map_err(|error| Failure::of(url, &error))?;
        if let Some(salvaged) = reader.salvaged() {
            say!(
                "millpond: {url} as of commit {}; what is behind it, up to {}, is left out: {}",
                salvaged.commit,
                salvaged.newest,
                salvaged.why
            );
        }
        Ok(reader)
    }

    /// Opens a store that is there for writing.
    pub(crate) fn write(&self, url: &str) -> Result<Store, Failure> {
        self.look(url, None)?;
        self.open(url, self.options())
    }

    /// The same, to remove files. Of a store with a tree only those that are at no path.
    pub(crate) fn remove_files(&self, url: &str, names: &[(String, String)]) -> Result<Store, Failure> {
        let store = self.write(url)?;
        let without_path = store.without_path();
        match names.iter().all(|(_, name)| without_path.contains(name)) {
            true => Ok(store),
            false => files_only(url, store),
        }
    }

    /// The same, and makes one where none is.
    pub(crate) fn make(&self, url: &str, page_bytes: Option<u32>) -> Result<Store, Failure> {
        let options = match page_bytes {
            Some(bytes) => self.options().page_bytes(bytes),
            None => self.options(),
        };
        let looked = StoreReader::open(url, self.options().pinning(Pinning::Never));
        let is_new = matches!(looked, Err(Error::Reader(ReadError::Empty)));
        if let (Err(error), false) = (&looked, is_new) {
            return Err(Failure::of(url, error));
        }
        drop(looked);
        let store = self.open(url, options)?;
        if is_new {
            say!("millpond: made a store at {url}");
        }
        files_only(url, store)
    }

    /// Takes a store from the writer that has not closed it.
    pub(crate) fn take_over(&self, url: &str) -> Result<Store, Failure> {
        self.open(url, self.options().take_over(true))
    }

    fn open(&self, url: &str, options: StoreOptions) -> Result<Store, Failure> {
        Store::open(url, options).map_err(|error| Failure::of(url, &error))
    }
}

/// A store with a tree has its files under other names, and attributes with them.
fn files_only(url: &str, store: Store) -> Result<Store, Failure> {
    if !store.tree(|tree| tree.is_there()) {
        return Ok(store);
    }
    close(url, &store)?;
    Err(Failure::failed(format!(
        "{url} was mounted for writing, and has directories and attributes: change its files in a mount, `millpond store mount {url} MNT`"
    )))
}

/// Commits what was changed, and closes the store.
pub(crate) fn close(url: &str, store: &Store) -> Result<(), Failure> {
    let closed = store.close();
    closed.map_err(|error| match error.is_fenced() {
        true => Failure::of(url, &error),
        false => Failure::unsettled(url, &error),
    })
}
