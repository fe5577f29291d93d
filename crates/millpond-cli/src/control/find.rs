//! Which caches there are, and which one a command means.

use super::{Cache, Which, ago, count, failed, text};
use crate::Failure;
use millpond::control::sockets;
use millpond_core::units::Bytes;
use millpond_lab::quantity::size;
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  millpond caches
  millpond caches --json

A cache is listed if its program asked for a control socket (`Builder::control`) and runs as the same user. Those with a
socket elsewhere (`Builder::control_at`) are not listed; give their path with --cache.
Exit codes: 0, also if there is none.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct CachesArgs {
    /// One JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn caches(args: &CachesArgs) -> Result<ExitCode, Failure> {
    let mut stdout = io::stdout().lock();
    let found = running();
    if args.json {
        for (socket, mut about) in found {
            about["socket"] = socket.display().to_string().into();
            writeln!(stdout, "{about}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        eprintln!("millpond: no cache with a control socket is running as this user");
    }
    write!(stdout, "{}", table(&found))?;
    Ok(ExitCode::SUCCESS)
}

/// All that answer, with what they say of themselves.
pub(crate) fn running() -> Vec<(PathBuf, Value)> {
    let ask = |socket: PathBuf| {
        let about = Cache::connect(&socket).ok()?.ask("about").ok()?.1;
        Some((socket, about))
    };
    sockets().into_iter().filter_map(ask).collect()
}

pub(crate) fn table(found: &[(PathBuf, Value)]) -> String {
    let mut lines = String::new();
    if !found.is_empty() {
        lines += &format!(
            "{:>8}  {:16} {:>10} {:>9}  SOCKET\n",
            "PID", "PROGRAM", "MEMORY", "AGE"
        );
    }
    for (socket, about) in found {
        lines += &format!(
            "{:>8}  {:16} {:>10} {:>9}  {}\n",
            count(about, "pid"),
            text(about, "program"),
            size(Bytes(count(about, "memory_bytes"))),
            ago(about["age_s"].as_f64().unwrap_or(0.0)),
            socket.display()
        );
    }
    lines
}

impl Which {
    /// Whether somebody has said which.
    pub(crate) fn is_given(&self) -> bool {
        self.cache.is_some()
    }

    /// The cache that is meant.
    pub(crate) fn find(&self) -> Result<Cache, Failure> {
        let Some(given) = &self.cache else {
            let mut found = running();
            return match found.len() {
                1 => Cache::connect(&found.remove(0).0),
                0 => Err(failed(
                    "no cache with a control socket is running as this user: start one (a program's \
                     `Builder::control`, `millpond mount`, or `millpond lab run`), or give the path of its socket with --cache"
                        .into(),
                )),
                _ => Err(Failure::bad_usage(format!(
                    "several caches are running: say which one with --cache PID or --cache PATH\n{}",
                    table(&found)
                ))),
            };
        };
        let Ok(pid) = given.parse::<u32>() else {
            return Cache::connect(Path::new(given));
        };
        let mut of_pid = running();
        of_pid.retain(|(_, about)| count(about, "pid") == u64::from(pid));
        match of_pid.len() {
            1 => Cache::connect(&of_pid.remove(0).0),
            0 => Err(failed(format!(
                "process {pid} has no cache with a control socket, or is another user's\n{}",
                table(&running())
            ))),
            _ => Err(Failure::bad_usage(format!(
                "process {pid} has several caches: give the path of one with --cache\n{}",
                table(&of_pid)
            ))),
        }
    }
}
