//! `millpond record`: records the calls of a running cache into a trace.
//!
//! The cache writes the file; this only asks it to begin and to end, and shows progress. If this is killed, the
//! recording goes on until the trace reaches its size; `--stop` ends it.

use super::{Cache, Which, count, text};
use crate::failure::Failure;
use crate::signals::Signals;
use indicatif::{ProgressBar, ProgressStyle};
use millpond::internal::quantity::{parse_size, parse_time, size, size_typed};
use millpond::trace::{TRACE_BYTES_MAX, TRACE_BYTES_MIN};
use millpond_core::units::{Bytes, Nanos};
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const HELP: &str = "\
Examples:
  millpond record load.trace                          the only running cache, until Ctrl-C
  millpond record load.trace --for 60s --cache 4711
  millpond replay load.trace --memory 128M,256M,512M  the same load with other sizes of memory
  millpond record --stop                              ends a recording left running

Every call is recorded, hit or miss: file, pages, time, thread. A call costs about 0.2 us more
meanwhile. Calls that come faster than they can be written are left out and counted. The cache's process writes the trace,
with its own rights; the trace names the files that are open in the cache.
Exit codes: 0 recorded, 1 the cache does not answer or the trace can't be written (what was written can be used), 2 bad
command line.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct RecordArgs {
    /// The trace: a new file.
    #[arg(value_name = "TRACE", required_unless_present = "stop", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// How long to record, such as 10s or 5min. Default: until Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    span: Option<Nanos>,
    /// The trace's maximum size, 64K or more: the recording ends there.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = trace_size)]
    max_size: Bytes,
    /// End the current recording, including one that another program began.
    #[arg(long, conflicts_with_all = ["out", "span"])]
    stop: bool,
    #[command(flatten)]
    which: Which,
    /// Print what was recorded as JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// How often to ask the cache for progress.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn record(args: &RecordArgs) -> Result<ExitCode, Failure> {
    debug_assert_eq!(TRACE_BYTES_MAX, 64 << 20, "the default above");
    let Some(out) = &args.out else {
        let mut cache = args.which.find()?;
        is_under_way(&mut cache)?;
        return end(args, &mut cache);
    };
    let path = std::path::absolute(out)?;
    let line = request(args.max_size, &path)?;
    let signals = Signals::catch()?;
    let mut cache = args.which.find()?;
    not_within_itself(&cache.ask("about")?.1, &path)?;
    cache.ask(&line)?;
    let began = Instant::now();
    let bar = bar(args);
    while signals.caught().is_none()
        && args
            .span
            .is_none_or(|span| began.elapsed() < Duration::from_nanos(span.0))
    {
        thread::sleep(LOOK);
        let state = cache.ask("record state")?.1;
        bar.set_message(how_far(&state));
        if !state["ended"].is_null() {
            break;
        }
    }
    bar.finish_and_clear();
    end(args, &mut cache)
}

fn trace_size(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size(text)?;
    match bytes.0 >= TRACE_BYTES_MIN {
        true => Ok(bytes),
        false => Err(format!(
            "a trace needs at least {}",
            size_typed(Bytes(TRACE_BYTES_MIN))
        )),
    }
}

/// Whether there is something to stop. A recording that has ended on its own is an error: the user who stops it thinks
/// that it is still running.
fn is_under_way(cache: &mut Cache) -> Result<(), Failure> {
    let Ok((_, state)) = cache.ask("record state") else {
        return Err(Failure::failed(
            "nothing is being recorded, and no recording was made of this cache",
        ));
    };
    let why = match text(&state, "ended") {
        "-" => return Ok(()),
        "size" => "reached its largest size (--max-size)",
        "failed" => state["failed"].as_str().unwrap_or("could no longer be written"),
        _ => "was stopped",
    };
    Err(Failure::failed(format!(
        "nothing is being recorded; the last trace, {}, has {} and ended when it {why}",
        text(&state, "path"),
        how_far(&state)
    )))
}

/// A mount that writes its own trace into itself records that, and stays busy as long as the trace is open.
fn not_within_itself(about: &Value, path: &Path) -> Result<(), Failure> {
    let Some(point) = about["name"]
        .as_str()
        .map(Path::new)
        .filter(|point| point.is_absolute())
    else {
        return Ok(());
    };
    // As the mount's own process will resolve it.
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match folder.is_some_and(|folder| folder.starts_with(point)) {
        false => Ok(()),
        true => Err(Failure::bad_usage(format!(
            "{}: it is inside {}, the mount to be recorded, which would record its own trace and stay \
             busy: give a path outside",
            path.display(),
            point.display()
        ))),
    }
}

/// The request to the cache.
fn request(bytes_max: Bytes, path: &Path) -> Result<String, Failure> {
    let name = path.to_str().filter(|name| !name.contains(['\n', '\r']));
    let name = name.ok_or_else(|| {
        let message = "TRACE: a trace's name is text in UTF-8, on one line";
        Failure::bad_usage(message)
    })?;
    Ok(format!("record start {} {name}", bytes_max.0))
}

fn bar(args: &RecordArgs) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if args.json {
        return ProgressBar::hidden();
    }
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4}  {msg}; Ctrl-C ends it") {
        bar.set_style(style);
    }
    bar
}

fn how_far(state: &Value) -> String {
    let lost = match count(state, "lost") {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    format!(
        "{} calls in {}{lost}",
        count(state, "accesses"),
        size(Bytes(count(state, "bytes")))
    )
}

/// Ends the recording and prints its result.
fn end(args: &RecordArgs, cache: &mut Cache) -> Result<ExitCode, Failure> {
    let (line, recorded) = cache.ask("record stop")?;
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{line}")?;
    } else {
        let seconds = recorded["took_s"].as_f64().unwrap_or(0.0);
        writeln!(
            stdout,
            "{}: {} of {seconds:.1} s",
            text(&recorded, "path"),
            how_far(&recorded)
        )?;
    }
    if text(&recorded, "ended") == "size" {
        say!(
            "millpond record: the recording has ended: the trace has reached {} (--max-size)",
            size_typed(args.max_size)
        );
    }
    match recorded["failed"].as_str() {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::failed(format!(
            "{}: {why}; what was written before can be used",
            text(&recorded, "path")
        ))),
    }
}
