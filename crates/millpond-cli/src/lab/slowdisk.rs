//! `millpond slowdisk`: a file as slow as a disk, for a loop device and a file system of the kernel's.

use crate::failure::Failure;
use crate::signals::Signals;
use millpond::internal::quantity::{parse_size, size};
use millpond_core::units::Bytes;
use millpond_lab::disk_model::DiskModel;
use millpond_lab::slowdisk::{Mounted, Options, Unmounted};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

const HELP: &str = "\
Examples (root, for the loop device):
  mkdir -p /run/slow
  millpond slowdisk /run/slow --model hdd --size 10G &
  losetup --find --show --direct-io=on --sector-size 4096 /run/slow/disk.img
  millpond slowdisk /run/slow --model hdd --wcache 64M
  millpond slowdisk /run/slow --model sata-ssd,burst=0,depth=8

Beside disk.img there are:
  stats      what the disk has done since it was made or reset, as JSON: cat /run/slow/stats
  control    echo untimed > /run/slow/control    no service time, to set up a file system; `timed` ends that
             echo reset > /run/slow/control      count anew, with an empty burst buffer

It prints the path of disk.img once that exists, and ends when it is unmounted, or unmounts itself at Ctrl-C.
Exit codes: 0 unmounted, 1 failed, 2 bad command line, 3 no FUSE or not allowed to mount.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct SlowdiskArgs {
    /// The directory for disk.img: an empty one.
    #[arg(value_name = "DIR")]
    mount_point: PathBuf,
    /// The disk: hdd, sata-ssd, nvme or ram, with its settings, such as hdd,rpm=5400,wcache=64M.
    #[arg(long, default_value = "hdd", value_name = "MODEL")]
    model: String,
    /// Its size, in memory that is allocated as it is written to.
    #[arg(long, default_value = "8G", value_name = "SIZE", value_parser = parse_size)]
    size: Bytes,
    /// The hard disk's volatile write cache. Default: off.
    #[arg(long, value_name = "SIZE")]
    wcache: Option<String>,
    /// The flash disk's burst buffer. Default: the model's.
    #[arg(long, value_name = "SIZE")]
    burst: Option<String>,
    /// Keep its bytes in this file instead of memory.
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
}

pub(crate) fn slowdisk(args: &SlowdiskArgs) -> Result<ExitCode, Failure> {
    let options = args.options()?;
    let signals = Signals::catch()?;
    let mut disk = Mounted::new(&options)?;
    for notice in &disk.notices {
        say!("millpond slowdisk: {notice}");
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", disk.image().display())?;
    stdout.flush()?;
    say!(
        "millpond slowdisk: {} as {} is at {}; Ctrl-C ends it",
        size(options.size),
        options.model,
        disk.image().display()
    );
    while !disk.is_ended() && signals.caught().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    if !disk.is_ended() && disk.unmount()? == Unmounted::Detached {
        say!(
            "millpond slowdisk: {} is in use: it is detached, and ends when its last user has closed it; \
             another Ctrl-C ends it at once, with errors for them",
            disk.image().display()
        );
    }
    disk.wait()?;
    Ok(ExitCode::SUCCESS)
}

impl SlowdiskArgs {
    fn options(&self) -> Result<Options, Failure> {
        let mut model = self.model.clone();
        for (name, value) in [("wcache", &self.wcache), ("burst", &self.burst)] {
            if let Some(value) = value {
                model = format!("{model},{name}={value}");
            }
        }
        Ok(Options {
            mount_point: self.mount_point.clone(),
            model: model.parse::<DiskModel>()?,
            size: self.size,
            used: None,
            backing: self.backing.clone(),
        })
    }
}
