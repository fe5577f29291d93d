//! Error messages for each interface.
//!
//! A message states the problem and then the remedy. The problem is worded the same everywhere. The remedy names a call
//! in Rust, an option on a command line, or an argument in Python. `Display` is for Rust programmers; a program or
//! another language that passes an error on uses [`Error::told`].

use crate::error::{Error, again};
use std::fmt;

/// The interface at which an error is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surface {
    /// A caller of this crate, as `Display`.
    Rust,
    /// A user who typed a command, or reads a log.
    CommandLine,
    /// A user of the Python package.
    Python,
    /// A caller of the C library.
    C,
}

/// The remedy at the end of a message.
pub(crate) struct WayOut {
    rust: &'static str,
    command_line: &'static str,
    python: &'static str,
    c: &'static str,
}

impl WayOut {
    fn on(&self, surface: Surface) -> &'static str {
        match surface {
            Surface::Rust => self.rust,
            Surface::CommandLine => self.command_line,
            Surface::Python => self.python,
            Surface::C => self.c,
        }
    }
}

/// Returns the remedy in terms of the Rust API.
impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.on(Surface::Rust))
    }
}

pub(crate) const LESS_MEMORY: WayOut = WayOut {
    rust: "ask for less, or allow it with Builder::memory_beyond_limit(true)",
    command_line: "ask for less",
    python: "ask for less",
    c: "ask for less, or allow it with MILLPOND_CACHE_BEYOND_LIMIT",
};

pub(crate) const SOCKET: WayOut = WayOut {
    rust: "give it another path (Builder::control_at), or do without",
    command_line: "set XDG_RUNTIME_DIR or TMPDIR to a folder of this user's, or do without (--no-control)",
    python: "do without",
    c: "set XDG_RUNTIME_DIR or TMPDIR to a folder of this user's, or do without MILLPOND_CACHE_CONTROL",
};

pub(crate) const SWAP: WayOut = WayOut {
    rust: "give the cache one with Builder::swap",
    command_line: "its program gives the cache none",
    python: "give the pond a size",
    c: "give the cache one with millpond_cache_options.swap_path",
};

pub(crate) const MORE_SWAP: WayOut = WayOut {
    rust: "give the cache a larger swap file",
    command_line: "its program has to give the cache a larger swap file",
    python: "give the pond a larger size",
    c: "give the cache a larger swap file",
};

pub(crate) const WRITABLE: WayOut = WayOut {
    rust: "open it with OpenOptions::write(true) to change it",
    command_line: "its program has not opened it for writing",
    python: "open it with mode 'r+' to change it",
    c: "open it with MILLPOND_OPEN_WRITE to change it",
};

pub(crate) const MAP_WRITABLE: WayOut = WayOut {
    rust: "open it with OpenOptions::write(true) and map it with MapOptions::writable(true) to change it",
    command_line: "its program has not mapped it for writing",
    python: "open it with mode 'r+' to change it",
    c: "open it with MILLPOND_OPEN_WRITE and map it with MILLPOND_MAP_WRITABLE to change it",
};

pub(crate) const LOG: WayOut = WayOut {
    rust: "give it one with OpenOptions::log",
    command_line: "its program gives it none",
    python: "it can't have one in Python",
    c: "give it one with millpond_file_options.log",
};

pub(crate) const MORE_FRAMES: WayOut = WayOut {
    rust: "drop page guards or raise the memory budget",
    command_line: "raise the budget, as `millpond set memory=` does",
    python: "raise the pond's budget (set_memory)",
    c: "put pages that are held, or raise the budget (millpond_cache_set_memory)",
};

pub(crate) const SYNC_AGAIN: WayOut = WayOut {
    rust: "make room or repair the device and sync again, or give them up with File::discard_unwritten",
    command_line: "they are written once there is room or the device works again",
    python: "make room or repair the device, and flush again",
    c: "make room or repair the device and sync again, or give them up with millpond_file_discard_unwritten",
};

pub(crate) const OPEN_ANEW: WayOut = WayOut {
    rust: "drop all handles of the file (close fails too), open it again and check what it holds",
    command_line: "close it everywhere, open it again and check what it holds",
    python: "delete all its arrays (close fails too), open it again and check what it holds",
    c: "drop all handles of the file (millpond_file_drop), open it again and check what it holds",
};

pub(crate) const LET_GO: WayOut = WayOut {
    rust: "drop the guard first",
    command_line: "its program has to drop the guard first",
    python: "release it first",
    c: "put the page first",
};

/// Returns what a call waited for that the guards of pages kept it from.
pub(super) fn no_frames(frames: u64, dirty: &Option<(u64, u64)>) -> String {
    match dirty {
        Some((dirty, hard)) => {
            format!("{dirty} pages are dirty, the limit (dirty.hard) is {hard}, and none could be written")
        }
        None => format!("no frame of {frames} became free"),
    }
}

/// Returns the remedy for a handle or a mapping that is read-only.
pub(super) fn writable(is_mapping: bool) -> &'static WayOut {
    if is_mapping { &MAP_WRITABLE } else { &WRITABLE }
}

/// Returns the allowed values.
pub(super) fn allowed(max: &Option<u64>) -> String {
    match max {
        Some(max) => format!("must be 0 to {max}"),
        None => "the file is empty".into(),
    }
}

const LOST: &str = "its unwritten changes are lost";

/// Returns what became of changes that the device refused, and the remedy.
pub(super) fn after_write(is_kept: bool) -> String {
    match is_kept {
        true => format!("its changes are kept in memory: {SYNC_AGAIN}"),
        false => LOST.into(),
    }
}

/// Returns the same for changes that wait for a log.
pub(super) fn after_log(is_kept: bool) -> &'static str {
    match is_kept {
        true => "its changes are kept in memory: repair the log and sync again",
        false => LOST,
    }
}

/// Returns the remedy for a failed sync.
pub(super) fn after_sync(is_kept: bool, errno: i32) -> &'static str {
    match (is_kept, errno) {
        (false, _) => OPEN_ANEW.rust,
        (true, libc::ESTALE) => "no later sync of it will succeed",
        (true, _) => "what could not be stored is kept: sync again",
    }
}

impl Error {
    /// Returns the problem and the remedy, worded for `surface`.
    #[doc(hidden)]
    pub fn told(&self, surface: Surface) -> String {
        let text = self.to_string();
        match self.way_out() {
            Some(way) if surface != Surface::Rust => {
                let what = text.strip_suffix(way.rust).unwrap_or(&text);
                let told = format!("{what}{}", way.on(surface));
                match (self, surface) {
                    // What a program in Python has of the kind is arrays.
                    (Error::NoSwap | Error::SwapTooSmall { .. }, Surface::Python) => {
                        told.replace("a region", "an array").replace("region", "array")
                    }
                    _ => told,
                }
            }
            _ if surface != Surface::Rust => without_calls(text, surface),
            _ => text,
        }
    }

    /// Returns the same for data that are no longer in memory, as [`Error::given_up`] would.
    #[doc(hidden)]
    pub fn told_lost(&self, surface: Surface) -> String {
        let lost = match self {
            Error::Write { path, source, .. } => Error::Write {
                path: path.clone(),
                source: again(source),
                is_kept: false,
            },
            Error::Log { path, source, .. } => Error::Log {
                path: path.clone(),
                source: again(source),
                is_kept: false,
            },
            _ => return self.told(surface),
        };
        lost.told(surface)
    }

    fn way_out(&self) -> Option<&'static WayOut> {
        match self {
            Error::MemoryLimit { .. } | Error::MemoryOfMachine { .. } => Some(&LESS_MEMORY),
            Error::Control { .. } => Some(&SOCKET),
            Error::NoSwap => Some(&SWAP),
            Error::SwapTooSmall { .. } => Some(&MORE_SWAP),
            Error::ReadOnly { is_mapping, .. } => Some(writable(*is_mapping)),
            Error::NoLog { .. } => Some(&LOG),
            Error::NoFrames { .. } => Some(&MORE_FRAMES),
            Error::OwnGuard { .. } => Some(&LET_GO),
            Error::Write { is_kept: true, .. } => Some(&SYNC_AGAIN),
            Error::Sync { is_kept: false, .. } => Some(&OPEN_ANEW),
            _ => None,
        }
    }
}

/// Rust calls named inside a message, not at its end, with their replacements on a command line, in Python and in C.
const IN_TEXT: [(&str, [&str; 3]); 8] = [
    (
        "; OpenOptions::create(true) would make it",
        ["", "", "; MILLPOND_OPEN_CREATE would make it"],
    ),
    (
        "a mapping beside smaller ones (MapOptions::room)",
        [
            "a mapping beside smaller ones",
            "an array beside smaller ones, which have to be deleted first,",
            "a mapping beside smaller ones (millpond_map_new_with_room)",
        ],
    ),
    (
        "made without Builder::mappings",
        [
            "made without mappings",
            "made without mappings",
            "made without MILLPOND_CACHE_MAPPINGS",
        ],
    ),
    (
        ", or set OpenOptions::beside_other_caches(true)",
        ["", "", ", or set MILLPOND_OPEN_BESIDE_OTHER_CACHES"],
    ),
    (
        "or open it here without OpenOptions::exclusive",
        [
            "or open it here without a lock",
            "or open it here without a lock",
            "or open it here without MILLPOND_OPEN_EXCLUSIVE",
        ],
    ),
    (
        "this cache has it open with OpenOptions::exclusive already: clone that handle, or drop it first",
        [
            "this cache has it open with a lock already: close that file first",
            "this cache has it open with a lock already: close that file first",
            "this cache has it open with MILLPOND_OPEN_EXCLUSIVE already: close that file first",
        ],
    ),
    (
        "set OpenOptions::write(true) with exclusive(true)",
        [
            "open it for writing",
            "open it for writing",
            "set MILLPOND_OPEN_WRITE with MILLPOND_OPEN_EXCLUSIVE",
        ],
    ),
    (
        "set OpenOptions::write(true) with truncate(true)",
        [
            "open it for writing",
            "open it for writing",
            "set MILLPOND_OPEN_WRITE with MILLPOND_OPEN_TRUNCATE",
        ],
    ),
];

fn without_calls(text: String, surface: Surface) -> String {
    let at = match surface {
        Surface::Rust => return text,
        Surface::CommandLine => 0,
        Surface::Python => 1,
        Surface::C => 2,
    };
    let all = IN_TEXT.iter();
    all.fold(text, |text, (call, instead)| text.replace(call, instead[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MemoryLimit;
    use std::path::PathBuf;
    use std::time::Duration;

    #[test]
    fn no_error_names_a_call_in_rust_on_a_command_line_in_python_or_in_c() {
        let path = || PathBuf::from("file");
        let limit = MemoryLimit {
            bytes: 64 << 20,
            group: "/box".into(),
            file: "/box/memory.max".into(),
        };
        let given = 200 << 30;
        let machine = 24 << 30;
        let errors = [
            Error::MemoryLimit { given, limit },
            Error::MemoryOfMachine { given, machine },
            Error::Control {
                path: path(),
                source: std::io::ErrorKind::AddrInUse.into(),
            },
            Error::NoSwap,
            Error::SwapTooSmall {
                given,
                left: 0,
                swap: 1 << 30,
            },
            Error::ReadOnly {
                path: path(),
                is_mapping: false,
            },
            Error::ReadOnly {
                path: path(),
                is_mapping: true,
            },
            Error::NoLog { path: path() },
            Error::NoFrames {
                frames: 64,
                waited: Duration::from_secs(30),
                dirty: None,
            },
            Error::NoFrames {
                frames: 64,
                waited: Duration::from_secs(30),
                dirty: Some((16, 12)),
            },
            Error::Write {
                path: path(),
                source: std::io::ErrorKind::StorageFull.into(),
                is_kept: true,
            },
            Error::Sync {
                path: path(),
                source: std::io::ErrorKind::Other.into(),
                is_kept: false,
            },
        ];
        for error in errors {
            let way = error.way_out().unwrap();
            assert!(error.to_string().ends_with(way.rust), "{error}");
            for surface in [Surface::CommandLine, Surface::Python, Surface::C] {
                let told = error.told(surface);
                assert!(told.ends_with(way.on(surface)) && !told.contains("::"), "{told}");
            }
        }
        let full = Error::SwapTooSmall {
            given,
            left: 0,
            swap: 1 << 30,
        };
        assert!(
            full.told(Surface::Python).starts_with("an array of 200G"),
            "{full}"
        );
        let beside = Error::OutOfRange {
            path: path(),
            what: "end of a mapping beside smaller ones (MapOptions::room)",
            given,
            max: Some(1),
        };
        for surface in [Surface::CommandLine, Surface::Python, Surface::C] {
            assert!(!beside.told(surface).contains("::"), "{}", beside.told(surface));
        }
        let machine = Error::MemoryOfMachine { given, machine };
        assert_eq!(
            machine.told(Surface::CommandLine),
            "a budget of 200G is more than this machine's 24G: ask for less"
        );
    }

    /// Errors of the system that say more came with the names of Rust's calls in C and Python.
    #[test]
    fn no_text_anywhere_names_a_call_in_rust_that_is_not_told_otherwise() {
        let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if !name.contains("test") && !name.ends_with("told.rs") {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                    found.extend(code.lines().filter(|line| names_a_call(line)).map(String::from));
                }
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    /// In a string, unlike in the table. A line with one quotation mark, or that ends with a backslash, is within a
    /// string.
    fn names_a_call(line: &str) -> bool {
        let line = line.trim();
        let is_comment = line.starts_with("//") || line.starts_with("assert!");
        let is_within = line.matches('"').count() == 1 || line.ends_with('\\');
        let mut parts = line.split('"').enumerate();
        let calls = [
            "Builder::",
            "OpenOptions::",
            "MapOptions::",
            "PageCache::",
            "std::fs",
        ];
        let names = |part: &str| calls.iter().any(|call| part.contains(call));
        !is_comment
            && !IN_TEXT.iter().any(|(known, _)| line.contains(known))
            && parts.any(|(n, part)| (n % 2 == 1 || is_within) && names(part))
    }

    /// Others have to be ways out, above.
    #[test]
    fn no_text_of_an_error_names_a_call_in_rust() {
        let source = include_str!("../error.rs");
        let texts = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for call in ["Builder::", "OpenOptions::", "PageCache::", "File::"] {
            let named: Vec<_> = texts.clone().filter(|line| line.contains(call)).collect();
            assert!(named.is_empty(), "{named:?}");
        }
    }
}
