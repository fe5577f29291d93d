//! `millpond doctor`: what this machine allows, found out by trying.

use crate::Failure;
use millpond_core::units::Bytes;
use millpond_lab::machine;
use millpond_lab::memory_group::MemoryGroup;
use millpond_lab::workload::data::{AlignedBuf, PAGE};
use procfs::process::Process;
use rustix::fs::OFlags;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  millpond doctor --dir /srv/data\n\nExit code: 0 unless something is missing that Millpond cannot do without."
)]
pub(crate) struct Args {
    /// Where files would be.
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// One JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    /// Whether it is there.
    ok: bool,
    /// Whether Millpond cannot do without.
    needed: bool,
    /// What was found.
    found: String,
    /// What it is for, or the way to get it.
    meaning: &'static str,
}

/// Linux before this lacks io_uring features that are relied on.
const LINUX_LEAST: (u32, u32) = (5, 19);
/// The first Linux with UFFDIO_MOVE.
const LINUX_MOVE: (u32, u32) = (6, 8);
/// Bit of CAP_SYS_PTRACE among the capabilities.
const CAP_SYS_PTRACE: u32 = 19;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if !args.dir.is_dir() {
        return Err(Failure::bad_usage(format!(
            "--dir {}: not a directory; give one in which files may be made",
            args.dir.display()
        )));
    }
    let checks = [
        linux(),
        io_uring(),
        direct(&args.dir),
        disk(&args.dir),
        memory_group(),
        userfaultfd(),
    ];
    let mut stdout = io::stdout().lock();
    for check in &checks {
        if args.json {
            serde_json::to_writer(&mut stdout, check).map_err(io::Error::from)?;
            writeln!(stdout)?;
            continue;
        }
        let mark = match (check.ok, check.needed) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "no",
        };
        writeln!(stdout, "{mark:8} {:13} {}", check.name, check.found)?;
        if !check.ok {
            writeln!(stdout, "{:23}{}", "", check.meaning)?;
        }
    }
    let is_fit = checks.iter().all(|check| check.ok || !check.needed);
    Ok(if is_fit {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn linux_version() -> Option<(u32, u32)> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn linux() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    Check {
        name: "Linux",
        ok: linux_version().is_some_and(|version| version >= LINUX_LEAST),
        needed: true,
        found: release,
        meaning: "Millpond needs Linux 5.19 or newer",
    }
}

fn io_uring() -> Check {
    let (ok, found) = match io_uring::IoUring::new(4) {
        Ok(_) => (true, "a ring could be made".to_owned()),
        Err(error) => (false, format!("no ring: {error}")),
    };
    Check {
        name: "io_uring",
        ok,
        needed: false,
        found,
        meaning: "many requests at once then go through threads; allow it with sysctl kernel.io_uring_disabled=0, or in the container's seccomp profile",
    }
}

fn direct(dir: &Path) -> Check {
    let (ok, found) = match try_direct(dir) {
        Ok(()) => (true, format!("{} takes it", dir.display())),
        Err(error) => (false, format!("{}: {error}", dir.display())),
    };
    Check {
        name: "O_DIRECT",
        ok,
        needed: true,
        found,
        meaning: "files that bypass the kernel's page cache; choose a directory on ext4, xfs or btrfs",
    }
}

/// Writes a page past the page cache and reads it back.
fn try_direct(dir: &Path) -> io::Result<()> {
    let path = dir.join(format!("millpond-doctor-{}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(&path);
    // without O_DIRECT some file systems make the file and then refuse to open it
    let removed = fs::remove_file(&path);
    let file = file?;
    removed?;
    let mut page = AlignedBuf::new(PAGE);
    page.fill(0xa5);
    file.write_all_at(&page, 0)?;
    page.fill(0);
    file.read_exact_at(&mut page, 0)?;
    if page.iter().any(|&byte| byte != 0xa5) {
        return Err(io::Error::other("what was read is not what was written"));
    }
    Ok(())
}

fn disk(dir: &Path) -> Check {
    let in_memory = machine::is_in_memory(dir);
    let mut words = Vec::new();
    words.extend(machine::file_system(dir));
    if let Some(device) = machine::block_device(dir).and_then(|d| d.file_name().map(|n| n.to_owned())) {
        words.push(format!("on {}", device.to_string_lossy()));
    }
    words.extend(machine::scheduler(dir).map(|name| format!("scheduler {name}")));
    words.extend(machine::writeback_latency_us(dir).map(|us| format!("wbt {us} us")));
    Check {
        name: "disk",
        ok: !in_memory,
        needed: false,
        found: words.join(", "),
        meaning: "this directory is in memory: the laboratory shows nothing of a disk there; give --dir on one",
    }
}

fn memory_group() -> Check {
    let (ok, found) = match MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => (
            true,
            format!("one could be made, control groups {}", group.version()),
        ),
        Err(why) => (false, why),
    };
    Check {
        name: "memory group",
        ok,
        needed: false,
        found,
        meaning: "the laboratory then leaves out the kernel's row within a memory limit",
    }
}

fn userfaultfd() -> Check {
    let has_move = linux_version().is_some_and(|version| version >= LINUX_MOVE);
    let device = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd");
    let everyone =
        fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|text| text.trim() == "1");
    let status = Process::myself().and_then(|own| own.status());
    let capable = status.is_ok_and(|status| status.capeff >> CAP_SYS_PTRACE & 1 == 1);
    let by = match (device.is_ok(), everyone, capable) {
        (true, _, _) => Some("/dev/userfaultfd opens"),
        (_, true, _) => Some("vm.unprivileged_userfaultfd is 1"),
        (_, _, true) => Some("this process has CAP_SYS_PTRACE"),
        _ => None,
    };
    let found = match (by, has_move) {
        (Some(by), true) => by.to_owned(),
        (Some(by), false) => format!("{by}, but pages cannot be moved before Linux 6.8"),
        (None, _) => "not allowed to this process".to_owned(),
    };
    Check {
        name: "userfaultfd",
        ok: by.is_some() && has_move,
        needed: false,
        found,
        meaning: "anonymous regions need it: Linux 6.8, and access to /dev/userfaultfd, vm.unprivileged_userfaultfd=1 or CAP_SYS_PTRACE",
    }
}
