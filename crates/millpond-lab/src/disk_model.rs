//! A modelled disk as people type it: `hdd`, `hdd,wcache=64M`, `sata-ssd,burst=0`.
//!
//! A name, then settings that differ from the model's own, separated by commas. Everything that takes a modelled disk
//! reads it here: `lab run --device`, `slowdisk --model`.

use crate::error::{LabError, Result};
use millpond::internal::quantity::{parse_size, parse_time, size_typed};
use millpond_core::units::{Bytes, Nanos};
use millpond_sim::disk::{HddOrder, HddParameters, Model, ModelParameters, RamParameters, SsdParameters};
use std::fmt;
use std::str::FromStr;

/// The models, separated by commas.
pub const NAMES: &str = "hdd, sata-ssd, nvme, ram";

/// A modelled disk: which model, with which settings. Its text is what it is read from: the model's name, and the
/// settings that are not the model's own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiskModel(ModelParameters);

impl DiskModel {
    /// The hard disk as it is.
    pub fn hdd() -> DiskModel {
        DiskModel(ModelParameters::Hdd(HddParameters::default()))
    }

    /// A disk of its own, at rest.
    ///
    /// # Errors
    /// Never, since the settings were tried when they were read; the type says otherwise.
    pub fn model(&self) -> Result<Model> {
        Model::new(&self.0).map_err(|e| LabError::BadValue {
            option: "the model",
            value: self.to_string(),
            allowed: e.to_string(),
            instead: "change that setting".into(),
        })
    }

    /// The settings.
    pub fn parameters(&self) -> &ModelParameters {
        &self.0
    }

    /// Whether a read elsewhere costs a seek.
    pub fn is_rotational(&self) -> bool {
        matches!(self.0, ModelParameters::Hdd(_))
    }

    /// About how fast it takes a large amount of writes, in bytes a second.
    pub fn write_bytes_per_s(&self) -> f64 {
        match self.0 {
            ModelParameters::Hdd(hdd) => hdd.media_bytes_per_s as f64,
            // Between the two rates: what comes fits into the burst buffer in part, most often.
            ModelParameters::SataSsd(ssd) | ModelParameters::Nvme(ssd) => {
                let (burst, sustained) = (ssd.write_burst_bytes_per_s, ssd.write_sustained_bytes_per_s);
                0.5 * (burst as f64 + sustained as f64)
            }
            ModelParameters::Ram(ram) => ram.bytes_per_s as f64,
        }
    }
}

impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        f.write_str(name)?;
        let own = named(name).map(|own| settings(&own)).unwrap_or_default();
        for (setting, own) in settings(&self.0).into_iter().zip(own) {
            if setting != own {
                write!(f, ",{}={}", setting.0, setting.1)?;
            }
        }
        Ok(())
    }
}

impl FromStr for DiskModel {
    type Err = LabError;

    fn from_str(text: &str) -> Result<DiskModel> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut parameters = named(name).ok_or_else(|| LabError::UnknownName {
            what: "model of a disk",
            value: name.into(),
            allowed: NAMES.into(),
        })?;
        let all: Vec<&str> = settings(&parameters).iter().map(|&(key, _)| key).collect();
        for part in parts {
            let bad = |allowed: String| LabError::BadValue {
                option: "setting of the model",
                value: format!("`{part}`"),
                allowed,
                instead: format!("the settings of {name} are {}", all.join(", ")),
            };
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad("a setting is NAME=VALUE".into()))?;
            match &mut parameters {
                ModelParameters::Hdd(hdd) => set_hdd(hdd, key, value),
                ModelParameters::SataSsd(ssd) | ModelParameters::Nvme(ssd) => set_ssd(ssd, key, value),
                ModelParameters::Ram(ram) => set_ram(ram, key, value),
            }
            .map_err(bad)?;
        }
        let disk = DiskModel(parameters);
        disk.model()?;
        Ok(disk)
    }
}

/// The model of that name, as it is. `ssd` is what `sata-ssd` was called before there were two.
fn named(name: &str) -> Option<ModelParameters> {
    Some(match name {
        "hdd" => ModelParameters::Hdd(HddParameters::default()),
        "sata-ssd" | "ssd" => ModelParameters::SataSsd(SsdParameters::default()),
        "nvme" => ModelParameters::Nvme(SsdParameters::nvme()),
        "ram" => ModelParameters::Ram(RamParameters::default()),
        _ => return None,
    })
}

/// All settings with their values, as they are typed.
fn settings(parameters: &ModelParameters) -> Vec<(&'static str, String)> {
    let rate = |bytes_per_s: u64| size_typed(Bytes(bytes_per_s));
    match parameters {
        ModelParameters::Hdd(p) => vec![
            ("wcache", size_typed(p.write_cache)),
            ("rate", rate(p.media_bytes_per_s)),
            ("rpm", p.revolutions_per_minute.to_string()),
            ("seek-min", time(p.seek_min)),
            ("seek-max", time(p.seek_max)),
            ("capacity", size_typed(p.capacity)),
            ("depth", p.queue_depth.to_string()),
            ("order", order(p.order).into()),
            ("age", time(p.age_max)),
            ("look-ahead", size_typed(p.look_ahead)),
            ("link", rate(p.link_bytes_per_s)),
        ],
        ModelParameters::SataSsd(p) | ModelParameters::Nvme(p) => vec![
            ("burst", size_typed(p.burst_buffer)),
            ("burst-rate", rate(p.write_burst_bytes_per_s)),
            ("sustained-rate", rate(p.write_sustained_bytes_per_s)),
            ("read-latency", time(p.read_latency)),
            ("read-rate", rate(p.read_bytes_per_s)),
            ("channels", p.channels.to_string()),
            ("stripe", size_typed(p.stripe)),
            ("depth", p.queue_depth.to_string()),
            ("link", rate(p.link_bytes_per_s)),
        ],
        ModelParameters::Ram(p) => vec![
            ("rate", rate(p.bytes_per_s)),
            ("latency", time(p.latency)),
            ("depth", p.queue_depth.to_string()),
        ],
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
            let found = ORDERS.into_iter().find(|&known| order(known) == value);
            hdd.order = found.ok_or("the orders are shortest, circular and arrival")?;
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

fn set_ram(ram: &mut RamParameters, key: &str, value: &str) -> Result<(), String> {
    match key {
        "rate" => ram.bytes_per_s = parse_size(value)?.0,
        "latency" => ram.latency = parse_time(value)?,
        "depth" => ram.queue_depth = number(value)?,
        _ => return Err("there is no such setting".into()),
    }
    Ok(())
}

const ORDERS: [HddOrder; 3] = [
    HddOrder::ShortestPositioning,
    HddOrder::Circular,
    HddOrder::Arrival,
];

fn order(order: HddOrder) -> &'static str {
    match order {
        HddOrder::ShortestPositioning => "shortest",
        HddOrder::Circular => "circular",
        HddOrder::Arrival => "arrival",
    }
}

fn time(span: Nanos) -> String {
    format!("{}us", span.0 as f64 / 1e3)
}

fn number(value: &str) -> Result<u32, String> {
    value
        .parse()
        .map_err(|_| format!("`{value}` is not a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let text = text.replace("sata-ssd", "nvme");
        assert_eq!(read(&text).unwrap(), ModelParameters::Nvme(changed));
    }

    #[test]
    fn disk_is_printed_as_it_can_be_read_again() {
        for (typed, printed) in [
            ("hdd", "hdd"),
            ("ssd", "sata-ssd"),
            ("hdd, wcache=64M", "hdd,wcache=64M"),
            ("hdd,rpm=7200,order=shortest", "hdd"),
            (
                "hdd,seek-min=0.0005ms,order=arrival",
                "hdd,seek-min=0.5us,order=arrival",
            ),
            ("sata-ssd,burst=0,link=1GB", "sata-ssd,burst=0,link=1000000000"),
            ("nvme,channels=8", "nvme,channels=8"),
            (
                "ram,rate=1G,latency=0us,depth=1",
                "ram,rate=1G,latency=0us,depth=1",
            ),
        ] {
            let disk: DiskModel = typed.parse().unwrap();
            assert_eq!(disk.to_string(), printed);
            assert_eq!(printed.parse::<DiskModel>().unwrap(), disk);
            assert_eq!(Some(disk.model().unwrap().name()), printed.split(',').next());
        }
    }

    #[test]
    fn mistake_is_answered_with_what_is_allowed() {
        for (text, parts) in [
            ("floppy", &["`floppy`", "hdd, sata-ssd, nvme, ram"][..]),
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
