//! `millpond demo`: the first command. The same writers and reader on the kernel's page cache and on Millpond, on a
//! live screen; then a verdict in one sentence, and the same on a modelled disk.
//!
//! | file | what |
//! |---|---|
//! | `show` | the state of the runs so far |
//! | `dots` | reads over time as dots of a terminal's characters |
//! | `screen` | the live screen, laid out in lines |
//! | `terminal` | the screen of a terminal, and its keys; lines where there is none |
//! | `summary` | what stays: both over one another, the table, the sentence, what to try next |
//!
//! The laboratory runs on a thread of its own, so a slow disk does not delay keys.

mod dots;
mod screen;
mod show;
mod summary;
mod terminal;

use crate::directories::default_directory;
use crate::failure::Failure;
use crate::lab::experiments::command_line;
use crate::lab::output;
use crate::signals::Signals;
use millpond_lab::LabError;
use millpond_lab::experiment::axboe2016::demo::{self, Demo, Told};
use millpond_lab::program::Program;
use millpond_lab::report::{html, json};
use millpond_lab::watch::Proceed;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

const HELP: &str = "\
Examples:
  millpond demo                                   about 40 s, files in /var/tmp
  millpond demo --dir /mnt/disk                   on another disk
  millpond demo --seconds 120 --report demo.html  longer runs, for a slow or busy disk; and a page of plots
  millpond demo 2> progress.txt | cat             lines instead of a screen

How: it writes up to 256 MiB to measure the disk, makes a file for the reader, and then runs both sides in turn, in
two to eight short rounds. In each run 50 files are written and synced while one reader reads 4 KiB at a time, at random.
The files are as large as the disk can write in the time, at most 16 GiB in a run, and equal for both sides; memory is at
most a quarter of what the trial promises, a power of two from 32 to 512 MiB. If the first round is much longer or shorter than
planned, it does not count, and the files get another size, as a note says; memory stays as it is.
Where a memory control group can be made (as root, or under `systemd-run --user --scope -p Delegate=yes`), the kernel's side
has one of Millpond's memory plus 13 MiB, which Millpond's program takes; elsewhere it has all of the machine's memory. The
last sentence says which, and the group's version: version 1 has no dirty limits of its own. Nothing else of the kernel is tuned; see
`millpond lab run axboe2016 --kernel-variant tuned`.
A difference counts if the runs of both sides don't overlap, or if it appears in each of six rounds; otherwise it says
\"not shown\", and why. That happens on a busy machine; it warns before it begins. So it ends with the post's load in
virtual time, on a modelled disk: Linux's writeback throttling and Millpond's, with the same figures on every machine.
Keys on the screen: q or Ctrl-C ends it and removes everything.
Exit codes: 0 done, whatever the difference; 1 a run failed, 2 bad command line, 3 it can't run here, 130 interrupted.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct DemoArgs {
    /// Where files are made, and removed again. Default: /var/tmp.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long it takes in seconds, about; 6 to 600. Longer runs see more of the tail.
    #[arg(long, value_name = "N", default_value_t = 40)]
    seconds: u32,
    /// Write a page with the picture, plots and all figures.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the picture alone.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Write every metric as a line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl DemoArgs {
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--report", &self.report),
            ("--svg", &self.svg),
            ("--json", &self.json),
        ];
        files
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }
}

pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    for (option, path) in args.files() {
        output::check(option, path)?;
    }
    let signals = Signals::catch()?;
    let running = Running::start(demo::Options {
        dir: args.dir.clone().unwrap_or_else(default_directory),
        seconds: args.seconds,
        seed: 1,
        program: Program::this(&["lab", "worker"]),
        command: command_line(std::env::args().skip(1)),
    })?;
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.is_empty());
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb;
    let ended = match is_screen {
        true => terminal::screen(running, &signals)?,
        false => terminal::lines(running, &signals)?,
    };
    let demo = ended.map_err(|error| match (error, signals.caught()) {
        // whatever failed during the stop failed because of it
        (_, Some(signal)) => stopped(128 + signal),
        (LabError::Interrupted, None) => stopped(130),
        (error, None) => error.into(),
    })?;
    for (option, path) in args.files() {
        write_file(&demo, option, path)?;
    }
    let colours =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut stdout = io::stdout().lock();
    let console = summary::Console {
        columns: is_screen.then(terminal::columns),
        colours,
        command: if std::env::var_os("CARGO").is_some() {
            "cargo run --release --"
        } else {
            "millpond"
        },
    };
    for line in summary::lines(&demo, &console) {
        writeln!(stdout, "{line}")?;
    }
    for (option, path) in args.files() {
        writeln!(stdout, "{}: {}", option.trim_start_matches('-'), path.display())?;
    }
    for line in summary::next(&console) {
        writeln!(stdout, "{line}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn stopped(code: u8) -> Failure {
    Failure {
        code,
        message: Some("stopped; the files it made are removed".into()),
    }
}

fn write_file(demo: &Demo, option: &str, path: &Path) -> Result<(), Failure> {
    let written = output::write(path, &|to| match option {
        "--report" => to.write_all(html::page(&demo.report).as_bytes()),
        "--svg" => to.write_all(demo.svg.as_bytes()),
        _ => json::write(&demo.report.metrics, to),
    });
    Ok(written.map_err(|e| LabError::path("cannot write", path, e))?)
}

/// The laboratory at work.
struct Running {
    told: mpsc::Receiver<Told>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Demo, LabError>>,
}

impl Running {
    fn start(options: demo::Options) -> io::Result<Running> {
        let (tell, told) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("demo".into()).spawn(move || {
            demo::run(&options, &mut |what| {
                // This thread's end shows that the screen has ended.
                let _ = tell.send(what);
                match stopped.load(Ordering::Relaxed) {
                    true => Proceed::Stop,
                    false => Proceed::Yes,
                }
            })
        })?;
        Ok(Running { told, stop, thread })
    }

    /// The result, once it is over.
    fn end(self) -> Result<Demo, LabError> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests;
