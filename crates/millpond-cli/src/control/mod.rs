//! `millpond set`, `inspect`, `stat`, `record` and `caches`: running caches, through their control sockets.
//!
//! This knows of caches only what they answer: it sends a line of words and gets a line of JSON.

pub(crate) mod complete;
mod find;
mod inspect;
mod paths;
mod reclaim;
mod record;
mod reuse;
mod set;
mod stat;
mod stores;
mod trouble;

pub(crate) use find::{CachesArgs, caches, running, serves_without_name};
pub(crate) use inspect::{InspectArgs, inspect};
pub(crate) use paths::{path_shown, with_source};
pub(crate) use record::{RecordArgs, record};
pub(crate) use reuse::{Fit, Reuse, percent};
pub(crate) use set::{SetArgs, set};
pub(crate) use stat::{Span, StatArgs, interval, stat};
pub(crate) use stores::Store;

use crate::failure::Failure;
pub(crate) use crate::failure::{shown, shown_path};
use crate::silence;
use millpond::control::Client;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for an answer. One takes well below a millisecond: after this the process hangs.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

/// The same for requests that may take longer.
const SLOW_ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// The choice of a cache.
#[derive(Clone, clap::Args)]
pub(crate) struct Which {
    /// The cache: its process id, the directory where it is mounted, or the path of its socket; `millpond caches`
    /// lists them. Not needed where only one is running.
    #[arg(long, value_name = "PID|PATH", add = complete::caches())]
    cache: Option<String>,
}

/// A running cache.
pub(crate) struct Cache {
    client: Client,
    pub(crate) socket: PathBuf,
}

impl Cache {
    pub(crate) fn connect(socket: &Path) -> Result<Cache, Failure> {
        let client = Client::connect(socket).map_err(|error| {
            Failure::failed(match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    format!("{}: the cache that made it is gone", socket.display())
                }
                _ => format!(
                    "{}: {error}; `millpond caches` lists the caches that can be asked",
                    socket.display()
                ),
            })
        })?;
        Ok(Cache {
            client,
            socket: socket.to_owned(),
        })
    }

    /// The answer as it came. An error of the cache is a failure, and one of the command line for a bad setting.
    pub(crate) fn ask(&mut self, line: &str) -> Result<(String, Value), Failure> {
        let socket = self.socket.display();
        // More memory may take the system a while, and a recording waits for its disk.
        let is_slow = line.starts_with("set ") || line.starts_with("record ");
        let wait_max = if is_slow {
            SLOW_ANSWER_WAIT_MAX
        } else {
            ANSWER_WAIT_MAX
        };
        self.client.wait_at_most(wait_max)?;
        let text = self.client.ask(line).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::failed(format!("{socket}: the cache has ended")),
            io::ErrorKind::TimedOut => {
                let process = self.client.process();
                Failure::failed(silence::describe(process.as_slice()))
            }
            _ => Failure::failed(format!("{socket}: {error}")),
        })?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| {
            Failure::failed(format!(
                "{socket} is not a cache of this version: {error}: {text}"
            ))
        })?;
        match answer["error"].as_str() {
            None => Ok((text, answer)),
            Some(why) => Err(Failure {
                code: if answer["kind"] == "setting" { 2 } else { 1 },
                message: Some(why.into()),
            }),
        }
    }
}

/// The elements of a list in an answer.
pub(crate) fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

/// A text in an answer.
pub(crate) fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer[name].as_str().unwrap_or("-")
}

/// A number in an answer.
pub(crate) fn count(answer: &Value, name: &str) -> u64 {
    answer[name].as_u64().unwrap_or(0)
}

/// How long ago, in words.
fn ago(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
