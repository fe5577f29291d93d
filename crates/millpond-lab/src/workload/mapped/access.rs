//! The ways to a page of the file: the kernel's mapping, Millpond's, and calls.

use super::super::data::PAGE;
use crate::error::{LabError, Result};
use crate::measure::process;
use crate::outcome::Setting;
use crate::setup::Setup;
use millpond::internal::{MappedFile, Surface};
use millpond::{Advice, Faults, MapOptions, Mapping, OpenOptions, PageCache};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The kernel's mapping, advised that it is touched anywhere: no read-ahead.
pub const RANDOM: &str = "random";
/// Not advised, with the read-ahead that most disks have.
pub const NORMAL_128K: &str = "normal-128K";
/// Not advised, with the read-ahead that this disk has.
pub const NORMAL: &str = "normal";
/// Millpond's mapping, faults served by handlers.
pub const MAPPING: &str = "mapping";
/// The same, served by the thread that touches.
pub const IN_THREAD: &str = "in-thread";
/// `page` and `page_mut`, in a cache without mappings.
pub const PAGE_CALLS: &str = "page";

/// The offset of the number in a page's stamp, and of a word outside the stamp.
pub(super) const NUMBER: u64 = 8;
const CHANGED: u64 = 16;
/// A word of each cache line.
const LINE: u64 = 64;

/// A file that is touched.
pub(super) trait Access: Sync {
    /// The word at `at`, a multiple of 8.
    fn load(&self, at: u64) -> Result<u64>;

    /// Reads the page at `at`, and adds one to a word of it. Its [`NUMBER`].
    fn change(&self, at: u64) -> Result<u64>;

    /// A word of each cache line of `bytes` bytes from `at` on, both whole pages, so that all of them pass through the
    /// processor. Any number that depends on each.
    fn sum(&self, at: u64, bytes: u64) -> Result<u64> {
        let lines = (at..at + bytes).step_by(LINE as usize);
        lines
            .map(|at| self.load(at))
            .try_fold(0_u64, |sum, word| Ok(sum.wrapping_add(word?)))
    }

    /// How many of the words at `all`, which it loads in order with `each`, were not in memory.
    fn count_misses(&self, all: &[u64], each: impl FnMut(u64) -> Result<()>) -> Result<u64>;

    /// Opens a file for a writer beside the load, through the same cache.
    fn create(&self, path: &Path) -> Result<Box<dyn Writer>>;

    fn settings(&self) -> Vec<Setting>;
}

/// A file written beside the load.
pub(super) trait Writer: Send {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// The kernel's mapping.
pub(super) struct KernelWords {
    mapped: MappedFile,
    read_ahead: String,
}

impl KernelWords {
    pub(super) fn open(path: &Path, setup: &Setup) -> Result<KernelWords> {
        let failed = |e: io::Error| LabError::path("cannot map", path, e);
        let narrow = (setup.variant == NORMAL_128K)
            .then(|| ReadAhead::set(path, 128))
            .transpose();
        let narrow = narrow.map_err(failed)?;
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        // A file keeps what was set when it was opened.
        drop(narrow);
        let mapped = MappedFile::new(&file, file.metadata().map_err(failed)?.len()).map_err(failed)?;
        if setup.variant == RANDOM {
            mapped.advise_random().map_err(failed)?;
        }
        fill(path, setup)?;
        Ok(KernelWords {
            mapped,
            read_ahead: match setup.variant.as_str() {
                RANDOM => "none".into(),
                NORMAL_128K => "128 KiB".into(),
                _ => ReadAhead::file_of(path)
                    .and_then(|setting| fs::read_to_string(setting).ok())
                    .map_or("not known".into(), |kib| format!("{} KiB", kib.trim())),
            },
        })
    }
}

/// Reads as much of the file as memory holds, in the ordinary way.
fn fill(path: &Path, setup: &Setup) -> Result<()> {
    let failed = |e: io::Error| LabError::path("cannot read", path, e);
    let file = fs::File::open(path).map_err(failed)?;
    each_mebibyte(setup, file.metadata().map_err(failed)?.len(), |buf, at| {
        file.read_exact_at(buf, at).map_err(failed)
    })
}

fn each_mebibyte(setup: &Setup, len: u64, mut read: impl FnMut(&mut [u8], u64) -> Result<()>) -> Result<()> {
    let mut buf = vec![0; 1 << 20];
    for at in (0..len.min(setup.memory.0)).step_by(buf.len()) {
        let most = buf.len().min((len - at) as usize);
        read(&mut buf[..most], at)?;
    }
    Ok(())
}

/// A disk's read-ahead, set to something else until this is dropped. Root.
pub(crate) struct ReadAhead {
    setting: PathBuf,
    before: String,
}

impl ReadAhead {
    fn set(path: &Path, kib: u32) -> io::Result<ReadAhead> {
        let not_there =
            || io::Error::other("its file system has no setting of read-ahead below /sys/class/bdi");
        let setting = ReadAhead::file_of(path).ok_or_else(not_there)?;
        let before = fs::read_to_string(&setting)?;
        fs::write(&setting, kib.to_string())?;
        Ok(ReadAhead { setting, before })
    }

    fn file_of(path: &Path) -> Option<PathBuf> {
        let device = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let setting = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
        setting.exists().then_some(setting)
    }
}

/// Why the read-ahead of the file system of `path` can't be set, if it can't.
///
/// # Errors
/// The system's.
pub fn can_set_read_ahead(path: &Path) -> io::Result<()> {
    let narrow = ReadAhead::set(path, 128)?;
    drop(narrow);
    Ok(())
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = fs::write(&self.setting, self.before.trim());
    }
}

impl Access for KernelWords {
    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        Ok(self.mapped.load(at))
    }

    #[inline]
    fn change(&self, at: u64) -> Result<u64> {
        let number = self.mapped.load(at + NUMBER);
        let word = self.mapped.load(at + CHANGED);
        self.mapped.store(at + CHANGED, word.wrapping_add(1));
        Ok(number)
    }

    fn count_misses(&self, all: &[u64], mut each: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let faults = || process::major_faults_of_thread().unwrap_or_default();
        let before = faults();
        all.iter().try_for_each(|&at| each(at))?;
        Ok(faults() - before)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Writer>> {
        let made = fs::File::create_new(path).map_err(|e| LabError::path("cannot create", path, e))?;
        Ok(Box::new(made))
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("read-ahead", &self.read_ahead)]
    }
}

impl Writer for fs::File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }
}

fn open(path: &Path, setup: &Setup, advice: Advice, mappings: bool) -> Result<(PageCache, millpond::File)> {
    let failed = |e| failed(path, e);
    let cache = PageCache::builder().memory(setup.memory.0).mappings(mappings);
    let cache = cache.build().map_err(failed)?;
    let file = cache.open(path, OpenOptions::new().write(true)).map_err(failed)?;
    file.advise(advice).map_err(failed)?;
    Ok((cache, file))
}

fn fill_cache(path: &Path, setup: &Setup, file: &millpond::File) -> Result<()> {
    each_mebibyte(setup, file.len(), |buf, at| {
        file.read_at(buf, at).map(drop).map_err(|e| failed(path, e))
    })
}

fn failed(path: &Path, error: millpond::Error) -> LabError {
    LabError::path("Millpond on", path, told(error))
}

fn told(error: millpond::Error) -> io::Error {
    io::Error::other(error.told(Surface::CommandLine))
}

fn settings(cache: &PageCache) -> Vec<Setting> {
    let stats = cache.stats();
    vec![
        Setting::new("frames", stats.derived.frames.0),
        Setting::new("frames in huge pages", stats.is_huge),
        Setting::new("device", &stats.device),
    ]
}

/// Millpond's mapping. One for writing: words of it may be read and stored by all threads.
pub(super) struct MappedWords {
    mapping: Mapping,
    cache: PageCache,
}

impl MappedWords {
    pub(super) fn open(path: &Path, setup: &Setup, advice: Advice) -> Result<MappedWords> {
        let (cache, file) = open(path, setup, advice, true)?;
        let faults = match setup.variant.as_str() {
            IN_THREAD => Faults::InThread,
            _ => Faults::Handlers,
        };
        let mapping = file.map(.., &MapOptions::new().writable(true).faults(faults));
        let mapping = mapping.map_err(|e| failed(path, e))?;
        fill_cache(path, setup, &file)?;
        Ok(MappedWords { mapping, cache })
    }
}

impl Access for MappedWords {
    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        Ok(self.mapping.words()[at as usize / 8].load(Relaxed))
    }

    #[inline]
    fn change(&self, at: u64) -> Result<u64> {
        let word = |at| &self.mapping.words()[at as usize / 8];
        let number = word(at + NUMBER).load(Relaxed);
        let changed = word(at + CHANGED);
        changed.store(changed.load(Relaxed).wrapping_add(1), Relaxed);
        Ok(number)
    }

    fn count_misses(&self, all: &[u64], mut each: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let mut misses = 0;
        for &at in all {
            misses += u64::from(!self.mapping.is_resident(at as usize));
            each(at)?;
        }
        Ok(misses)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Writer>> {
        create_in(&self.cache, path)
    }

    fn settings(&self) -> Vec<Setting> {
        settings(&self.cache)
    }
}

fn create_in(cache: &PageCache, path: &Path) -> Result<Box<dyn Writer>> {
    drop(fs::File::create_new(path).map_err(|e| LabError::path("cannot create", path, e))?);
    let file = cache.open(path, OpenOptions::new().write(true));
    Ok(Box::new(file.map_err(|e| failed(path, e))?))
}

impl Writer for millpond::File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        millpond::File::write_at(self, bytes, offset).map_err(told)
    }
}

/// Calls.
pub(super) struct Pages {
    file: millpond::File,
    cache: PageCache,
    path: PathBuf,
}

impl Pages {
    pub(super) fn open(path: &Path, setup: &Setup, advice: Advice) -> Result<Pages> {
        let (cache, file) = open(path, setup, advice, false)?;
        fill_cache(path, setup, &file)?;
        Ok(Pages {
            file,
            cache,
            path: path.to_owned(),
        })
    }

    /// The page of a byte, and where it is there.
    fn place(at: u64) -> (u64, usize) {
        (at / PAGE as u64, (at % PAGE as u64) as usize)
    }
}

fn word_at(page: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(word)
}

impl Access for Pages {
    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        let (page, at) = Pages::place(at);
        let page = self.file.page(page).map_err(|e| failed(&self.path, e))?;
        Ok(word_at(&page, at))
    }

    #[inline]
    fn change(&self, at: u64) -> Result<u64> {
        let page = at / PAGE as u64;
        let mut page = self.file.page_mut(page).map_err(|e| failed(&self.path, e))?;
        let more = word_at(&page, CHANGED as usize).wrapping_add(1);
        page[CHANGED as usize..][..8].copy_from_slice(&more.to_le_bytes());
        Ok(word_at(&page, NUMBER as usize))
    }

    fn sum(&self, at: u64, bytes: u64) -> Result<u64> {
        let mut sum = 0_u64;
        for page in at / PAGE as u64..(at + bytes) / PAGE as u64 {
            let page = self.file.page(page).map_err(|e| failed(&self.path, e))?;
            let lines = (0..PAGE).step_by(LINE as usize);
            sum = lines.fold(sum, |sum, at| sum.wrapping_add(word_at(&page, at)));
        }
        Ok(sum)
    }

    fn count_misses(&self, all: &[u64], mut each: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let mut misses = 0;
        for &at in all {
            misses += u64::from(!self.file.is_resident(at));
            each(at)?;
        }
        Ok(misses)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Writer>> {
        create_in(&self.cache, path)
    }

    fn settings(&self) -> Vec<Setting> {
        settings(&self.cache)
    }
}
