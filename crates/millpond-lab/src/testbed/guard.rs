//! The process that puts back what a run has changed, if that run is killed: this program again, as `lab undo TESTBED`.
//!
//! ```text
//!   the run                                  its guard
//!   keeps the guard's stdin open             waits for the end of stdin
//!   undoes everything, closes stdin ──────►  finds nothing to undo, ends
//!   is killed ────────────────────────────►  undoes what the undo log has
//! ```

use super::undo_log::{self, RUN_DIR};
use crate::error::{LabError, Result};
use crate::program::Program;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

/// A guard at its post. Undo before it is dropped, or it does.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Posts one for that testbed, before anything is changed.
    ///
    /// # Errors
    /// The system's, if it starts no process.
    pub(super) fn post(program: &Program, testbed: &str) -> Result<Guard> {
        let program = program.sibling("undo");
        Command::new(&program.path)
            .args(&program.args)
            .arg(testbed)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the run, which undoes everything itself
            .process_group(0)
            .spawn()
            .map(Guard)
            .map_err(|e| LabError::io("starting the process that puts settings back", e))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The guard's side: waits until its run has closed stdin, or has died, and undoes what is left of that testbed. Returns
/// what the process should exit with.
pub fn undo(testbed: &str) -> ExitCode {
    let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
    match undo_log::undo_of(Path::new(RUN_DIR), testbed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say!("millpond lab: {why}");
            ExitCode::FAILURE
        }
    }
}
