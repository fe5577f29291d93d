//! The `millpond` program.
//!
//! `millpond demo` shows in 40 seconds what it is for; `millpond lab` runs the experiments, `millpond doctor` says what this machine allows, `millpond slowdisk` serves a
//! slow disk; `millpond mount` serves a directory through a cache; `millpond set`, `inspect`, `stat`, `top` and `caches`
//! look into running caches and retune them, `record` what they are asked for, which `replay` tries on other sizes of
//! memory. Results go to
//! stdout, progress and errors to stderr. Exit codes: 0 done, 1 something failed, 2 the command line is
//! wrong, 3 a target cannot run on this machine or in this build, 128 + the signal's number when stopped by
//! one (130 after Ctrl-C); whatever was made on disk is removed in each case.
#![forbid(unsafe_code)]

mod address;
mod complete;
mod control;
mod demo;
mod doctor;
mod lab;
mod log;
mod man;
mod mount;
mod output;
mod progress;
mod replay;
mod service;
mod signals;
mod slowdisk;
mod top;
mod umount;

use clap::{Parser, Subcommand};
use millpond_lab::child::worker;
use millpond_lab::say;
use std::io::{self, Write};
use std::process::ExitCode;

/// A page cache and memory manager that lives in your process: its laboratory and its tools.
#[derive(Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  millpond demo                  how long do reads wait beside writers, on this disk? 40 s\n  \
                  millpond lab run axboe2016      how long do reads wait beside writers, on this machine?\n  \
                  millpond stat 1                what does the cache do that is running meanwhile?"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show how long reads wait beside writers, on the kernel's page cache and on Millpond: 40 seconds, on this disk.
    Demo(demo::DemoArgs),
    /// Run the experiments of the posts that Millpond comes from.
    #[command(
        subcommand,
        after_help = "Examples:\n  millpond lab list\n  millpond lab run axboe2016 --scale 0.02 --runs 1"
    )]
    Lab(lab::Command),
    /// Say what this machine allows, what is chosen because of it, and whether the experiments can run.
    Doctor(doctor::Args),
    /// Serve a file that is as slow as a disk, for a loop device and a file system to stand on.
    Slowdisk(slowdisk::Args),
    /// Mount a directory through a cache, for any program.
    Mount(mount::MountArgs),
    /// Unmount it: write everything, say whether all is on the disk.
    Umount(umount::UmountArgs),
    /// Change settings of a running cache.
    Set(control::SetArgs),
    /// Say why a running cache's limits are what they are, what its settings are, and who has changed them.
    Inspect(control::InspectArgs),
    /// Show what a running cache does, a line at a time, as vmstat does.
    Stat(control::StatArgs),
    /// Record what a running cache is asked for into a trace, which `replay` tries on other sizes of memory.
    Record(control::RecordArgs),
    /// Replay a trace: how much memory does this load need?
    Replay(replay::ReplayArgs),
    /// Show what a running cache does, on a screen: memory, devices, who waits, files.
    Top(top::TopArgs),
    /// List the running caches.
    Caches(control::CachesArgs),
    /// Write a script that lets a shell complete commands and options.
    Completions(service::CompletionsArgs),
    /// Write the manual's pages, one for each command.
    Man(service::ManArgs),
}

fn main() -> ExitCode {
    complete::answer_if_a_shell_asks();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return tell(&told),
    };
    let result = match cli.command {
        // first of all: its memory counts
        Command::Lab(lab::Command::Worker) => return worker::serve(),
        Command::Demo(args) => demo::demo(&args),
        Command::Lab(command) => lab::run(command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Slowdisk(args) => slowdisk::run(&args),
        Command::Mount(args) => mount::mount(&args),
        Command::Umount(args) => umount::umount(&args),
        Command::Set(args) => control::set(&args),
        Command::Inspect(args) => control::inspect(&args),
        Command::Stat(args) => control::stat(&args),
        Command::Record(args) => control::record(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Top(args) => top::top(&args),
        Command::Caches(args) => control::caches(&args),
        Command::Completions(args) => service::completions(&args),
        Command::Man(args) => service::man(&args),
    };
    result.unwrap_or_else(Failure::end)
}

/// Help, the version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> ExitCode {
    match told.print() {
        // clap does not flush what it writes to stdout, and nobody looks at the end.
        Ok(()) => match io::stdout().flush() {
            Ok(()) => ExitCode::from(told.exit_code() as u8),
            Err(error) => Failure::from(error).end(),
        },
        Err(error) => Failure::from(error).end(),
    }
}

/// Why the program ends with something else than its result.
struct Failure {
    code: u8,
    /// `None` where there is nobody left to tell.
    message: Option<String>,
}

impl Failure {
    /// Says why.
    fn end(self) -> ExitCode {
        if let Some(message) = self.message {
            say!("millpond: {message}");
        }
        ExitCode::from(self.code)
    }

    fn bad_usage(message: String) -> Failure {
        Failure {
            code: 2,
            message: Some(message),
        }
    }
}

impl From<millpond_lab::LabError> for Failure {
    fn from(error: millpond_lab::LabError) -> Failure {
        Failure {
            code: error.exit_code(),
            message: Some(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        // `millpond lab list | head -1`: whoever read has what they wanted
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        Failure {
            code: u8::from(!is_closed),
            message: (!is_closed).then(|| format!("cannot write: {error}")),
        }
    }
}
