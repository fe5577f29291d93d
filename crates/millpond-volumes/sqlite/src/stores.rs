//! Stores that have databases which are open: each is opened with the first of its files and closed with the last, so that
//! the next process need not take over.

use millpond::internal::quantity;
use millpond::{File, PageCache, device};
use millpond_sqlite::folder::{self, Folder, Folders};
use millpond_volumes::layout::OpenError;
use millpond_volumes::{CacheError, CacheStore, Error, StoreOptions, Volumes};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Of a store that is made, unless its URI says otherwise: a commit puts such pages, whole, of a WAL that SQLite writes 4 KiB
/// of; and the map of the store has an entry for each. `docs/SQLITE.md` has what it costs.
const PAGE_BYTES: u32 = 16 << 10;

/// The largest page of a cache.
const CACHE_PAGE_BYTES_MAX: u32 = 64 << 10;

/// The budget of a store's cache unless the URI says otherwise; as that of files of disks.
const MEMORY_BYTES: u64 = 64 << 20;

/// The stores of the process, by name.
#[derive(Default)]
struct Stores {
    /// One that can't be had is being opened or closed.
    open: Mutex<HashMap<String, Weak<OpenStore>>>,
    changed: Condvar,
    /// Those of the program.
    served: Mutex<HashMap<String, Arc<OpenStore>>>,
}

/// A store that has files which are open.
struct OpenStore {
    store: Arc<CacheStore>,
    /// By which it was opened here, and is closed.
    own: Option<String>,
}

/// All stores.
pub(crate) fn all() -> Arc<dyn Folders> {
    stores()
}

fn stores() -> Arc<Stores> {
    static STORES: OnceLock<Arc<Stores>> = OnceLock::new();
    STORES.get_or_init(Arc::default).clone()
}

/// Gives databases of a store that the program has open: `file:NAME//data.db`, by the VFS `millpond-store`. Its settings
/// and its end are the program's. A name has no slash at its end, and none twice.
pub fn serve(name: &str, store: Arc<CacheStore>) {
    let served = Arc::new(OpenStore { store, own: None });
    lock(&stores().served).insert(name.to_owned(), served);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folders for Stores {
    fn open(
        &self,
        name: &str,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Folder>, String> {
        if let Some(served) = lock(&self.served).get(name) {
            return Ok(served.clone());
        }
        let mut open = lock(&self.open);
        while let Some(known) = open.get(name) {
            match known.upgrade() {
                Some(store) => return Ok(store),
                None => open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner),
            }
        }
        open.insert(name.to_owned(), Weak::new());
        drop(open);
        let opened = open_store(name, parameter);
        let mut open = lock(&self.open);
        let opened = opened.map(|store| {
            Arc::new(OpenStore {
                store: Arc::new(store),
                own: Some(name.to_owned()),
            })
        });
        match &opened {
            Ok(opened) => open.insert(name.to_owned(), Arc::downgrade(opened)),
            Err(_) => open.remove(name),
        };
        self.changed.notify_all();
        Ok(opened?)
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Folder>> {
        if let Some(served) = lock(&self.served).get(name) {
            return Some(served.clone());
        }
        let found = lock(&self.open).get(name)?.upgrade()?;
        Some(found)
    }
}

/// The size of a page as a URI has it.
///
/// # Errors
/// What is allowed.
fn page_bytes_of(text: &str) -> Result<u32, String> {
    let bytes = quantity::parse_size(text)
        .map_err(|why| format!("page_bytes: {why}"))?
        .0;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("page_bytes: {text} is no power of two from 4K to 1M")),
    }
}

/// Opens a store with a cache of its own.
fn open_store(url: &str, parameter: &dyn Fn(&str) -> Option<String>) -> Result<CacheStore, String> {
    let number = |name: &str| {
        let text = parameter(name)?;
        Some(
            text.parse::<u32>()
                .map_err(|_| format!("{name}={text} is no number")),
        )
    };
    let wanted = parameter("page_bytes")
        .map(|text| page_bytes_of(&text))
        .transpose()?;
    let is_on = |name: &str| folder::is_on(parameter, name);
    let delay = number("delay_ms").transpose()?.unwrap_or(0);
    let options = StoreOptions::new()
        .take_over(is_on("take_over")?)
        .salvage(is_on("salvage")?)
        .delay(Duration::from_millis(delay.into()));
    let mut page_bytes = wanted.unwrap_or(PAGE_BYTES);
    loop {
        let volumes = Volumes::new(device::best()).map_err(|error| error.to_string())?;
        let builder = match parameter("memory") {
            None => PageCache::builder().memory(MEMORY_BYTES),
            Some(memory) => folder::with_memory(PageCache::builder(), &memory)?,
        };
        let cache = builder
            .name("sqlite-store")
            .page_size(page_bytes.min(CACHE_PAGE_BYTES_MAX).into())
            .populate(false)
            .control(is_on("control")?)
            .device(volumes.clone())
            .build()
            .map_err(|error| error.to_string())?;
        match volumes.store(&cache, url, options.clone().page_bytes(page_bytes)) {
            Ok(store) => return Ok(store),
            // One that is there has the pages that it has.
            Err(CacheError::Store(Error::Open(OpenError::PageSize(bytes))))
                if wanted.is_none() && bytes != page_bytes =>
            {
                page_bytes = bytes;
            }
            Err(error) => return Err(in_words_of_uris(&error.to_string())),
        }
    }
}

/// A store's message names the options of a program.
fn in_words_of_uris(message: &str) -> String {
    ["take_over", "salvage"]
        .iter()
        .fold(message.to_owned(), |said, option| {
            said.replace(
                &format!("StoreOptions::{option}(true)"),
                &format!("{option}=1 in the URI"),
            )
        })
}

impl Folder for OpenStore {
    fn cache(&self) -> &PageCache {
        self.store.cache()
    }

    fn open(&self, name: &str, creates: bool) -> Result<Option<File>, String> {
        let opened = match self.store.open(name) {
            Err(CacheError::Store(Error::NoFile(_))) if creates => match self.store.create(name) {
                // Another thread has made it.
                Err(CacheError::Store(Error::Write(_))) => self.store.open(name),
                created => created,
            },
            Err(CacheError::Store(Error::NoFile(_))) => return Ok(None),
            opened => opened,
        };
        opened.map(Some).map_err(|error| error.to_string())
    }

    fn len(&self, name: &str) -> Option<u64> {
        self.store.store().open_file(name).ok()?.len().ok()
    }

    fn trouble(&self) -> Option<String> {
        let store = self.store.store();
        let fence = store.fence().map(|fence| fence.to_string());
        fence.or_else(|| store.trouble())
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        let Some(name) = &self.own else { return };
        if let Err(error) = self.store.close() {
            folder::log(&format!("{name} could not be closed: {error}"));
        }
        let stores = stores();
        lock(&stores.open).remove(name);
        stores.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_store_is_opened_once_and_closed_with_the_last_that_has_it() {
        let (url, stores) = ("memory://opened-once", stores());
        assert!(stores.find(url).is_none());
        let (one, same) = (
            stores.open(url, &nothing).ok().unwrap(),
            stores.open(url, &nothing).ok().unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(one.len("data.db"), None);
        assert!(one.open("data.db", false).unwrap().is_none());
        let file = one.open("data.db", true).unwrap().unwrap();
        file.write_at(b"pond", 0).unwrap();
        file.sync_data().unwrap();
        drop((file, one));
        assert_eq!(stores.find(url).unwrap().len("data.db"), Some(4));
        drop(same);
        assert!(stores.find(url).is_none());
        // Closed: it need not be taken over.
        let again = stores.open(url, &nothing).ok().unwrap();
        assert_eq!(again.len("data.db"), Some(4));
    }

    #[test]
    fn a_parameter_that_is_off_takes_nothing_over() {
        let url = "memory://held";
        let held = open_store(url, &nothing).unwrap();
        let open = |said: &str| {
            let parameter = |name: &str| (name == "take_over").then(|| said.to_owned());
            open_store(url, &parameter).map(drop)
        };
        for said in ["0", "00", "no", "FALSE"] {
            let why = open(said).unwrap_err();
            assert!(why.contains("with take_over=1 in the URI"), "{said}: {why}");
        }
        let why = open("perhaps").unwrap_err();
        assert!(
            why.starts_with("take_over=perhaps is neither on nor off"),
            "{why}"
        );
        held.close().unwrap();
    }

    #[test]
    fn a_page_has_a_size_as_all_sizes_are_typed() {
        let sized = |said: &'static str| {
            let parameter = move |name: &str| (name == "page_bytes").then(|| said.to_owned());
            open_store("memory://sized", &parameter).map(|store| store.close().unwrap())
        };
        for wrong in ["16Q", "3000", "2M", "-4096", ""] {
            let why = sized(wrong).unwrap_err();
            assert!(why.starts_with("page_bytes: "), "{why}");
        }
        sized("64K").unwrap();
        sized("65536").unwrap();
    }

    /// One that is closed while another thread opens it would be refused as another's.
    #[test]
    fn threads_that_open_and_close_a_store_wait_for_one_another() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let opened = stores().open("memory://in-turn", &nothing);
                        drop(opened.map_err(|why| panic!("{why}")));
                    }
                });
            }
        });
    }

    #[test]
    fn a_store_that_the_program_has_open_is_served_by_its_name_and_stays_open() {
        let volumes = Volumes::new(device::best()).unwrap();
        let builder = PageCache::builder().memory(16 << 20).page_size(65_536);
        let cache = builder.device(volumes.clone()).build().unwrap();
        let store = volumes.store(&cache, "memory://served", StoreOptions::new());
        let store = Arc::new(store.unwrap());
        let own = store.create("data.db").unwrap();
        own.write_at(b"pond", 0).unwrap();
        serve("orders", store.clone());
        let served = stores().open("orders", &nothing).ok().unwrap();
        let mut found = [0; 4];
        let file = served.open("data.db", false).unwrap().unwrap();
        file.read_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"pond", "the program's own pages");
        drop((served, file));
        own.sync_data().unwrap();
        assert!(stores().find("orders").is_some());
    }
}
