//! The calls of a page. Numbers go through arguments, text through one buffer in this module's memory.
//!
//! ```text
//!   page: buffer(len), writes text there ──► begin(column) ─► run(until, events) ─► state(parts, notes) ──► reads text there
//! ```
//!
//! A page makes one instance of the module for each system, so that each has a memory of its own: a copy of it is the system's
//! whole state, and turning back is putting a copy in its place. Times are nanoseconds as floats, exact below 2^53.

use millpond_core::units::Instant;
use millpond_worlds::column::Column;
use millpond_worlds::link::Link;
use millpond_worlds::recorded::{self, Recorded};
use millpond_worlds::scene::SCENES;
use std::cell::RefCell;

#[derive(Default)]
struct Page {
    text: Vec<u8>,
    column: Option<Column>,
    trace: Option<Recorded>,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
    /// Apart from the page, which is in use when something panics.
    static PANIC: RefCell<String> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(act)
}

/// Leaves text for the page. Its length.
fn leave(page: &mut Page, text: String) -> u32 {
    page.text = text.into_bytes();
    page.text.len() as u32
}

/// Leaves what came out, or why nothing did as a negative length.
fn answer(page: &mut Page, result: Result<String, String>) -> i32 {
    match result {
        Ok(text) => leave(page, text) as i32,
        Err(why) => -(leave(page, why) as i32),
    }
}

fn text(page: &Page) -> String {
    String::from_utf8_lossy(&page.text).into_owned()
}

/// Keeps the message of a panic from now on: the module ends there, and its memory can still be read.
#[unsafe(no_mangle)]
pub extern "C" fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| PANIC.set(panic.to_string())));
}

/// The length of what the panic has said that ended the module, 0 if none has; it is at [`panic_text`].
#[unsafe(no_mangle)]
pub extern "C" fn panic_length() -> u32 {
    PANIC.with_borrow(|text| text.len() as u32)
}

/// See [`panic_length`].
#[unsafe(no_mangle)]
pub extern "C" fn panic_text() -> *const u8 {
    PANIC.with_borrow(|text| text.as_ptr())
}

/// The address to which text of `len` bytes is to be written.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(len: u32) -> *mut u8 {
    with(|page| {
        page.text.clear();
        page.text.resize(len as usize, 0);
        page.text.as_mut_ptr()
    })
}

/// The address of the text that was left.
#[unsafe(no_mangle)]
pub extern "C" fn left() -> *const u8 {
    with(|page| page.text.as_ptr())
}

/// Leaves all scenes as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn scenes() -> i32 {
    with(|page| answer(page, serde_json::to_string(SCENES).map_err(|e| e.to_string())))
}

/// Leaves the link in the buffer as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn link() -> i32 {
    with(|page| {
        let link = Link::parse(&text(page));
        let json = link.and_then(|link| serde_json::to_string(&link).map_err(|e| e.to_string()));
        answer(page, json)
    })
}

/// Begins the system of this number of the link in the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn begin(column: u32) -> i32 {
    with(|page| {
        let begun = Link::parse(&text(page)).and_then(|link| Column::begin(&link, column as usize));
        let result = begun.map(|begun| {
            page.column = Some(begun);
            String::new()
        });
        answer(page, result)
    })
}

/// Goes on past a moment, in at most about this many events; returns whether it is reached.
#[unsafe(no_mangle)]
pub extern "C" fn run(until: f64, events: f64) -> u32 {
    with(|page| {
        let there = page
            .column
            .as_mut()
            .is_none_or(|column| column.run(Instant(until as u64), events as u64));
        u32::from(there)
    })
}

/// Goes on to the next note, at most past a moment; returns the moment.
#[unsafe(no_mangle)]
pub extern "C" fn run_to_note(until: f64) -> f64 {
    with(|page| {
        page.column
            .as_mut()
            .map_or(until, |column| column.run_to_note(Instant(until as u64)).0 as f64)
    })
}

/// Events so far.
#[unsafe(no_mangle)]
pub extern "C" fn events() -> f64 {
    with(|page| page.column.as_ref().map_or(0.0, |column| column.events() as f64))
}

/// Leaves what the page draws as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn state(parts: u32, notes: u32) -> i32 {
    with(|page| {
        let state = match &page.column {
            Some(column) => column.state(parts as usize, notes as usize),
            None => Err("nothing has begun".into()),
        };
        answer(page, state)
    })
}

/// The value of the figure whose name is in the buffer; not a number if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn figure() -> f64 {
    with(|page| {
        let name = text(page);
        page.column
            .as_ref()
            .and_then(|column| column.figure(&name))
            .unwrap_or(f64::NAN)
    })
}

/// Leaves the names of the policies as JSON, the optimum first.
#[unsafe(no_mangle)]
pub extern "C" fn models() -> i32 {
    with(|page| {
        answer(
            page,
            serde_json::to_string(&recorded::models()).map_err(|e| e.to_string()),
        )
    })
}

/// Reads the trace in the buffer, which begins with its name, of this many bytes; leaves a description of it as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn trace(name: u32) -> i32 {
    with(|page| {
        let bytes = std::mem::take(&mut page.text);
        let (name, bytes) = bytes.split_at((name as usize).min(bytes.len()));
        let read = Recorded::read(&String::from_utf8_lossy(name), bytes);
        let result = read.map(|(recorded, about)| {
            page.trace = Some(recorded);
            about
        });
        answer(page, result)
    })
}

/// Misses of the policy with this number on the trace that was read, with this many frames.
#[unsafe(no_mangle)]
pub extern "C" fn misses(model: u32, frames: f64) -> f64 {
    with(|page| {
        page.trace
            .as_ref()
            .map_or(0.0, |trace| trace.misses(model as usize, frames as u64) as f64)
    })
}

/// Leaves why the policy of this number misses less than Millpond on the trace that was read.
#[unsafe(no_mangle)]
pub extern "C" fn why(better: u32, frames: f64) -> i32 {
    with(|page| {
        let why = page.trace.as_ref().ok_or("no trace was read".to_owned());
        let why = why.map(|trace| trace.why(better as usize, frames as u64));
        answer(page, why)
    })
}
