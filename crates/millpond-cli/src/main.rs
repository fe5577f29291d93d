//! The `millpond` program.
//!
//! `millpond demo` shows in 40 seconds what it is for; `millpond lab` runs the experiments, `millpond doctor` reports
//! what this machine allows, `millpond slowdisk` serves a slow disk; `millpond mount` serves a directory through a
//! cache; `millpond store` starts the program for object stores; `millpond set`, `inspect`, `stat`, `top` and `caches`
//! look into running caches and change their settings, `record` records their calls, which `replay` tries with other
//! sizes of memory. Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 something failed, 2 the
//! command line is wrong, 3 a target cannot run on this machine or in this build, 128 + the signal's number when stopped
//! by one (130 after Ctrl-C). Temporary files are removed in each case.
//!
//! Rows of modules. A file imports `crate::x` only if `x` is its own module or stands in a lower row; modules side by
//! side in a row don't know each other. A test of the lab checks this table against the sources.
//!
//! ```text
//!   6  doctor                                  what this host allows
//!   5  lab  umount  service                    lab only with the feature `lab`
//!   4  top  mount                              showing a cache, and serving a directory
//!   3  serving                                 the life of a mount
//!   2  control  ending  replace                running caches, through their sockets; how a mount ends
//!   1  address  complete  daemon  directories  log  man  signals  silence  store  syslog  without_lab
//!   0  failure
//! ```
#![forbid(unsafe_code)]

/// Prints a line to standard error, if possible. `eprintln!` panics where it is not, as on a closed terminal, and would
/// end a mount in the middle of its work.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod address;
mod complete;
mod control;
mod daemon;
mod directories;
mod doctor;
mod ending;
mod failure;
#[cfg(feature = "lab")]
mod lab;
// The same names; each reports that it is not available.
#[cfg(not(feature = "lab"))]
#[path = "without_lab.rs"]
mod lab;
mod log;
mod man;
mod mount;
mod replace;
mod service;
mod serving;
mod signals;
mod silence;
mod store;
mod syslog;
mod top;
mod umount;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::io::{self, Write};
use std::process::ExitCode;

#[cfg(feature = "lab")]
const HELP: &str = "\
Examples:
  millpond demo                  how long do reads wait beside writers, on this disk? 40 s
  millpond lab run axboe2016      how long do reads wait beside writers, on this machine?
  millpond stat 1                what does the running cache do meanwhile?";
#[cfg(not(feature = "lab"))]
const HELP: &str = "\
Examples:
  millpond mount ./data /mnt/pond    a directory through a cache, for any program
  millpond stat 1                    what does its cache do meanwhile?";

/// A page cache and memory manager that lives in your process: its laboratory and its tools.
#[derive(Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
#[command(after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show how long reads wait beside writers, on the kernel's page cache and on Millpond: 40 seconds, on this disk.
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Demo(lab::DemoArgs),
    /// Run the experiments of the posts that Millpond comes from.
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Lab(lab::LabArgs),
    /// Report what this machine allows, what Millpond chooses because of it, and whether the experiments can run.
    Doctor(doctor::Args),
    /// Serve a file that is as slow as a disk, for a loop device with a file system.
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Slowdisk(lab::SlowdiskArgs),
    /// Mount a directory through a cache, for any program.
    Mount(mount::MountArgs),
    /// Unmount it: write everything, and report whether all is on the disk.
    Umount(umount::UmountArgs),
    /// Files in an object store: list, copy, verify, take a store over. A program of its own, `millpond-store`.
    Store(store::StoreArgs),
    /// Change settings of a running cache.
    Set(control::SetArgs),
    /// Explain a running cache's limits, show its settings, and who has changed them.
    Inspect(control::InspectArgs),
    /// Show what a running cache does, a line at a time, as vmstat does.
    Stat(control::StatArgs),
    /// Record a running cache's calls into a trace, which `replay` tries with other sizes of memory.
    Record(control::RecordArgs),
    /// Replay a trace: how much memory does this load need?
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Replay(lab::ReplayArgs),
    /// Show the posts in a browser: pages moving between lists, writes held back, a limit that collapses.
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Playground(lab::PlaygroundArgs),
    /// Show what a running cache does, on a screen: memory, devices, waiting callers, files.
    Top(top::TopArgs),
    /// List the running caches.
    Caches(control::CachesArgs),
    /// Write a script that lets a shell complete commands and options.
    Completions(service::CompletionsArgs),
    /// Write manual pages, one for each command.
    Man(service::ManArgs),
}

fn main() -> ExitCode {
    service::answer_completions();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return print(&error),
    };
    let result = match cli.command {
        Command::Demo(args) => lab::demo(&args),
        Command::Lab(args) => lab::lab(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Slowdisk(args) => lab::slowdisk(&args),
        Command::Mount(args) => mount::mount(&args),
        Command::Umount(args) => umount::umount(&args),
        Command::Store(args) => store::store(&args),
        Command::Set(args) => control::set(&args),
        Command::Inspect(args) => control::inspect(&args),
        Command::Stat(args) => control::stat(&args),
        Command::Record(args) => control::record(&args),
        Command::Replay(args) => lab::replay(&args),
        Command::Playground(args) => lab::playground(&args),
        Command::Top(args) => top::top(&args),
        Command::Caches(args) => control::caches(&args),
        Command::Completions(args) => service::completions(&args),
        Command::Man(args) => service::man(&args),
    };
    result.unwrap_or_else(Failure::report)
}

/// Prints help, the version, or an error of the command line.
fn print(error: &clap::Error) -> ExitCode {
    match error.print() {
        // clap does not flush its writes to stdout, and does not check whether they arrived.
        Ok(()) => match io::stdout().flush() {
            Ok(()) => ExitCode::from(error.exit_code() as u8),
            Err(error) => Failure::from(error).report(),
        },
        Err(error) => Failure::from(error).report(),
    }
}
