//! The mounts of a process, as the kernel reports them (`/proc/PID/mountinfo`, proc_pid_mountinfo(5)).
//!
//! ```text
//!   36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//!         │    │     │                    0 or more  │    │         └ of the file system
//!         │    root  point                           type source
//!         device
//! ```
//!
//! A field is bytes in any encoding. Blanks, tabs, newlines and backslashes are escaped as three octal digits (`mangle`
//! in fs/proc_namespace.c).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountEntry {
    /// The major and minor number of the file system, as `98:0`.
    pub device: String,
    /// The directory of the file system that it shows.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The type of the file system, with its subtype.
    pub fs_type: String,
    /// The source that the file system names: a disk, or any string.
    pub source: OsString,
    /// The options of the file system.
    pub options: Vec<String>,
}

/// Returns the mounts that this process sees, in the order of mounting. Of several at the same mount point, the last is
/// visible.
///
/// # Errors
/// If /proc is not mounted.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    mounts_in(Path::new("/proc/self"))
}

/// Returns the mounts of the process with this directory in /proc.
///
/// # Errors
/// If the directory does not exist or may not be read.
pub fn mounts_in(process: &Path) -> io::Result<Vec<MountEntry>> {
    Ok(parse(&fs::read(process.join("mountinfo"))?))
}

/// Skips lines that are not mounts.
fn parse(lines: &[u8]) -> Vec<MountEntry> {
    lines
        .split(|&byte| byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ').skip(2);
    let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
    fields.find(|field| *field == b"-")?;
    let (fs_type, source, options) = (fields.next()?, fields.next()?, fields.next()?);
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(MountEntry {
        device: text(device),
        root: unescaped(root).into(),
        point: unescaped(point).into(),
        fs_type: text(fs_type),
        source: unescaped(source),
        options: text(options).split(',').map(str::to_owned).collect(),
    })
}

/// Decodes a field.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// `millpond umount "/mnt/a b"` found no mount there; if any mount had a name that is not UTF-8, no mount was found
    /// at all.
    #[test]
    fn places_are_read_as_they_are_whatever_bytes_they_have() {
        let lines = b"36 35 98:0 /a\\040b /mnt/a\\040b rw - ext4 /dev/root rw\n\
            37 36 0:57 / /mnt/new\\012line rw,noatime shared:1 master:2 - fuse.millpond /s\\134040 rw,user_id=0\n\
            not a mount\n\
            38 36 0:58 / /mnt/\xfc\\09 rw - tmpfs  rw\n\
            39 36 0:59 / /mnt/tab\\011\\043 rw - cgroup none rw,memory";
        let found = parse(lines);
        let points: Vec<_> = found
            .iter()
            .map(|mount| mount.point.as_os_str().as_bytes())
            .collect();
        assert_eq!(
            points,
            [
                &b"/mnt/a b"[..],
                b"/mnt/new\nline",
                b"/mnt/\xfc\\09",
                b"/mnt/tab\t#"
            ]
        );
        assert_eq!(found[0].root, Path::new("/a b"));
        assert_eq!((&*found[1].device, &*found[1].fs_type), ("0:57", "fuse.millpond"));
        assert_eq!(found[1].source, OsStr::new("/s\\040"));
        assert_eq!(found[2].source, OsStr::new(""));
        assert_eq!(found[3].options, ["rw", "memory"]);
    }

    #[test]
    fn the_root_is_mounted() {
        let mounts = mounts().unwrap();
        assert!(
            mounts.iter().any(|mount| mount.point == Path::new("/")),
            "{mounts:?}"
        );
    }
}
