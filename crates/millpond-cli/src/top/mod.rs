//! `millpond top`: what a running cache does, on a screen redrawn each interval.
//!
//! | file | what |
//! |---|---|
//! | `figures` | answers of the cache's socket, converted for display |
//! | `screen` | figures laid out in lines |
//! | `fit` | whether memory is large enough |
//! | `history` | the last minute in a line |
//! | `help` | what the words mean |
//! | `list` | which caches there are |
//! | `terminal` | the screen of a terminal, and its keys |
//! | `watcher` | the thread that asks, so a hanging cache does not delay keys |

mod figures;
mod fit;
mod help;
mod history;
mod list;
pub(crate) mod screen;
pub(crate) mod terminal;
mod watcher;

use crate::control::{StatArgs, Which, interval, running, stat};
use crate::failure::Failure;
use figures::{Figures, ORDERS, Sample};
use screen::Standing;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
Examples:
  millpond top                        the screen, until q
  millpond top 500ms --sort dirty     twice a second, files with most dirty pages first
  millpond top --once                 one screen as text, for the next second
  millpond top --count 60 --json      60 lines of JSON

The screen: memory by state; devices, with the latency of reads that a caller waits for and its goal; what waits,
why, and for how many ms of each second; the files with most in memory. docs/WATCH.md explains each word.
Keys: ? what the words mean, q quit, s sort files otherwise, space pause, n next cache, c list of caches, + and - interval;
in the list up, down, enter or a number, esc back.
Without a terminal that can show the screen (a pipe, TERM=dumb) it writes lines as `millpond stat` does.
Exit codes: 0, 1 the cache no longer answers, 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct TopArgs {
    /// Seconds between two screens, or a time such as 500ms.
    #[arg(default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one screen as text and end.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// How many to print.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The order of files: by resident, dirty, tagged (on their second chance) or refaults.
    #[arg(long, value_name = "ORDER", default_value = "resident", value_parser = ORDERS.map(|order| order.0))]
    sort: String,
    /// Print JSON objects instead of screens, one for each: with --once or --count, else until the cache ends.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn top(args: &TopArgs) -> Result<ExitCode, Failure> {
    let count = if args.once { Some(1) } else { args.count };
    if count.is_some() || args.json {
        return print(args, count.unwrap_or(u64::MAX));
    }
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.is_empty());
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb;
    if !is_screen {
        say!("millpond top: this terminal can't show the screen: printing lines as `millpond stat` does");
        return stat(&StatArgs::endless(args.interval, args.which.clone()));
    }
    terminal::run(args)
}

/// Prints screens as text, or JSON.
fn print(args: &TopArgs, count: u64) -> Result<ExitCode, Failure> {
    let mut cache = args.which.find()?;
    let mut before = Sample::ask(&mut cache, &args.sort)?;
    let standing = Standing {
        number: 1,
        caches: 1,
        interval_s: args.interval.as_secs_f64(),
        ..Standing::default()
    };
    let began = Instant::now();
    let mut stdout = io::stdout().lock();
    for n in 0..count {
        let due = args
            .interval
            .saturating_mul(u32::try_from(n + 1).unwrap_or(u32::MAX));
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let now = Sample::ask(&mut cache, &args.sort)?;
        let figures = Figures::of(&before, &now);
        if args.json {
            let line = serde_json::to_string(&figures).map_err(io::Error::other)?;
            writeln!(stdout, "{line}")?;
        } else {
            for line in screen::lines(&figures, &standing, columns(), screen::HEIGHT_MIN) {
                writeln!(stdout, "{}", line.to_string().trim_end())?;
            }
            if n + 1 < count {
                writeln!(stdout)?;
            }
        }
        stdout.flush()?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// The terminal's width according to the shell, or 80.
fn columns() -> u16 {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(screen::WIDTH_MIN).clamp(screen::WIDTH_MIN, 500)
}

/// The sockets of all caches that can be watched, the requested one first.
fn sockets(which: &Which) -> Result<Vec<std::path::PathBuf>, Failure> {
    if which.is_given() {
        return Ok(vec![which.find()?.socket]);
    }
    let found: Vec<_> = running().into_iter().map(|(socket, _)| socket).collect();
    if found.is_empty() {
        // It reports what can be done, unless one has just appeared.
        return Ok(vec![which.find()?.socket]);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
