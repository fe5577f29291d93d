//! How this program starts itself for the laboratory's own jobs: a run, a modelled disk.

use std::ffi::OsString;
use std::path::PathBuf;

/// How to start a process.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The arguments that make it serve a run.
    pub args: Vec<OsString>,
}

impl Program {
    /// This same program, started with `args`; found even if its file has been replaced since.
    pub fn this(args: &[&str]) -> Program {
        Program {
            path: "/proc/self/exe".into(),
            args: args.iter().map(OsString::from).collect(),
        }
    }

    /// The same program for another of the laboratory's own jobs, such as `disk`: the last argument says which.
    #[must_use]
    pub fn sibling(&self, job: &str) -> Program {
        let others = self.args.len().saturating_sub(1);
        let args = self.args.iter().take(others).cloned();
        Program {
            path: self.path.clone(),
            args: args.chain([job.into()]).collect(),
        }
    }
}
