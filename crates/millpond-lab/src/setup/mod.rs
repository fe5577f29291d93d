//! What a run's process must know to open its target.

mod device;

pub use device::Device;

use millpond_core::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All that a target's process must know to open it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The back end's name.
    pub target: String,
    /// The variant as the target knows it: a preset's name, or what it wrote here itself.
    pub variant: String,
    /// The device.
    pub device: Device,
    /// The directory of the files.
    pub dir: PathBuf,
    /// The memory that it may use, in bytes.
    #[serde(with = "bytes_as_number")]
    pub memory: Bytes,
    /// The read latency goal in nanoseconds, if one was given.
    #[serde(with = "nanos_as_number")]
    pub read_latency_goal: Option<Nanos>,
    /// The seed of everything random.
    pub seed: u64,
}

#[cfg(test)]
impl Setup {
    /// Real files in `dir`.
    pub(crate) fn of_files(target: &str, variant: &str, dir: &std::path::Path, memory: Bytes) -> Setup {
        Setup {
            target: target.into(),
            variant: variant.into(),
            device: Device::Real,
            dir: dir.to_owned(),
            memory,
            read_latency_goal: None,
            seed: 1,
        }
    }
}

mod bytes_as_number {
    use super::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(bytes.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        u64::deserialize(d).map(Bytes)
    }
}

mod nanos_as_number {
    use super::Nanos;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(nanos: &Option<Nanos>, s: S) -> Result<S::Ok, S::Error> {
        nanos.map(|n| n.0).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nanos>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_way_to_the_child() {
        let setup = Setup {
            target: "kernel".into(),
            variant: "direct".into(),
            device: Device::Real,
            dir: "/a b/\u{e9}".into(),
            memory: Bytes::from_mib(512),
            read_latency_goal: Some(Nanos::from_millis(40)),
            seed: u64::MAX,
        };
        let json = serde_json::to_string(&setup).unwrap();
        assert_eq!(serde_json::from_str::<Setup>(&json).unwrap(), setup);
    }
}
