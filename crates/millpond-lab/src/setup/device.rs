//! The device under a target, as `--device` takes it.

use crate::disk_model::{DiskModel, NAMES};
use crate::error::LabError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The device under a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// Whatever holds the directory.
    Real,
    /// A modelled disk's service times.
    Modelled(DiskModel),
}

impl Device {
    /// The modelled disk; that of the post's kind where the device is real.
    pub fn model_or_hdd(self) -> DiskModel {
        match self {
            Device::Real => DiskModel::hdd(),
            Device::Modelled(model) => model,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Real => f.write_str("real"),
            Device::Modelled(model) => model.fmt(f),
        }
    }
}

impl From<Device> for String {
    fn from(device: Device) -> String {
        device.to_string()
    }
}

impl FromStr for Device {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Device, LabError> {
        if text == "real" {
            return Ok(Device::Real);
        }
        text.parse().map(Device::Modelled).map_err(|error| match error {
            LabError::UnknownName { value, .. } => LabError::UnknownName {
                what: "device",
                value,
                allowed: format!("real, {NAMES}"),
            },
            other => other,
        })
    }
}

impl TryFrom<String> for Device {
    type Error = LabError;

    fn try_from(text: String) -> Result<Device, LabError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_text_on_the_way_to_a_runs_process() {
        for text in ["real", "hdd", "hdd,wcache=64M", "sata-ssd", "nvme", "ram"] {
            let device: Device = text.parse().unwrap();
            let line = serde_json::to_string(&device).unwrap();
            assert_eq!(line, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Device>(&line).unwrap(), device);
        }
        let error = "floppy".parse::<Device>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown device `floppy`; allowed: real, hdd, sata-ssd, nvme, ram"
        );
    }
}
