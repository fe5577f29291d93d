//! Whether `millpond mount` works here: by mounting a folder upon another and reading a file through it.

use super::Check;

use millpond_fuse::{Mount, MountError, Options};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

const NAME: &str = "FUSE";

/// Tries a mount below `dir`.
pub(super) fn check(dir: &Path) -> Check {
    const WITHOUT: &str = if cfg!(feature = "lab") {
        "no `millpond mount`, and no modelled disk for the kernel in the laboratory"
    } else {
        "no `millpond mount`"
    };
    let device = Path::new("/dev/fuse");
    let opened = OpenOptions::new().read(true).write(true).open(device);
    let is_root = rustix::process::geteuid().is_root();
    match (opened, is_root || has_helper()) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Check::without(
            NAME,
            "there is no /dev/fuse",
            WITHOUT,
            "`modprobe fuse`; for a container, start it with --device /dev/fuse --cap-add SYS_ADMIN",
        ),
        (Err(error), _) => Check::without(
            NAME,
            format!("/dev/fuse does not open: {error}"),
            WITHOUT,
            "`chmod 666 /dev/fuse`, as distributions have it; for a container, start it with --device /dev/fuse",
        ),
        (Ok(_), false) => Check::without(
            NAME,
            "/dev/fuse opens, and there is no fusermount3, which mounts for users other than root",
            WITHOUT,
            "install the package fuse3, or mount as root",
        ),
        (Ok(_), true) => match trial(dir) {
            Ok(lacks) if lacks.is_empty() => {
                Check::ok(NAME, format!("a mount was made and read{}", others()))
            }
            Ok(lacks) => Check::without(
                NAME,
                "a mount was made and read",
                lacks.join("; "),
                "use a newer Linux (6.6 has all of it)",
            ),
            Err(MountError::Unavailable { source, hint, .. }) => {
                Check::without(NAME, format!("mounting is refused ({source})"), WITHOUT, hint)
            }
            Err(error) => Check::without(
                NAME,
                error.to_string(),
                WITHOUT,
                "fix what it names, or give another --dir",
            ),
        },
    }
}

fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("fusermount3").exists())
}

/// Whether a user other than root may let others in.
fn others() -> &'static str {
    let allowed = fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    match allowed || rustix::process::geteuid().is_root() {
        true => "",
        false => "; --allow-other needs user_allow_other in /etc/fuse.conf",
    }
}

/// What the kernel's FUSE lacks, in sentences.
///
/// # Errors
/// As [`Mount::new`]; [`MountError::System`] if it does not give back what was written.
fn trial(dir: &Path) -> Result<Vec<String>, MountError> {
    let failed = |what| move |source| MountError::System { what, source };
    let [source, point] = ["fuse-source", "fuse-point"].map(|name| dir.join(name));
    for folder in [&source, &point] {
        fs::create_dir(folder).map_err(failed("making a folder"))?;
    }
    let mount = Mount::new(&Options {
        // What the cache can do here belongs to another check.
        cached: false,
        control: false,
        threads: 2,
        ..Options::new(&source, &point)
    })?;
    fs::write(point.join("file"), NAME).map_err(failed("writing to the mount"))?;
    let read = fs::read(point.join("file")).map_err(failed("reading from the mount"))?;
    let lacks = mount
        .notices()
        .iter()
        .filter(|notice| notice.contains("FUSE"))
        .cloned()
        .collect();
    mount.unmount()?;
    let (_, served) = mount.wait(|_| false);
    served?;
    match read == NAME.as_bytes() {
        true => Ok(lacks),
        false => Err(failed("reading from the mount")(
            io::ErrorKind::InvalidData.into(),
        )),
    }
}
