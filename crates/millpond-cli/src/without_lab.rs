//! The laboratory's commands in a build without it: known, but not available.

use crate::failure::{EXIT_UNAVAILABLE, Failure};
use std::ffi::OsString;
use std::process::ExitCode;

/// Any arguments.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

pub(crate) type DemoArgs = Ignored;
pub(crate) type LabArgs = Ignored;
pub(crate) type PlaygroundArgs = Ignored;
pub(crate) type ReplayArgs = Ignored;
pub(crate) type SlowdiskArgs = Ignored;

pub(crate) fn demo(_: &DemoArgs) -> Result<ExitCode, Failure> {
    Err(needs_lab("demo"))
}

pub(crate) fn lab(_: LabArgs) -> Result<ExitCode, Failure> {
    Err(needs_lab("lab"))
}

pub(crate) fn playground(_: &PlaygroundArgs) -> Result<ExitCode, Failure> {
    Err(needs_lab("playground"))
}

pub(crate) fn replay(_: &ReplayArgs) -> Result<ExitCode, Failure> {
    Err(needs_lab("replay"))
}

pub(crate) fn slowdisk(_: &SlowdiskArgs) -> Result<ExitCode, Failure> {
    Err(needs_lab("slowdisk"))
}

/// Why a command does nothing here, and how to get it.
pub(crate) fn needs_lab(command: &str) -> Failure {
    Failure {
        code: EXIT_UNAVAILABLE,
        message: Some(format!(
            "`millpond {command}` needs the laboratory, and this program was built without it: build it with the feature `lab`, \
             as it is by default (`cargo build --release -p millpond-cli`)"
        )),
    }
}
