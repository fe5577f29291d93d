//! A small store on a cache: keys and values that are there after a crash. `docs/TESTING.md` tests it.
//!
//! `cargo run -p millpond --features tokio --example kv`
//!
//! ```text
//!   put ──► record at the end of the file ──► its place in the index      in memory
//!   commit ──► sync                                                       what was put before is there after a crash
//!   open ──► all records, from the first to the last that is whole ──► the index
//! ```
//!
//! A record is the lengths of key and value, a sum, the key and the value. A value that was put again, or removed, stays in
//! the file: a store for more than this would write the file anew now and then.

#![allow(clippy::print_stdout, reason = "it says what it does")]

use millpond::{AsyncFile, FileCursor, OpenOptions, PageCache, device};
use millpond_testing::{Crashing, Fate};
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lengths of key and value, and the sum.
const HEADER: usize = 16;
/// The longest key, and the longest value: what a broken header could otherwise ask to be read.
const KEY_MAX: usize = 64 << 10;
const VALUE_MAX: usize = 16 << 20;
/// Instead of a value's length: the key is removed.
const REMOVED: u32 = u32::MAX;

/// The location of each key's value, and of the next record.
#[derive(Default)]
pub struct Index {
    places: HashMap<Vec<u8>, (u64, usize)>,
    end: u64,
}

impl Index {
    /// The index of the records that are there, up to the first that is not whole.
    ///
    /// It takes anything that can be read, so that a test may give it bytes.
    pub fn of(mut from: impl Read) -> io::Result<Index> {
        let mut index = Index::default();
        let mut header = [0; HEADER];
        while is_filled(&mut from, &mut header)? {
            let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| header[at + n]));
            let (key_len, value_len) = (number(0) as usize, number(4));
            let sum = u64::from(number(8)) | u64::from(number(12)) << 32;
            let is_removed = value_len == REMOVED;
            let value_len = if is_removed { 0 } else { value_len as usize };
            if key_len == 0 || key_len > KEY_MAX || value_len > VALUE_MAX {
                break;
            }
            let mut body = vec![0; key_len + value_len];
            if !is_filled(&mut from, &mut body)? || sum_of(&header[..8], &body) != sum {
                break;
            }
            body.truncate(key_len);
            index.take(body, (!is_removed).then_some(value_len));
        }
        Ok(index)
    }

    /// Takes note of the record that comes next, with the length of its value unless it removes the key.
    fn take(&mut self, key: Vec<u8>, value_len: Option<usize>) {
        let at = self.end + (HEADER + key.len()) as u64;
        self.end = at + value_len.unwrap_or(0) as u64;
        match value_len {
            Some(len) => self.places.insert(key, (at, len)),
            None => self.places.remove(&key),
        };
    }
}

/// Whether there was enough to read.
fn is_filled(from: &mut impl Read, buf: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buf) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// FNV-1a over the lengths and what they are those of.
fn sum_of(lengths: &[u8], body: &[u8]) -> u64 {
    lengths
        .iter()
        .chain(body)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// A store. Share it behind an [`Arc`].
pub struct Store {
    file: AsyncFile,
    index: Mutex<Index>,
    /// Held by the one that appends.
    append: Mutex<()>,
}

impl Store {
    /// Opens the store at `path`, or makes it. What a crash has left of a record is cut off. While it is open, no other
    /// process can open it: two caches would write over each other's records.
    pub fn open(cache: &PageCache, path: &Path) -> io::Result<Store> {
        let file = cache.open(path, OpenOptions::new().create(true).exclusive(true))?;
        let index = Index::of(BufReader::with_capacity(1 << 20, FileCursor::new(file.clone())))?;
        if file.len() > index.end {
            file.set_len(index.end)?;
            file.sync_data()?; // or what is behind the next record could be taken for one
        }
        Ok(Store {
            file: AsyncFile::new(file),
            index: Mutex::new(index),
            append: Mutex::default(),
        })
    }

    /// Sets a key's value. It is there after a crash once a [`commit`](Store::commit) that began later returns `Ok`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.write(key, Some(value))
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.write(key, None)
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        let len = value.map_or(0, <[u8]>::len);
        if !(1..=KEY_MAX).contains(&key.len()) || len > VALUE_MAX {
            let (key, told) = (key.len(), "keys have 1 to 65536 bytes, values 16 MiB at most");
            let told = format!("a key of {key} bytes, a value of {len}: {told}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        let value_len = if value.is_some() { len as u32 } else { REMOVED };
        let mut record = Vec::with_capacity(HEADER + key.len() + len);
        record.extend((key.len() as u32).to_le_bytes());
        record.extend(value_len.to_le_bytes());
        let body = [key, value.unwrap_or_default()].concat();
        record.extend(sum_of(&record, &body).to_le_bytes());
        record.extend(body);

        let _turn = locked(&self.append);
        let end = locked(&self.index).end;
        // What fails is written over by the next: a record that is not whole would hide all behind it.
        self.file.get_ref().write_all_at(&record, end)?;
        locked(&self.index).take(key.to_vec(), value.map(<[u8]>::len));
        Ok(())
    }

    /// Makes durable what was put before. Many puts, and puts of many threads, can share one.
    pub fn commit(&self) -> io::Result<()> {
        Ok(self.file.get_ref().sync_data()?)
    }

    /// A key's value.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some((at, len)) = self.place(key) else {
            return Ok(None);
        };
        let mut value = vec![0; len];
        self.file.get_ref().read_exact_at(&mut value, at)?;
        Ok(Some(value))
    }

    fn place(&self, key: &[u8]) -> Option<(u64, usize)> {
        locked(&self.index).places.get(key).copied()
    }

    /// The same in a task: what is in memory is had at once, and what is not stops no other task.
    pub async fn get_async(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some((at, len)) = self.place(key) else {
            return Ok(None);
        };
        let mut value = vec![0; len];
        self.file.read_exact_at(&mut value, at).await?;
        Ok(Some(value))
    }

    /// [`put`](Store::put) and [`commit`](Store::commit) in a task. If it is dropped, it has not begun, or goes on.
    pub async fn put_async(self: &Arc<Store>, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        let store = Arc::clone(self);
        let put = move || store.put(&key, &value).and_then(|()| store.commit());
        tokio::task::spawn_blocking(put).await?
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        locked(&self.index).places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes it. Dropping it can't say whether all is on the disk. An error says whether the changes are lost.
    pub fn close(self) -> io::Result<()> {
        Ok(self.file.into_inner().close()?)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `n`th change of the test: a key of ten, and its value, shorter and longer than a sector of the disk.
fn change(n: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![b'a' + n % 10], vec![n; 40 + 83 * usize::from(n)])
}

const CHANGES: u8 = 40;

/// The state after this many changes.
fn expected(changes: u8) -> HashMap<Vec<u8>, Vec<u8>> {
    (0..changes).map(change).collect()
}

/// Every crash that could have been. What is wrong, if something is.
pub fn crash_everywhere(folder: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let disk = Arc::new(Crashing::new(device::best(), 512));
    let cache = PageCache::builder()
        .memory(4 << 20)
        .device(disk.clone())
        .build()?;
    let store = Store::open(&cache, &folder.join("store"))?;
    let mut committed = Vec::new();
    for n in 0..CHANGES {
        let (key, value) = change(n);
        store.put(&key, &value)?;
        if n % 3 == 2 {
            store.commit()?;
            committed.push((disk.position(), n + 1)); // a crash from this moment on has so many changes
        }
    }
    store.close()?;

    // One cache for all images: making one takes longer than opening a store.
    let images = PageCache::builder().memory(16 << 20).build()?;
    let (journal, mut count, mut opened) = (disk.journal(), 0, 0);
    let file = journal.files().next().ok_or("nothing was written")?;
    let mut crash = journal.file(file).ok_or("nothing was written")?;
    loop {
        let before = committed.iter().rev().find(|(at, _)| *at <= crash.until());
        let must = before.map_or(0, |(_, changes)| *changes);
        for fate in [Fate::Lost, Fate::Kept]
            .into_iter()
            .chain((0..20).map(Fate::Drawn))
        {
            let (left, _) = crash.image(fate);
            let index = Index::of(&left[..])?; // the image is bytes: no cache, no file
            count += 1;
            let values = index.places.iter().map(|(key, (at, len))| {
                let at = *at as usize;
                (key.clone(), left[at..at + len].to_vec())
            });
            let found: HashMap<_, _> = values.collect();
            if !(must..=CHANGES).any(|changes| expected(changes) == found) {
                return Ok(format!(
                    "{fate:?}: {must} changes were committed, and {} keys are there",
                    found.len()
                ));
            }
            // Now and then the whole way: a file, the store on it, another change.
            if count % 50 == 0 {
                let path = folder.join(format!("image-{count}"));
                std::fs::write(&path, &left)?;
                let store = Store::open(&images, &path)?;
                store.put(b"after", b"the crash")?;
                store.close()?;
                let store = Store::open(&images, &path)?;
                if store.get(b"after")?.as_deref() != Some(b"the crash") || store.len() != found.len() + 1 {
                    return Ok(format!("{fate:?}: {} keys after another change", store.len()));
                }
                drop(store);
                std::fs::remove_file(&path)?;
                opened += 1;
            }
        }
        if crash.advance().is_none() {
            return Ok(format!(
                "nothing, in {count} images of crashes, {opened} of them opened and changed"
            ));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("millpond-kv-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let done = show(&folder);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn show(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = folder.join("store");
    let cache = PageCache::builder().memory(64 << 20).build()?;
    let store = Store::open(&cache, &path)?;
    for n in 0..10_000_u32 {
        store.put(&n.to_le_bytes(), format!("value {n}").as_bytes())?;
    }
    store.remove(&7_u32.to_le_bytes())?;
    store.commit()?;
    store.close()?;
    println!("put 10000 keys, removed one, committed, closed");

    let store = Arc::new(Store::open(&cache, &path)?);
    println!("opened again: {} keys", store.len());
    let value = store.get(&8_u32.to_le_bytes())?.unwrap_or_default();
    println!("key 8 has {:?}", String::from_utf8_lossy(&value));

    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let read: io::Result<usize> = runtime.block_on(async {
        let tasks = (0..8_u32).map(|task| {
            let store = Arc::clone(&store);
            runtime.spawn(async move {
                store
                    .put_async(format!("task {task}").into_bytes(), vec![0; 1000])
                    .await?;
                let mut read = 0;
                for n in (task..10_000).step_by(8) {
                    read += usize::from(store.get_async(&n.to_le_bytes()).await?.is_some());
                }
                io::Result::Ok(read)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut read = 0;
        for task in tasks {
            read += task.await??;
        }
        Ok(read)
    });
    println!("8 tasks put a key each and read {} values", read?);
    drop((store, runtime));

    // Of a store of its own.
    let crashes = folder.join("crashes");
    std::fs::create_dir(&crashes)?;
    let found = crash_everywhere(&crashes)?;
    println!("crashes found {found}");
    match found.starts_with("nothing, ") {
        true => Ok(()),
        false => Err(format!("the store lost data in a crash: {found}").into()),
    }
}
