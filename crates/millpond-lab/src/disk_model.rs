//! A modelled disk as people type it: `hdd`, `hdd,wcache=64M`, `sata-ssd,burst=0`.
//!
//! A name, then settings that differ from the model's own, separated by commas. Everything that takes a modelled disk
//! reads it here: `lab run --device`, `slowdisk --model`.

use crate::error::{LabError, Result};
use crate::quantity::{parse_size, parse_time};
use millpond::device::model::{HddOrder, HddParameters, Model, ModelParameters, SsdParameters};
use std::fmt;
use std::str::FromStr;

/// The models, with another name that each of them has.
const NAMES: [(&str, Option<&str>); 2] = [("hdd", None), ("sata-ssd", Some("ssd"))];

/// A modelled disk: which model, with which settings.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskModel {
    parameters: ModelParameters,
    /// As it was typed, with the model's proper name.
    text: String,
}

impl DiskModel {
    /// A disk of its own, at rest.
    ///
    /// # Errors
    /// Never, since the settings were tried when they were read; the type says otherwise.
    pub fn model(&self) -> Result<Model> {
        Model::new(&self.parameters).map_err(|e| LabError::BadValue {
            option: "the model",
            value: self.text.clone(),
            allowed: e.to_string(),
            instead: "change that setting".into(),
        })
    }

    /// The settings.
    pub fn parameters(&self) -> &ModelParameters {
        &self.parameters
    }

    /// The model's name, without settings.
    pub fn name(&self) -> &str {
        self.text.split(',').next().unwrap_or(&self.text)
    }
}

impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for DiskModel {
    type Err = LabError;

    fn from_str(text: &str) -> Result<DiskModel> {
        let mut parts = text.split(',').map(str::trim);
        let typed = parts.next().unwrap_or_default();
        let name = NAMES
            .iter()
            .find(|(name, other)| typed == *name || Some(typed) == *other)
            .map(|(name, _)| *name)
            .ok_or_else(|| LabError::UnknownName {
                what: "model of a disk",
                value: typed.into(),
                allowed: NAMES.map(|(name, _)| name).join(", "),
            })?;
        let mut parameters = match name {
            "hdd" => ModelParameters::Hdd(HddParameters::default()),
            _ => ModelParameters::SataSsd(SsdParameters::default()),
        };
        let (mut canonical, all) = (name.to_owned(), settings(&parameters));
        for part in parts {
            let bad = |allowed: String| LabError::BadValue {
                option: "setting of the model",
                value: format!("`{part}`"),
                allowed,
                instead: format!("the settings of {name} are {all}"),
            };
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad("a setting is NAME=VALUE".into()))?;
            match &mut parameters {
                ModelParameters::Hdd(hdd) => set_hdd(hdd, key, value),
                ModelParameters::SataSsd(ssd) => set_ssd(ssd, key, value),
            }
            .map_err(bad)?;
            canonical = format!("{canonical},{key}={value}");
        }
        let disk = DiskModel {
            parameters,
            text: canonical,
        };
        disk.model()?;
        Ok(disk)
    }
}

fn settings(parameters: &ModelParameters) -> &'static str {
    match parameters {
        ModelParameters::Hdd(_) => {
            "wcache, rate, rpm, seek-min, seek-max, capacity, depth, order, age, look-ahead, link"
        }
        ModelParameters::SataSsd(_) => {
            "burst, burst-rate, sustained-rate, read-latency, read-rate, channels, stripe, depth, link"
        }
    }
}

fn set_hdd(hdd: &mut HddParameters, key: &str, value: &str) -> Result<(), String> {
    match key {
        "wcache" => hdd.write_cache = parse_size(value)?,
        "rate" => hdd.media_bytes_per_s = parse_size(value)?.0,
        "rpm" => hdd.revolutions_per_minute = number(value)?,
        "seek-min" => hdd.seek_min = parse_time(value)?,
        "seek-max" => hdd.seek_max = parse_time(value)?,
        "capacity" => hdd.capacity = parse_size(value)?,
        "depth" => hdd.queue_depth = number(value)?,
        "age" => hdd.age_max = parse_time(value)?,
        "look-ahead" => hdd.look_ahead = parse_size(value)?,
        "link" => hdd.link_bytes_per_s = parse_size(value)?.0,
        "order" => {
            hdd.order = match value {
                "shortest" => HddOrder::ShortestPositioning,
                "circular" => HddOrder::Circular,
                "arrival" => HddOrder::Arrival,
                _ => return Err("the orders are shortest, circular and arrival".into()),
            }
        }
        _ => return Err("there is no such setting".into()),
    }
    Ok(())
}

fn set_ssd(ssd: &mut SsdParameters, key: &str, value: &str) -> Result<(), String> {
    match key {
        "burst" => ssd.burst_buffer = parse_size(value)?,
        "burst-rate" => ssd.write_burst_bytes_per_s = parse_size(value)?.0,
        "sustained-rate" => ssd.write_sustained_bytes_per_s = parse_size(value)?.0,
        "read-latency" => ssd.read_latency = parse_time(value)?,
        "read-rate" => ssd.read_bytes_per_s = parse_size(value)?.0,
        "channels" => ssd.channels = number(value)?,
        "stripe" => ssd.stripe = parse_size(value)?,
        "depth" => ssd.queue_depth = number(value)?,
        "link" => ssd.link_bytes_per_s = parse_size(value)?.0,
        _ => return Err("there is no such setting".into()),
    }
    Ok(())
}

fn number(value: &str) -> Result<u32, String> {
    value
        .parse()
        .map_err(|_| format!("`{value}` is not a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_core::units::{Bytes, Nanos};

    fn read(text: &str) -> Result<ModelParameters> {
        Ok(*text.parse::<DiskModel>()?.parameters())
    }

    #[test]
    fn settings_change_what_they_name_and_nothing_else() {
        let hdd = HddParameters::default();
        assert_eq!(read("hdd").unwrap(), ModelParameters::Hdd(hdd));
        let changed = HddParameters {
            write_cache: Bytes::from_mib(64),
            media_bytes_per_s: 60_000_000,
            revolutions_per_minute: 5400,
            seek_min: Nanos::from_millis(1),
            seek_max: Nanos::from_millis(20),
            capacity: Bytes(1_000_000_000_000),
            queue_depth: 1,
            order: HddOrder::Arrival,
            age_max: Nanos::from_secs(1),
            look_ahead: Bytes(0),
            link_bytes_per_s: 100_000_000,
        };
        let text = "hdd,wcache=64M,rate=60MB,rpm=5400,seek-min=1ms,seek-max=20ms,capacity=1TB,depth=1,order=arrival,\
                    age=1s,look-ahead=0,link=100MB";
        assert_eq!(read(text).unwrap(), ModelParameters::Hdd(changed));
        let changed = SsdParameters {
            channels: 4,
            stripe: Bytes::from_kib(4),
            read_latency: Nanos::from_micros(50),
            read_bytes_per_s: 1_000_000,
            write_burst_bytes_per_s: 2_000_000,
            write_sustained_bytes_per_s: 3_000_000,
            burst_buffer: Bytes(0),
            link_bytes_per_s: 4_000_000,
            queue_depth: 8,
        };
        let text = "sata-ssd,channels=4,stripe=4K,read-latency=50us,read-rate=1MB,burst-rate=2MB,sustained-rate=3MB,\
                    burst=0,link=4MB,depth=8";
        assert_eq!(read(text).unwrap(), ModelParameters::SataSsd(changed));
    }

    #[test]
    fn disk_is_printed_as_it_can_be_read_again() {
        for (typed, printed) in [
            ("hdd", "hdd"),
            ("ssd", "sata-ssd"),
            ("hdd, wcache=64M", "hdd,wcache=64M"),
        ] {
            let disk: DiskModel = typed.parse().unwrap();
            assert_eq!(disk.to_string(), printed);
            assert_eq!(printed.parse::<DiskModel>().unwrap(), disk);
            assert_eq!(disk.model().unwrap().name(), disk.name());
        }
    }

    #[test]
    fn mistake_is_answered_with_what_is_allowed() {
        for (text, parts) in [
            ("floppy", &["`floppy`", "hdd, sata-ssd"][..]),
            ("", &["``", "hdd"]),
            ("hdd,wcache", &["`wcache`", "NAME=VALUE"]),
            ("hdd,burst=1G", &["`burst=1G`", "no such setting", "wcache"]),
            ("hdd,rpm=fast", &["`rpm=fast`", "whole number"]),
            ("hdd,rpm=0", &["revolutions_per_minute", "1 to 1000000"]),
            ("hdd,wcache=lots", &["`lots` is not a size"]),
            ("hdd,order=best", &["shortest, circular and arrival"]),
            ("sata-ssd,channels=0", &["channels", "1 to 256"]),
        ] {
            let error = text.parse::<DiskModel>().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let error = error.to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {part} is not in: {error}");
            }
        }
    }
}
