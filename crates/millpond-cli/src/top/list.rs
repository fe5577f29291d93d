//! The list of caches: fetched on a thread of its own, since one of them may hang, and shown instead of a cache.

use super::screen::last_of;
use crate::control::{count, running, shown, text};
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};

/// Caches' answers to `about`, by socket.
pub(super) type Found = Vec<(PathBuf, Value)>;

/// Why the list is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To show it.
    Show,
    /// To go on to the cache after this one.
    Next,
}

/// A list being fetched.
pub(super) struct Fetching {
    pub(super) purpose: Purpose,
    found: Receiver<Found>,
}

impl Fetching {
    /// Asks all caches.
    pub(super) fn start(purpose: Purpose) -> Fetching {
        let (tell, found) = mpsc::channel();
        // Without a thread the list is empty, which the screen says.
        let _ = std::thread::Builder::new().spawn(move || tell.send(running()));
        Fetching { purpose, found }
    }

    /// The list, once it is there.
    pub(super) fn found(&self) -> Option<Found> {
        match self.found.try_recv() {
            Ok(found) => Some(found),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(Vec::new()),
        }
    }
}

/// The list as shown: a line each, and the selected one.
pub(super) struct List {
    pub(super) found: Found,
    pub(super) at: usize,
}

impl List {
    /// The lines of a screen; `note` is the effect of the last key.
    pub(super) fn text(&self, goes_back: bool, note: Option<&str>, width: u16) -> Text<'static> {
        let row = |number: &str, pid: &str, memory: &str, age: &str, what: &str| {
            let head = format!("{number:2} {pid:>8} {memory:>10} {age:>9}  ");
            let room = usize::from(width).saturating_sub(head.chars().count());
            format!("{head}{}", last_of(what, room))
        };
        let mut lines = vec![
            Line::from("Several caches are running. Which one?"),
            Line::default(),
            Line::from(row("", "PID", "MEMORY", "AGE", "NAME, OR PROGRAM AND SOCKET")),
        ];
        for (n, (socket, about)) in self.found.iter().enumerate() {
            let number = if n < 9 { (n + 1).to_string() } else { String::new() };
            let what = match about["name"].as_str() {
                Some(name) => shown(name),
                None => format!(
                    "{}  {}",
                    shown(text(about, "program")),
                    shown(&socket.display().to_string())
                ),
            };
            let line = Line::from(row(
                &number,
                &count(about, "pid").to_string(),
                &size(Bytes(count(about, "memory_bytes"))),
                &super::screen::age(about["age_s"].as_f64().unwrap_or(0.0)),
                &what,
            ));
            lines.push(match n == self.at {
                true => line.style(Style::new().add_modifier(Modifier::REVERSED)),
                false => line,
            });
        }
        let back = if goes_back { "esc back, " } else { "" };
        lines.push(Line::default());
        lines.push(Line::from(format!(
            "up, down and enter, or its number; {back}q quit"
        )));
        lines.extend(note.map(|note| Line::from(note.to_owned())));
        Text::from(lines)
    }
}
