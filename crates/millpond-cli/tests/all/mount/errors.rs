//! Refusals of the disk, as programs at the mount see them.

use super::{TestMount, folders, skip};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A small file system in memory, until it is dropped.
pub(crate) struct Small {
    pub(crate) at: PathBuf,
    #[expect(dead_code, reason = "removed when dropped")]
    folder: tempfile::TempDir,
}

impl Small {
    pub(crate) fn new() -> Option<Small> {
        Small::of("8m")
    }

    /// `size`: as tmpfs takes it. `None`, and says why, where nothing can be mounted.
    pub(crate) fn of(size: &str) -> Option<Small> {
        let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
        let at = folder.path().join("small");
        fs::create_dir(&at).unwrap();
        let size = std::ffi::CString::new(format!("size={size}")).unwrap();
        match rustix::mount::mount("small", &at, "tmpfs", MountFlags::empty(), Some(size.as_c_str())) {
            Ok(()) => Some(Small { at, folder }),
            Err(error) => {
                skip(&format!("a small file system can't be mounted: {error}"));
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
    }
}

fn is_full(result: io::Result<()>) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
}

/// More than fits the small file system. If some of it has been written by then, the write returns the error.
fn write_too_much(file: &mut File) {
    let written = file.write_all(&vec![7; 12 << 20]);
    if written.is_err() {
        is_full(written);
    }
}

#[test]
fn data_without_room_on_the_disk_is_an_error_of_sync_and_close_until_there_is_some() {
    let Some(small) = Small::new() else { return };
    let Some(mut mounted) = TestMount::start(&small.at, &["--memory", "64M"]) else {
        return;
    };
    fs::write(mounted.at().join("other"), vec![1; 3 << 20]).unwrap();
    File::open(mounted.at().join("other"))
        .unwrap()
        .sync_all()
        .unwrap();
    let mut file = File::create_new(mounted.at().join("file")).unwrap();
    file.write_all(&vec![7; 6 << 20]).unwrap();
    is_full(file.sync_all());
    // It is still there, and every sync says so.
    let mut bytes = vec![0; 6 << 20];
    File::open(mounted.at().join("file"))
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    is_full(file.sync_data());
    // Closing returns the error as well.
    let again = File::options()
        .write(true)
        .open(mounted.at().join("file"))
        .unwrap();
    if let Some(closed) = close(again) {
        is_full(closed);
    }
    // Umount does not lose it.
    let (code, said) = crate::mount::millpond(&["umount", &mounted.at().display().to_string()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("it stays mounted") && said.contains("/src/file: No space left"),
        "{said}"
    );
    // The room is there a moment after that has returned, when the kernel has forgotten the file; a sync waits for it.
    fs::remove_file(mounted.at().join("other")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read(mounted.source().join("file")).unwrap() == bytes);
}

/// A write was refused until the cache's next retry, up to 30 s after there was room.
#[test]
fn removing_a_file_on_a_full_disk_allows_writes_at_once() {
    let Some(small) = Small::new() else { return };
    let Some(mounted) = TestMount::start(&small.at, &["--memory", "8M"]) else {
        return;
    };
    let at = |name: &str| mounted.at().join(name);
    fs::write(at("other"), vec![1; 4 << 20]).unwrap();
    File::open(at("other")).unwrap().sync_all().unwrap();
    let file = File::create_new(at("file")).unwrap();
    let mut len = 0;
    let refused = loop {
        match file.write_all_at(&[7; 64 << 10], len) {
            Ok(()) => len += 64 << 10,
            Err(error) => break error,
        }
        // So that the disk is asked.
        let _ = file.sync_data();
    };
    is_full(Err(refused));
    fs::remove_file(at("other")).unwrap();
    file.write_all_at(&[7; 64 << 10], len).unwrap();
    file.sync_all().unwrap();
}

/// The mount keeps the blocks of a file that it knows and others have removed, until it looks for such files.
#[test]
fn a_sync_on_a_full_disk_lets_go_of_what_others_have_removed_in_the_source() {
    let Some(small) = Small::new() else { return };
    let Some(mounted) = TestMount::start(&small.at, &["--memory", "64M"]) else {
        return;
    };
    let at = |name: &str| mounted.at().join(name);
    fs::write(at("other"), vec![1; 4 << 20]).unwrap();
    File::open(at("other")).unwrap().sync_all().unwrap();
    let file = File::create_new(at("file")).unwrap();
    let _ = file.write_all_at(&vec![7; 6 << 20], 0);
    fs::remove_file(mounted.source().join("other")).unwrap();
    file.sync_all().unwrap();
}

/// The disk is a mount, which has taken the data into its memory, and has no room for it when it is to be durable.
#[test]
fn a_sync_that_the_disk_has_failed_fails_again_with_each_close_until_the_file_is_opened_anew() {
    let Some(small) = Small::new() else { return };
    let ballast = small.at.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let Some(disk) = TestMount::start(&small.at, &["--memory", "64M"]) else {
        return;
    };
    let Some(mut mounted) = super::on(&disk, &["--memory", "64M"]) else {
        return;
    };
    let at = mounted.at().join("file");
    let open = || File::options().read(true).write(true).open(&at).unwrap();
    let file = File::create_new(&at).unwrap();
    file.write_all_at(&vec![7; 6 << 20], 0).unwrap();
    is_full(file.sync_data());
    // From now on the disk has all, and says so. Which bytes it had lost when it said no is not known here.
    fs::remove_file(ballast).unwrap();
    File::open(disk.at().join("file")).unwrap().sync_all().unwrap();
    is_full(file.sync_data());
    let other = open();
    is_full(other.sync_all());
    if let Some(closed) = close(other) {
        is_full(closed);
    }
    drop(file);
    // The kernel says that a file is closed after close(2) has returned: what is opened before is not opened anew.
    let (mut again, begun) = (open(), Instant::now());
    again.write_all_at(b"8", 0).unwrap();
    while let Err(error) = again.sync_all() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
        drop(again);
        std::thread::sleep(Duration::from_millis(10));
        again = open();
    }
    if let Some(closed) = close(again) {
        closed.unwrap();
    }
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    let bytes = fs::read(disk.at().join("file")).unwrap();
    assert!(bytes.len() == 6 << 20 && bytes[0] == b'8' && bytes[1..].iter().all(|&byte| byte == 7));
    drop(mounted);
}

/// The mount's messages, up to a line that contains this.
fn says(mounted: &mut TestMount, part: &str) -> String {
    let mut said = String::new();
    let mut stderr = BufReader::new(mounted.program.stderr.take().unwrap());
    while !said.contains(part) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it has ended: {said}");
    }
    // The rest is for the next call.
    mounted.program.stderr = Some(stderr.into_inner());
    said
}

/// A mount with a file that the small disk has no room for until this other file is gone.
fn full(small: &Small) -> Option<(TestMount, PathBuf)> {
    let ballast = small.at.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let mounted = TestMount::start(&small.at, &["--memory", "64M"])?;
    fs::write(mounted.at().join("file"), vec![7; 6 << 20]).unwrap();
    Some((mounted, ballast))
}

/// The first SIGTERM ended the process, and what a full disk had refused was lost: so did a service's stop.
#[test]
fn data_refused_by_the_disk_when_a_signal_asks_for_the_end_is_kept_until_there_is_room() {
    let Some(small) = Small::new() else { return };
    let Some((mut mounted, ballast)) = full(&small) else {
        return;
    };
    kill_process(mounted.pid(), Signal::TERM).unwrap();
    let said = says(&mut mounted, "stays mounted");
    assert!(
        said.contains("/src/file: No space left") && said.contains("A second signal"),
        "{said}"
    );
    // Programs still see it.
    assert_eq!(fs::metadata(mounted.at().join("file")).unwrap().len(), 6 << 20);
    fs::remove_file(ballast).unwrap();
    assert_eq!(mounted.wait().code(), Some(0));
    assert!(fs::read(mounted.source().join("file")).unwrap() == vec![7; 6 << 20]);
}

/// By umount(8) it was lost too, with a line in the log.
#[test]
fn data_refused_by_the_disk_after_the_kernel_has_unmounted_is_kept_until_there_is_room() {
    let Some(small) = Small::new() else { return };
    let Some((mut mounted, ballast)) = full(&small) else {
        return;
    };
    rustix::mount::unmount(mounted.at(), UnmountFlags::empty()).unwrap();
    says(&mut mounted, "is unmounted");
    fs::remove_file(ballast).unwrap();
    assert_eq!(mounted.wait().code(), Some(0));
    assert!(fs::read(mounted.source().join("file")).unwrap() == vec![7; 6 << 20]);
}

/// It ended without a word.
#[test]
fn the_second_signal_ends_it_at_once_and_says_what_is_lost() {
    let Some(small) = Small::new() else { return };
    let Some((mut mounted, _ballast)) = full(&small) else {
        return;
    };
    kill_process(mounted.pid(), Signal::TERM).unwrap();
    says(&mut mounted, "stays mounted");
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(128 + 15), "{said}");
    for part in ["is lost: ", "/src/file", "No space left"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Nothing is left that has to be cleared away.
    assert_eq!(fs::read_dir(mounted.at()).unwrap().count(), 0);
}

/// The process that serves ended by SIGXFSZ, and with it went what all others had written.
#[test]
fn a_mount_with_a_limit_on_files_refuses_what_is_longer_and_keeps_the_rest() {
    // In blocks of 512 bytes or of 1024, as the shell has it.
    let limited = ["sh", "-c", "ulimit -f 4096; exec \"$@\"", "sh"];
    let Some(mut mounted) = TestMount::start_by(&limited, None, &folders()[0], &["--memory", "32M"]) else {
        return;
    };
    let is_too_long = |error: Option<i32>| assert_eq!(error, Some(libc::EFBIG));
    fs::write(mounted.at().join("other"), vec![1; 1 << 20]).unwrap();
    let file = File::create_new(mounted.at().join("file")).unwrap();
    file.write_all_at(&[2; 2 << 20], 0).unwrap();
    is_too_long(file.write_all_at(b"x", 4 << 20).unwrap_err().raw_os_error());
    is_too_long(file.set_len(5 << 20).unwrap_err().raw_os_error());
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 5 << 20);
    is_too_long(allocated.err().map(|error| error.raw_os_error()));
    file.sync_all().unwrap();
    drop(file);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    let bytes = |name: &str| fs::read(mounted.source().join(name)).unwrap();
    assert!(bytes("file") == [2; 2 << 20] && bytes("other") == [1; 1 << 20]);
}

#[test]
fn umount_by_force_says_that_not_everything_is_on_the_disk() {
    let Some(small) = Small::new() else { return };
    let Some(mut mounted) = TestMount::start(&small.at, &["--memory", "64M"]) else {
        return;
    };
    let mut file = File::create_new(mounted.at().join("file")).unwrap();
    write_too_much(&mut file);
    drop(file);
    let at = mounted.at().display().to_string();
    let (code, said) = crate::mount::millpond(&["umount", "--force", &at]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("what could not be written is lost: "), "{said}");
    // It was also said that it is kept, and twice.
    assert!(!said.contains("kept in memory"), "{said}");
    let lost = said.rsplit("is lost: ").next().unwrap();
    assert_eq!(lost.matches("/src/file").count(), 1, "{said}");
    assert!(lost.contains("MiB of "), "{said}");
    assert!(!said.contains(", everything is on the disk"), "{said}");
    assert_eq!(mounted.wait().code(), Some(1));
}

/// Opens it once more and closes that, in a program that is told what `drop` is not; `None`, and says why, where there
/// is no such program.
fn close(file: File) -> Option<io::Result<()>> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let script = "import os, sys\nf = os.open(sys.argv[1], os.O_WRONLY)\ntry: os.close(f)\nexcept OSError as e: print(e.errno)";
    let output = std::process::Command::new("python3")
        .args(["-c", script, &path])
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            skip(&format!("what close says: python3: {error}"));
            return None;
        }
    };
    Some(match String::from_utf8_lossy(&output.stdout).trim().parse() {
        Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
        Err(_) => Ok(()),
    })
}

/// Whoever made a file without `O_EXCL`, while somebody made and removed it in the source, was told ESTALE a quarter of the
/// times: the kernel looks once more and no more.
#[test]
fn a_name_that_comes_and_goes_in_the_source_makes_no_open_fail() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "16M", "--no-control"]) else {
        return;
    };
    let (there, here) = (mounted.source().join("name"), mounted.at().join("name"));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let failed: Vec<io::Error> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = File::create(&there);
                let _ = fs::remove_file(&there);
            }
        });
        let open = || {
            // Not truncated, so that nothing but the name is at stake.
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options
                .open(&here)
                .and_then(|mut file| file.write_all(b"x"))
                .err()
        };
        let failed = (0..3000).filter_map(|_| {
            let failed = open();
            let _ = fs::remove_file(&here);
            failed
        });
        let failed = failed.collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        failed
    });
    assert!(
        failed.is_empty(),
        "{} of 3000, as {:?}",
        failed.len(),
        failed.first()
    );
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}
