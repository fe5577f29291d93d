//! FUSE attributes, from those of the underlying file system.

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{Stat, Timespec};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file's attributes, and for how long the kernel may keep them without asking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) of_file: FileAttr,
    pub(crate) keep: Duration,
}

/// What `st_blocks` counts in.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// The blocks of a file below of which `unwritten` bytes at most are not there yet; `stat` has its length as programs see it.
/// Those count as if they were, as blocks that are reserved do on ext4: programs take a file that has fewer blocks than its
/// length for one with holes, and one without blocks for one without data. What is written over blocks that are there needs no
/// others, so a file without holes has what its length needs; of one with holes it may be more than it will have.
pub(crate) fn blocks_with_unwritten(stat: &Stat, unwritten: u64) -> u64 {
    let block = u64::try_from(stat.st_blksize)
        .unwrap_or(0)
        .clamp(BLOCK_BYTES, 1 << 20);
    let below = stat.st_blocks as u64;
    let whole = (stat.st_size as u64).next_multiple_of(block) / BLOCK_BYTES;
    let with = below + unwritten.next_multiple_of(block) / BLOCK_BYTES;
    below.max(with.min(whole))
}

/// The attributes of the inode `id`.
pub(crate) fn file_attr(id: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: file_type(stat.st_mode),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: encode_device(stat.st_rdev),
        blksize: block_bytes(stat),
        flags: 0,
    }
}

/// The most that programs are told to read and write at a time. A request carries eight times that, but `cmp` of what is in
/// memory takes no less with it (0.15 s for 100 MB; 0.7 to 1.5 s with 4 KiB), and Python's `seek` and `read` of a few bytes 600 us
/// instead of 70 (25 with 4 KiB).
const BLOCK_BYTES_MAX: u32 = 128 << 10;

/// What programs read and write at a time (`st_blksize`): many pages, since each message goes to another process. No more than
/// a small file has: the kernel fetches all pages of a buffer that is read into. An empty one is about to be written.
fn block_bytes(stat: &Stat) -> u32 {
    let below = u32::try_from(stat.st_blksize).unwrap_or(4096);
    if file_type(stat.st_mode) != FileType::RegularFile {
        return below;
    }
    match u32::try_from(stat.st_size) {
        Ok(len) if (1..BLOCK_BYTES_MAX).contains(&len) => {
            len.next_power_of_two().max(below.min(BLOCK_BYTES_MAX))
        }
        _ => BLOCK_BYTES_MAX,
    }
}

pub(crate) fn file_type(mode: u32) -> FileType {
    use rustix::fs::FileType as Below;
    match Below::from_raw_mode(mode) {
        Below::Directory => FileType::Directory,
        Below::Symlink => FileType::Symlink,
        Below::Fifo => FileType::NamedPipe,
        Below::Socket => FileType::Socket,
        Below::CharacterDevice => FileType::CharDevice,
        Below::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Device numbers cross FUSE in 32 bits: `new_encode_dev` (Linux 6.18, include/linux/kdev_t.h).
fn encode_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// `new_decode_dev` of the same file.
pub(crate) fn decode_device(device: u32) -> u64 {
    let (major, minor) = (
        (device & 0xf_ff00) >> 8,
        (device & 0xff) | ((device >> 12) & 0xf_ff00),
    );
    rustix::fs::makedev(major, minor)
}

/// The fields of stat have other types on other machines.
fn system_time(seconds: impl TryInto<i64>, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let (seconds, nanoseconds) = (
        seconds.try_into().unwrap_or(0),
        nanoseconds.try_into().unwrap_or(0),
    );
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = match seconds < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    let time = base.and_then(|base| base.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// A time that a program sets. fuser 0.18 counts the nanoseconds of times before 1970 in the wrong direction
/// (`system_time_from_time`); this undoes it.
pub(crate) fn timespec(asked: SystemTime) -> Timespec {
    match asked.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec {
            tv_sec: since.as_secs() as i64,
            tv_nsec: since.subsec_nanos().into(),
        },
        Err(before) => Timespec {
            tv_sec: -(before.duration().as_secs() as i64),
            tv_nsec: before.duration().subsec_nanos().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_have_their_nanoseconds_counted_forward() {
        let time = |seconds, nanoseconds| system_time(seconds, nanoseconds);
        assert_eq!(time(7_i64, 5_u32), UNIX_EPOCH + Duration::new(7, 5));
        assert_eq!(time(-1_i64, 999_999_999_u32), UNIX_EPOCH - Duration::new(0, 1));
        assert_eq!(time(-3_i64, 0_u32), UNIX_EPOCH - Duration::from_secs(3));
    }

    #[test]
    fn what_is_not_written_counts_in_the_blocks_up_to_what_the_length_needs() {
        let folder = tempfile::tempdir().unwrap();
        let mut stat = rustix::fs::stat(folder.path()).unwrap();
        for (len, below, unwritten, blocks) in [
            (0, 0, 0, 0),
            (300_000, 0, 303_104, 592),
            (300_000, 0, 4096, 8),
            // Written over what is there, and in part.
            (300_000, 592, 303_104, 592),
            (300_000, 296, 303_104, 592),
            // Allocated behind the end.
            (300_000, 2048, 303_104, 2048),
            // A hole of a gigabyte.
            (1 << 30, 0, 8192, 16),
            (1 << 30, 16, 0, 16),
        ] {
            (stat.st_size, stat.st_blocks, stat.st_blksize) = (len, below, 4096);
            assert_eq!(
                blocks_with_unwritten(&stat, unwritten),
                blocks,
                "{len} {below} {unwritten}"
            );
        }
    }

    #[test]
    fn devices_of_any_number_cross_as_they_are() {
        for (major, minor) in [(8, 1), (259, 300), (4095, 0xf_ffff)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
