//! Commands that need the laboratory: the feature `lab`, on by default. `without_lab.rs` has the same names for a build
//! without it.

mod complete;
mod demo;
mod experiments;
mod output;
mod playground;
mod progress;
mod replay;
mod slowdisk;

pub(crate) use demo::{DemoArgs, demo};
pub(crate) use experiments::{LabArgs, lab};
pub(crate) use playground::{PlaygroundArgs, playground};
pub(crate) use replay::{ReplayArgs, replay};
pub(crate) use slowdisk::{SlowdiskArgs, slowdisk};

use crate::failure::Failure;
use millpond_lab::LabError;

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        Failure {
            code: error.exit_code(),
            message: Some(error.to_string()),
        }
    }
}
