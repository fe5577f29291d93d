//! `millpond store`: what people do with a store at a prompt.
//!
//! A program of its own, since a client of object stores is as much code again as all the rest of `millpond`, and compiles C.
//! `millpond store …` starts it. Results go to stdout, progress and errors to stderr.
//!
//! ```text
//!   3  show  copy  change  verify  mount   commands
//!   2  access                           a store, for reading and for writing
//!   1  place  progress  stopping  daemon  syslog
//!   0  failure
//! ```
#![forbid(unsafe_code)]

/// A line on standard error, if that can be written to.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod access;
mod change;
mod copy;
#[path = "../../../millpond-cli/src/daemon.rs"]
#[allow(dead_code, reason = "`millpond mount` uses the rest")]
mod daemon;
mod failure;
mod mount;
mod place;
mod progress;
mod show;
mod stopping;
#[path = "../../../millpond-cli/src/syslog.rs"]
mod syslog;
mod verify;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  millpond store cp data.db file:///var/tmp/pond//data.db      makes a store in a folder, and puts a file there
  millpond store ls --long s3://bucket/prefix                  the files of a store, with their lengths
  millpond store cp s3://bucket/prefix//a/file .               a file of it, as of one commit
  millpond store cat s3://bucket/prefix//a/file | head
  millpond store mount s3://bucket/prefix /mnt                 as a directory, for any program
  millpond store verify s3://bucket/prefix                     reads all of it, and says what is damaged

A store is s3://bucket/prefix or file:///folder. A file in it has two slashes before its name. Settings and keys of S3 are
AWS' own: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, or the profile AWS_PROFILE.
Exit codes: 0 done, 1 failed, or something is damaged, 2 bad command line, 3 no FUSE or not allowed to mount, 4 another
writer has the store.";

/// Files in an object store: list, copy, mount, verify, and take a store over.
#[derive(Parser)]
#[command(
    name = "millpond store",
    bin_name = "millpond store",
    version,
    arg_required_else_help = true
)]
#[command(after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the files of a store.
    Ls(show::LsArgs),
    /// Say what a store is, or a file in it: commits, writer, sizes, snapshots.
    Stat(show::StatArgs),
    /// Say what is stored, by kind of object, and how much of it files have.
    Usage(show::UsageArgs),
    /// Write files of a store to standard output.
    Cat(copy::CatArgs),
    /// Copy files into a store, in one commit, or out of one.
    Cp(copy::CpArgs),
    /// Remove files, in one commit.
    Rm(change::RmArgs),
    /// Keep what a store has under a name; list these; give one up.
    Snapshot(change::SnapshotArgs),
    /// Take a store from a writer that has not closed it, and close it.
    TakeOver(change::TakeOverArgs),
    /// Mount a store as a directory, for any program.
    Mount(mount::MountArgs),
    /// Read all of a store, and compare every checksum and every reference.
    Verify(verify::VerifyArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return print(&error),
    };
    let done = match cli.command {
        Command::Ls(args) => show::ls(&args),
        Command::Stat(args) => show::stat(&args),
        Command::Usage(args) => show::usage(&args),
        Command::Cat(args) => copy::cat(&args),
        Command::Cp(args) => copy::cp(&args),
        Command::Rm(args) => change::rm(&args),
        Command::Snapshot(args) => change::snapshot(&args),
        Command::TakeOver(args) => change::take_over(&args),
        Command::Mount(args) => mount::mount(&args),
        Command::Verify(args) => verify::verify(&args),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Help, the version, or what is wrong with the command line.
fn print(error: &clap::Error) -> ExitCode {
    match error.print().and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::from(error.exit_code() as u8),
        Err(error) => Failure::from(error).report(),
    }
}
