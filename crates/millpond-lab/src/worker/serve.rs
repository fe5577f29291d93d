//! The child's side: one request from stdin, events to stdout.

use super::{Event, Request};
use crate::backend::{self, Driver};
use crate::error::{LabError, Result};
use crate::outcome::Outcome;
use crate::watch::Proceed;
use crate::workload::{self, Progress, Workload};
use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;
use std::thread;

/// Serves one request and returns what the process should exit with. Call it before anything else touches
/// memory: the request may name a memory group to be in.
pub fn serve() -> ExitCode {
    let mut line = String::new();
    let request = io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|e| LabError::io("reading the request", e))
        .and_then(|_| {
            serde_json::from_str::<Request>(&line)
                .map_err(|e| LabError::io("this command is for the laboratory's own use; its request", e))
        });
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            say!("{error}");
            return ExitCode::from(2);
        }
    };
    end_with_parent();
    let mut progress = |progress: Progress| match say(&Event::Progress(progress)) {
        Ok(()) => Proceed::Yes,
        Err(_) => Proceed::Stop,
    };
    let (event, code) = match perform(&request, &mut progress) {
        Ok(outcome) => (Event::Outcome(Box::new(outcome)), ExitCode::SUCCESS),
        Err(error) => (Event::Failed(error.to_string()), ExitCode::FAILURE),
    };
    match say(&event) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Performs a request in this process.
///
/// # Errors
/// Whatever the memory group, the target or the workload answer.
pub fn perform(request: &Request, progress: &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome> {
    if let Some(group) = &request.enter {
        group.enter()?;
    }
    if let Workload::Kim2020(work) = &request.workload {
        // Memory, not files: nothing to open.
        return work.perform(&request.setup, progress);
    }
    if let Workload::Mapped(work) = &request.workload {
        return work.perform(&request.setup, progress);
    }
    match backend::find(&request.setup.target)?.driver {
        Driver::Files(open) => {
            let target = open(&request.setup)?;
            workload::perform(&request.workload, &*target, &request.setup, progress)
        }
        Driver::InProcess(run) => run(&request.setup, &request.workload, progress),
    }
}

fn say(event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// The parent holds the other end of stdin: when that is gone, no process reads the result.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
        std::process::exit(1);
    });
}
