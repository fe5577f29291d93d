//! Caches: making, configuring and closing them.

use super::faults::Faults;
use super::handle;
use super::memory::{
    self, Extensible, Kept, give_text, only_flags, out, sized, text, text_or_none, zero_reserved,
};
use super::{millpond_cache, millpond_faults};
use crate::code::millpond_code;
use crate::told::{Failure, Outcome, attempt};
use millpond::settings::SETTINGS;
use millpond::{Builder, Error, PageCache, SwapFile};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;
use std::time::Duration;

/// The value behind a cache handle.
pub struct Cache {
    pub(super) engine: PageCache,
    /// Losses not yet reported.
    lost: Mutex<VecDeque<Error>>,
}

/// millpond_cache_options.flags: frames get their memory at first use, rather than when the cache is made.
pub const MILLPOND_CACHE_LAZY: u32 = 1;
/// millpond_cache_options.flags: allow a budget above what a control group or the machine allows.
pub const MILLPOND_CACHE_BEYOND_LIMIT: u32 = 2;
/// millpond_cache_options.flags: `millpond stat`, `top`, `set` and `record` of the same user find the cache, through a
/// socket among the user's run-time files. Costs a thread, which sleeps.
pub const MILLPOND_CACHE_CONTROL: u32 = 4;
/// millpond_cache_options.flags: the swap file has no name, and is gone with the cache.
pub const MILLPOND_CACHE_SWAP_UNLINKED: u32 = 8;
/// millpond_cache_options.flags: files can be mapped, with millpond_map_new. Frames are in small pages then, and hits over more
/// than 1 GiB take longer.
pub const MILLPOND_CACHE_MAPPINGS: u32 = 16;

/// Receives a message of the cache: one sentence without a line break, valid during the call. It may be called by
/// any thread, and by several at once; it should note the text and return, and must neither use the cache nor wait for a
/// thread that is in a call of the library.
pub type millpond_hook = Option<extern "C" fn(kept_user: *mut c_void, text: *const c_char)>;

/// How a cache is made. Set all of it to zero, then `size` and what differs from the default:
/// `struct millpond_cache_options o = {0}; o.size = sizeof o; o.memory = 256 << 20;`, with `= {}` in C++.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct millpond_cache_options {
    /// sizeof(struct millpond_cache_options).
    pub size: usize,
    /// The budget in bytes, for pages, metadata and transfers together. 0: 64 MiB.
    pub memory: u64,
    /// If not 0, the budget follows the host's memory between `memory` and this many bytes. Costs a thread.
    pub memory_max: u64,
    /// The page size in bytes: a power of two from 4096 to 65536. 0: 4096.
    pub page_size: u64,
    /// The latency that 99 of 100 reads should not exceed beside writers, in nanoseconds, 50 us to 10 s. 0: measured.
    pub read_latency_goal_ns: u64,
    /// MILLPOND_CACHE_... flags.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// A named set of options, such as "millpond" or "linux-5". NULL: "millpond".
    pub preset: *const c_char,
    /// The cache's name where several are listed. NULL: none.
    pub name: *const c_char,
    /// The swap file, for pages of regions that memory has no room for. NULL: the cache has no regions.
    pub swap_path: *const c_char,
    /// The size of the swap file in bytes.
    pub swap_bytes: u64,
    /// Receives what a user should know though no call fails, such as a device that does not answer. NULL: standard
    /// error.
    pub on_warning: millpond_hook,
    /// Receives what the cache must do without on this host, each message once. NULL: standard error.
    pub on_notice: millpond_hook,
    /// Passed to both hooks, and kept as long as the cache: until the handles of the cache and of all its files and
    /// regions are closed. The last of these calls waits for a running hook, and no hook begins once it has returned.
    pub kept_user: *mut c_void,
    /// Faults for tests, which the cache keeps until it is closed. NULL: none.
    pub faults: *const millpond_faults,
}

/// SAFETY: numbers, pointers that may be NULL, hooks that may be none.
unsafe impl Extensible for millpond_cache_options {
    const NAME: &'static str = "struct millpond_cache_options";
    const FIRST: usize = std::mem::offset_of!(millpond_cache_options, faults) + size_of::<usize>();
}

fn hook(hook: millpond_hook, kept: Kept) -> Option<impl Fn(String) + Send + Sync + 'static> {
    let hook = hook?;
    Some(move |said: String| {
        let said = CString::new(said.replace(['\0', '\n'], " ")).unwrap_or_default();
        hook(kept.user(), said.as_ptr());
    })
}

fn builder(options: &millpond_cache_options) -> Result<Builder, Failure> {
    let has = |flag| options.flags & flag != 0;
    let known = MILLPOND_CACHE_LAZY
        | MILLPOND_CACHE_BEYOND_LIMIT
        | MILLPOND_CACHE_CONTROL
        | MILLPOND_CACHE_SWAP_UNLINKED
        | MILLPOND_CACHE_MAPPINGS;
    only_flags(millpond_cache_options::NAME, options.flags, known)?;
    zero_reserved(millpond_cache_options::NAME, options.reserved)?;
    let mut builder = PageCache::builder()
        .populate(!has(MILLPOND_CACHE_LAZY))
        .memory_beyond_limit(has(MILLPOND_CACHE_BEYOND_LIMIT))
        .control(has(MILLPOND_CACHE_CONTROL))
        .mappings(has(MILLPOND_CACHE_MAPPINGS));
    match (options.memory, options.memory_max) {
        (0, 0) => {}
        (memory, 0) => builder = builder.memory(memory),
        (min, max) => builder = builder.memory_auto(min, max),
    }
    if options.page_size != 0 {
        builder = builder.page_size(options.page_size);
    }
    if options.read_latency_goal_ns != 0 {
        builder = builder.read_latency_goal(Duration::from_nanos(options.read_latency_goal_ns));
    }
    if !options.preset.is_null() {
        builder = builder.preset(text(options.preset, "preset")?);
    }
    if let Some(name) = text_or_none(options.name) {
        builder = builder.name(name.to_string_lossy());
    }
    if options.swap_path.is_null() && options.swap_bytes != 0 {
        let bytes = options.swap_bytes;
        return Err(Failure::invalid(format!(
            "swap_bytes is {bytes} and swap_path NULL: give the path of the swap file as well, or no bytes"
        )));
    }
    if !options.swap_path.is_null() {
        let swap = SwapFile::new(memory::path(options.swap_path)?, options.swap_bytes);
        builder = builder.swap(swap.unlinked(has(MILLPOND_CACHE_SWAP_UNLINKED)));
    }
    let kept = Kept::new(options.kept_user);
    if let Some(tell) = hook(options.on_warning, kept) {
        builder = builder.on_warning(move |warning| tell(warning.to_string()));
    }
    if let Some(tell) = hook(options.on_notice, kept) {
        builder = builder.on_notice(move |notice| tell(notice.to_string()));
    }
    if !options.faults.is_null() {
        let faults: &Faults = handle::value(options.faults)?;
        builder = builder.device(faults.device.clone());
    }
    Ok(builder)
}

/// Makes a cache and starts its thread. `options` may be NULL, for the defaults. The caller owns `*cache` and closes it
/// with millpond_cache_close. Any thread may use it at any time.
///
/// MILLPOND_INVALID and MILLPOND_MEMORY say what is possible, and take no memory; MILLPOND_SETUP, MILLPOND_SWAP.
/// Takes 0.1 s for 512 MiB.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_new(
    options: *const millpond_cache_options,
    cache: Option<&mut *mut millpond_cache>,
) -> millpond_code {
    attempt(|| {
        let cache = out(cache, "cache")?;
        let builder = match options.is_null() {
            true => PageCache::builder(),
            false => builder(&sized(options)?)?,
        };
        let engine = builder.build()?;
        let lost = Mutex::default();
        handle::give(Cache { engine, lost }, cache);
        Ok(())
    })
}

/// Closes the handle. The cache ends with the last of its open files and regions. No call reports what these lose from
/// then on, as millpond_cache_take_lost has no handle: close the cache last, or close files by millpond_file_close.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_close(cache: *mut millpond_cache) -> millpond_code {
    attempt(|| handle::close(cache).map(drop))
}

/// Makes durable everything written to any open file before. Tries all files, and returns the first error: as
/// millpond_file_sync.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_sync_all(cache: *mut millpond_cache) -> millpond_code {
    attempt(|| Ok(handle::value(cache)?.engine.sync_all()?))
}

/// Reports data lost because the last handle of a file was dropped before it could be written: one error a call, oldest
/// first, as the call's own code and message. MILLPOND_OK if none is left.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_take_lost(cache: *mut millpond_cache) -> millpond_code {
    attempt(|| {
        let cache = handle::value(cache)?;
        let mut lost = cache.lost.lock();
        lost.extend(cache.engine.take_lost());
        lost.pop_front().map_or(Ok(()), |error| Err(error.into()))
    })
}

/// Gives the cache another budget, in bytes. Excess memory goes back as pages can be evicted; until then the cache is
/// over its budget. MILLPOND_MEMORY changes nothing.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_set_memory(cache: *mut millpond_cache, bytes: u64) -> millpond_code {
    attempt(|| Ok(handle::value(cache)?.engine.set_memory(bytes)?))
}

/// The budget in bytes.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_memory(
    cache: *const millpond_cache,
    bytes: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        *out(bytes, "bytes")? = handle::value(cache)?.engine.memory().bytes.0;
        Ok(())
    })
}

/// Changes settings while the cache runs, by name, as `millpond set` does: all of them, or with an error none.
/// `names[i]` gets `values[i]`, for `count` of them: "dirty.background" and "64M".
///
/// MILLPOND_INVALID says what is allowed. docs/CONTROL.md lists the settings.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_set(
    cache: *mut millpond_cache,
    names: *const *const c_char,
    values: *const *const c_char,
    count: usize,
) -> millpond_code {
    attempt(|| {
        let (names, values) = (memory::list(names, count)?, memory::list(values, count)?);
        let pairs = names.iter().zip(values);
        let pairs = pairs.map(|(&name, &value)| Ok((text(name, "a name")?, text(value, "a value")?)));
        let pairs = pairs.collect::<Result<Vec<_>, Failure>>()?;
        if pairs.is_empty() {
            return Err(Failure::invalid(
                "count is 0: give the names and values of one setting or more",
            ));
        }
        handle::value(cache)?.engine.set(&pairs)?;
        Ok(())
    })
}

/// The value of a setting, as it can be set again, with a zero byte at its end. `needed`, if not NULL, gets its length
/// without that byte. MILLPOND_BUFFER if it does not fit into `size` bytes. Empty for a setting of a form that was not
/// chosen.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_setting(
    cache: *const millpond_cache,
    name: *const c_char,
    buffer: *mut c_char,
    size: usize,
    needed: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        let name = text(name, "the name")?;
        let value = handle::value(cache)?.engine.setting(name)?;
        give_text(&value.unwrap_or_default(), (buffer, size), needed)
    })
}

/// The name of setting number `index`, counted from 0; NULL after the last. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_setting_name(index: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let own = |name: &str| CString::new(name).unwrap_or_default();
    let names = NAMES.get_or_init(|| SETTINGS.iter().map(|setting| own(setting.name)).collect());
    names.get(index).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// A cache's `Outcome`, for calls in other files.
pub(super) fn with(cache: *const millpond_cache, call: impl FnOnce(&PageCache) -> Outcome) -> Outcome {
    call(&handle::value(cache)?.engine)
}
