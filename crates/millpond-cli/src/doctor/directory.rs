//! The directory: its file system and disk, and how the engine uses them.

use super::{Check, fuse, trial};
use millpond::device::{Access, DeviceFile};
use millpond::internal::ScratchDir;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::path::Path;

/// Buffered transfers that leave nothing in the page cache (Linux 6.14); rustix has no name for it yet.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

pub(super) fn checks(dir: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let scratch = ScratchDir::create(dir, "millpond-doctor-");
    #[cfg(feature = "lab")]
    {
        checks.push(for_lab::disk(dir));
        if scratch.is_ok() {
            checks.push(for_lab::free_space(dir));
        }
    }
    let scratch = match scratch {
        Ok(scratch) => scratch,
        Err(error) => {
            let found = format!("--dir {}: {error}", dir.display());
            checks.push(Check::missing(
                "directory",
                found,
                "give a --dir in which files can be made",
            ));
            return checks;
        }
    };
    let path = scratch.path().join("file");
    match DeviceFile::open(&path, Access::Create) {
        Ok(file) => checks.extend([direct(dir, &file), dont_cache(dir, &path, file.is_direct())]),
        Err(error) => checks.push(Check::missing(
            "directory",
            error.to_string(),
            "give another --dir",
        )),
    }
    checks.extend(trial::checks(scratch.path()));
    checks.push(fuse::check(scratch.path()));
    checks
}

/// Checks that only the laboratory needs.
#[cfg(feature = "lab")]
mod for_lab {
    use super::Check;
    use millpond::internal::quantity::size;
    use millpond_core::units::Bytes;
    use millpond_lab::measure::disk::block_device;
    use millpond_lab::{machine, scratch};
    use std::path::Path;

    /// What the laboratory writes to measure the disk; its smallest sizes need less.
    const NEEDED: Bytes = Bytes::from_mib(256);

    pub(super) fn disk(dir: &Path) -> Check {
        let mut words = Vec::new();
        words.extend(machine::file_system(dir));
        if let Some(device) = block_device(dir).and_then(|d| d.file_name().map(|n| n.to_owned())) {
            words.push(format!("on {}", device.to_string_lossy()));
        }
        words.extend(machine::scheduler(dir).map(|name| format!("scheduler {name}")));
        words.extend(machine::writeback_latency_us(dir).map(|us| format!("wbt {us} us")));
        let found = words.join(", ");
        match machine::is_in_memory(dir) {
            false => Check::ok("disk", found),
            true => Check::without(
                "disk",
                format!("{found}: this directory is in memory"),
                "the laboratory measures no disk there",
                "give a --dir on a disk",
            ),
        }
    }

    pub(super) fn free_space(dir: &Path) -> Check {
        match scratch::free_bytes(dir) {
            Some(free) if free < NEEDED => Check::missing(
                "free space",
                format!(
                    "{} are free in {} and {} are needed",
                    size(free),
                    dir.display(),
                    size(NEEDED)
                ),
                "free some, or give another --dir",
            ),
            Some(free) => Check::ok("free space", format!("{} are free", size(free))),
            None => Check::ok("free space", "the file system does not say"),
        }
    }
}

fn direct(dir: &Path, file: &DeviceFile) -> Check {
    const NAME: &str = "O_DIRECT";
    match file.is_direct() {
        true => Check::ok(
            NAME,
            format!(
                "{} supports it, in blocks of {} bytes",
                dir.display(),
                file.block_bytes()
            ),
        ),
        // The engine can do without; the laboratory's kernel row needs it to read.
        false => Check::missing(
            NAME,
            format!("{}: {}", dir.display(), file.path_taken()),
            "give a --dir on ext4, xfs or btrfs",
        ),
    }
}

/// Tried on a page that exists, or the kernel would not check the flag.
fn dont_cache(dir: &Path, path: &Path, is_direct: bool) -> Check {
    const NAME: &str = "RWF_DONTCACHE";
    let mut byte = [0];
    let asked = std::fs::write(path, [0; 4096]).and_then(|()| {
        let file = std::fs::File::open(path)?;
        Ok(rustix::io::preadv2(
            &file,
            &mut [IoSliceMut::new(&mut byte)],
            0,
            DONT_CACHE,
        )?)
    });
    match asked {
        Ok(_) => Check::ok(NAME, format!("{} supports it", dir.display())),
        Err(error) => Check::without(
            NAME,
            error.to_string(),
            match is_direct {
                true => "it is not used, because O_DIRECT is",
                false => {
                    "what the kernel has cached is dropped by advice, written pages only when they are synced"
                }
            },
            "use Linux 6.14 with ext4, xfs or btrfs",
        ),
    }
}
