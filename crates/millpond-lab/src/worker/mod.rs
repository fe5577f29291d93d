//! Each run on real files happens in a process of its own.
//!
//! ```text
//!   parent                                            child: the same program, `lab worker`
//!   starts it, one line of JSON into its stdin ──►    reads the line, enters the memory group,
//!                                                     opens the target, performs the workload
//!   shows progress       ◄── JSON lines on stdout ──  {"progress": …} several times a second
//!   keeps the outcome    ◄──────────────────────────  {"outcome": …} or {"failed": "…"}, then exits
//!   repeats it on failure ◄── stderr ───────────────  panics and whatever else
//!   keeps stdin open                                  ends itself when stdin ends: the parent is gone
//! ```
//!
//! So peak memory, limits and caches belong to the run, a crash ends one run, and a run that hangs can be
//! ended. The child has a process group of its own: Ctrl-C reaches the parent only, which then ends the
//! child and cleans up after it.

mod serve;

pub use serve::{perform, serve};

use crate::error::{LabError, Result};
use crate::memory_group::Entry;
use crate::outcome::Outcome;
use crate::program::Program;
use crate::setup::Setup;
use crate::watch::Proceed;
use crate::workload::{Progress, Workload};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The request to the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The memory group to enter first.
    pub enter: Option<Entry>,
    /// How to open the target.
    pub setup: Setup,
    /// What to do with it.
    pub workload: Workload,
}

/// The child's message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It is at work.
    Progress(Progress),
    /// It is done.
    Outcome(Box<Outcome>),
    /// It could not: why, as a sentence for the user.
    Failed(String),
}

/// A run that writes and reads nothing for this long is stuck: no disk takes that long for a mebibyte.
const STUCK: Duration = Duration::from_secs(180);
/// How soon an interruption is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How much of the child's stderr to keep: a panic with its backtrace.
const STDERR_BYTES_MAX: u64 = 16 << 10;

/// Performs a run in a process of its own and waits for it. `name` names the run in errors.
///
/// # Errors
/// [`LabError::RunFailed`] with the process's own words, [`LabError::Interrupted`] once `progress` says stop; either way
/// the process has ended.
pub fn run(
    program: &Program,
    request: &Request,
    name: &str,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let failed = |why: String| LabError::RunFailed {
        row: name.into(),
        why,
    };
    let worker = Worker::start(program, request).map_err(failed)?;
    let mut last = Progress::default();
    let mut alive = Instant::now();
    loop {
        match worker.events.recv_timeout(POLL) {
            Ok(Ok(Event::Outcome(outcome))) => {
                let ended = worker.end();
                ended.map_err(|e| LabError::io("waiting for a run's process", e))?;
                return Ok(*outcome);
            }
            Ok(Ok(Event::Failed(why))) => return Err(failed(why)),
            Ok(Ok(Event::Progress(now))) => {
                if now.beat != last.beat || now.doing != last.doing {
                    alive = Instant::now();
                }
                last = now;
            }
            Ok(Err(garbled)) => return Err(failed(garbled)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(failed(worker.died(request))),
        }
        if progress(last.clone()) == Proceed::Stop {
            return Err(LabError::Interrupted);
        }
        if alive.elapsed() > STUCK {
            return Err(failed(stuck(&last)));
        }
    }
}

/// A run's process, and what it says.
struct Worker {
    process: Running,
    /// Open for as long as the run is wanted.
    stdin: ChildStdin,
    /// Each line, or what is wrong with it. Ends with the process.
    events: Receiver<Result<Event, String>>,
    complaints: JoinHandle<String>,
}

impl Worker {
    /// Starts it and sends the request, or says why that can't be.
    fn start(program: &Program, request: &Request) -> Result<Worker, String> {
        let mut line = serde_json::to_string(request).map_err(|e| format!("cannot be described: {e}"))?;
        line.push('\n');
        let child = Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("its process could not be started: {e}"))?;
        let mut process = Running(child);
        let child = &mut process.0;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its process has no pipes".into());
        };
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.take(STDERR_BYTES_MAX).read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let (send, events) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                let event = serde_json::from_str::<Event>(&line).map_err(|e| format!("said `{line}`: {e}"));
                if send.send(event).is_err() {
                    return;
                }
            }
        });
        // if it has already died, its stderr says more than a broken pipe
        let _ = stdin.write_all(line.as_bytes());
        Ok(Worker {
            process,
            stdin,
            events,
            complaints,
        })
    }

    /// Waits until it has ended, which it does once its stdin does.
    fn end(self) -> io::Result<ExitStatus> {
        let mut process = self.process;
        drop(self.stdin);
        process.0.wait()
    }

    /// Why it has ended without a result.
    fn died(mut self, request: &Request) -> String {
        let status = self.process.0.wait().ok();
        died(status, &self.complaints.join().unwrap_or_default(), request)
    }
}

fn stuck(last: &Progress) -> String {
    let doing = match last.doing.as_str() {
        "" => "starting",
        doing => doing,
    };
    format!(
        "nothing moved for {} s while {doing} ({}); its process was ended",
        STUCK.as_secs(),
        last.detail
    )
}

fn died(status: Option<ExitStatus>, said: &str, request: &Request) -> String {
    let how = match status {
        Some(status) if status.signal() == Some(9) && request.enter.is_some() => format!(
            "its process was killed, probably for lack of memory: {} is too little for it (--memory)",
            request.setup.memory
        ),
        Some(status) => format!("its process ended without a result ({status})"),
        None => "its process ended without a result".into(),
    };
    if said.is_empty() {
        how
    } else {
        format!("{how}; it said: {said}")
    }
}

/// A child that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // both do nothing to a child that has been waited for
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Device;
    use crate::workload::axboe2016::{Axboe2016, Phase};
    use millpond_core::units::Bytes;

    fn request() -> Request {
        Request {
            enter: None,
            setup: Setup {
                target: "kernel".into(),
                variant: "direct".into(),
                device: Device::Real,
                dir: "/tmp".into(),
                memory: Bytes::from_mib(64),
                read_latency_goal: None,
                seed: 1,
            },
            workload: Workload::Axboe2016(Axboe2016 {
                phase: Phase::ReaderAlone,
                files: 1,
                file_bytes: 4096,
                writers: 1,
                read_file_bytes: 4096,
                reader_alone_ms: 1,
                seed: 1,
            }),
        }
    }

    fn shell(script: &str) -> Result<Outcome> {
        let program = Program {
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
        };
        run(&program, &request(), "the row", &mut |_| Proceed::Yes)
    }

    #[test]
    fn the_outcome_is_what_the_child_said() {
        let outcome = shell(
            r#"read line; case $line in *'"target":"kernel"'*) ;; *) exit 9;; esac
            echo '{"progress":{"doing":"writing","share":0.5,"detail":"x","beat":1}}'
            echo '{"outcome":{"measures":[{"metric":"m_us","unit":"us","value":1.5}],"latency_curve":[],"series":[],"settings":[],"warnings":[]}}'"#,
        );
        assert_eq!(outcome.unwrap().value("m_us"), Some(1.5));
    }

    #[test]
    fn a_child_that_fails_is_quoted() {
        let error = shell(r#"read line; echo '{"failed":"no room left"}'"#)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "the row: no room left");
        let error = shell("echo a reason >&2; exit 7").unwrap_err().to_string();
        assert!(
            error.contains("exit status: 7") && error.contains("a reason"),
            "{error}"
        );
        let error = shell("echo nonsense").unwrap_err().to_string();
        assert!(error.contains("`nonsense`"), "{error}");
        let error = shell("kill -SEGV $$").unwrap_err().to_string();
        assert!(error.contains("signal: 11"), "{error}");
    }

    #[test]
    fn stopping_ends_a_child_that_would_go_on() {
        let program = Program {
            path: "/bin/sh".into(),
            args: vec!["-c".into(), "echo $$ >&2; while :; do read line; done".into()],
        };
        let result = run(&program, &request(), "the row", &mut |_| Proceed::Stop);
        assert!(matches!(result, Err(LabError::Interrupted)), "{result:?}");
    }
}
