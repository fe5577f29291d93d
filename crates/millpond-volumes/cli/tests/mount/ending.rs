//! `millpond umount` of a store: what it says, and that it ends. The program is that of the main workspace, if it is built, or
//! what `MILLPOND` names.

use super::*;
use std::io::Write;

fn millpond() -> Option<PathBuf> {
    if !can_mount() {
        return None;
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target");
    let named = std::env::var_os("MILLPOND").map(PathBuf::from);
    let built = ["debug", "release"].map(|profile| target.join(profile).join("millpond"));
    let found = named.into_iter().chain(built).find(|path| path.is_file());
    if found.is_none() {
        println!(
            "skipped: umount: there is no `millpond`: cargo build -p millpond-cli, or MILLPOND=its path"
        );
    }
    found
}

const DISK_BYTES: usize = 16 << 20;

/// A disk of its own, with a store that can be refused.
struct Disk {
    temp: tempfile::TempDir,
    millpond: PathBuf,
}

impl Disk {
    fn new() -> Option<Disk> {
        let disk = Disk {
            millpond: millpond()?,
            temp: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(disk.at("disk")).unwrap();
        let size = format!("size={DISK_BYTES}");
        let point = disk.at("disk");
        run(
            "mount",
            &["-t", "tmpfs", "-o", &size, "none", point.to_str().unwrap()],
        );
        Some(disk)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn url(&self) -> String {
        format!("file://{}", self.at("disk/store").display())
    }

    fn mount(&self, name: &str, more: &[&str]) -> Mounted {
        Mounted::new(&self.url(), &self.at(name), more)
    }

    /// Whether the disk is full.
    fn refuses(&self, refuses: bool) {
        let filler = self.at("disk/filler");
        match refuses {
            true => assert!(fs::write(filler, bytes(DISK_BYTES)).is_err()),
            false => fs::remove_file(filler).unwrap(),
        }
    }

    fn umounts(&self, point: &str) -> Command {
        let mut command = Command::new(&self.millpond);
        command.arg("umount").arg(self.at(point)).stdin(Stdio::null());
        command
    }

    /// `millpond umount`: its exit code and what it says.
    fn umount(&self, point: &str, more: &[&str]) -> (i32, String) {
        let output = self.umounts(point).args(more).output().unwrap();
        (output.status.code().unwrap(), said(&output))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at("disk")).output();
    }
}

#[track_caller]
fn has(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

#[test]
fn a_store_that_refuses_is_given_up_by_force_with_the_files_that_are_lost() {
    let Some(disk) = Disk::new() else { return };
    let mut mounted = disk.mount("mnt", &["--expire", "1h"]);
    fs::write(disk.at("mnt/kept"), "kept").unwrap();
    let (code, _) = disk.umount("mnt", &["--lazy"]);
    assert_eq!((code, mounted.process.wait().unwrap().code()), (0, Some(0)));
    drop(mounted);
    let mut mounted = disk.mount("mnt", &["--expire", "1h"]);
    fs::create_dir(disk.at("mnt/folder")).unwrap();
    for name in ["a", "folder/b", "folder/c", "folder/d"] {
        fs::write(disk.at("mnt").join(name), bytes(100_000)).unwrap();
    }
    disk.refuses(true);
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!(code, 1, "{said}");
    has(
        &said,
        &[
            "KiB of a, folder/",
            "and another file",
            "No space left",
            "stays mounted",
        ],
    );
    let (code, said) = disk.umount("mnt", &["--force"]);
    assert_eq!(code, 1, "{said}");
    has(
        &said,
        &["not everything is in the store", "is lost", "KiB of a, folder/"],
    );
    let status = mounted.process.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    disk.refuses(false);
    let mounted = disk.mount("mnt", &["--take-over"]);
    assert!(disk.at("mnt/kept").exists() && !disk.at("mnt/a").exists());
    mounted.end();
}

#[test]
fn a_process_that_still_writes_when_its_mount_is_gone_is_waited_for_or_ended_by_force() {
    let Some(disk) = Disk::new() else { return };
    for force in [false, true] {
        let mut mounted = disk.mount("mnt", &["--expire", "1h", "--take-over"]);
        fs::write(disk.at("mnt/a"), bytes(100_000 + usize::from(force))).unwrap();
        disk.refuses(true);
        run("umount", &[disk.at("mnt").to_str().unwrap()]);
        if force {
            let (code, said) = disk.umount("mnt", &["--force"]);
            assert_eq!(code, 1, "{said}");
            has(&said, &["not everything is in the store", "is lost"]);
            assert_eq!(mounted.process.wait().unwrap().code(), Some(1));
            disk.refuses(false);
            continue;
        }
        let mut waits = disk.umounts("mnt").stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(waits.stderr.take().unwrap());
        let mut notice = String::new();
        stderr.read_line(&mut notice).unwrap();
        has(
            &notice,
            &["still writes into the store", &mounted.process.id().to_string()],
        );
        disk.refuses(false);
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert!(waits.wait().unwrap().success(), "{said}");
        has(&said, &["everything is in the store"]);
        assert!(mounted.process.wait().unwrap().success());
    }
}

#[test]
fn a_copy_of_the_mount_in_another_namespace_is_named_and_both_get_the_same_report() {
    let Some(disk) = Disk::new() else { return };
    let _mounted = disk.mount("mnt", &[]);
    fs::write(disk.at("mnt/a"), "pond").unwrap();
    let mut other = Command::new("unshare");
    other.args(["-m", "sh", "-c", "echo; read x; exec \"$0\" umount \"$1\""]);
    other.arg(&disk.millpond).arg(disk.at("mnt"));
    let other = other
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (code, here) = disk.umount("mnt", &[]);
    assert_eq!(code, 0, "{here}");
    has(
        &here,
        &[
            "in the mount namespaces of these processes: ",
            &other.id().to_string(),
            "is in the store",
        ],
    );
    other.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    has(&said(&output), &["is unmounted, everything is in the store"]);
}

#[test]
fn a_store_that_was_taken_over_is_said_with_its_writer_and_what_is_not_in_it() {
    let Some(disk) = Disk::new() else { return };
    let mut old = disk.mount("mnt", &["--expire", "1h"]);
    fs::write(disk.at("mnt/a"), bytes(100_000)).unwrap();
    let new = disk.mount("other", &["--take-over"]);
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!(code, 1, "{said}");
    let writer = format!("process {}", new.process.id());
    has(
        &said,
        &[
            "KiB of a",
            "has taken the store over",
            &writer,
            "copy what you need from ",
            "umount --force",
        ],
    );
    assert!(!said.contains("until that is mended"), "{said}");
    assert_eq!(fs::read(disk.at("mnt/a")).unwrap(), bytes(100_000));
    let (code, said) = disk.umount("mnt", &["--force"]);
    assert_eq!(code, 1, "{said}");
    has(&said, &["is lost", "has taken the store over"]);
    assert_eq!(old.process.wait().unwrap().code(), Some(1));
    new.end();
}

#[test]
fn a_reader_has_nothing_to_write_also_when_it_was_killed() {
    let Some(disk) = Disk::new() else { return };
    disk.mount("mnt", &[]).end();
    let mut reader = disk.mount("mnt", &["--read-only"]);
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!(
        (code, said.contains("there was nothing to write")),
        (0, true),
        "{said}"
    );
    reader.process.wait().unwrap();
    let mut reader = disk.mount("mnt", &["--read-only"]);
    reader.process.kill().unwrap();
    reader.process.wait().unwrap();
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!((code, said.contains("had nothing to write")), (1, true), "{said}");
    assert!(!said.contains("lost"), "{said}");
}

#[test]
fn two_mounts_of_a_store_are_told_apart_and_one_that_is_held_is_taken_over_by_mounting_it() {
    let Some(disk) = Disk::new() else { return };
    let writer = disk.mount("mnt", &[]);
    let _reader = disk.mount("other", &["--read-only"]);
    let caches = run(disk.millpond.to_str().unwrap(), &["caches"]);
    for (point, access) in [("mnt", "(rw)"), ("other", "(ro)")] {
        has(
            &caches,
            &[&format!(
                "{} at {} {access}",
                disk.url(),
                disk.at(point).display()
            )],
        );
    }
    let mut writer = writer;
    writer.process.kill().unwrap();
    writer.process.wait().unwrap();
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!(
        (code, said.contains("is in the store, and what was older")),
        (1, true),
        "{said}"
    );
    let point = disk.at("mnt");
    let output = program()
        .args(["mount", &disk.url()])
        .arg(&point)
        .output()
        .unwrap();
    let way_out = format!(
        "`millpond store mount --take-over {} {}`",
        disk.url(),
        point.display()
    );
    assert_eq!(output.status.code(), Some(4));
    has(&super::said(&output), &[&way_out]);
}

#[test]
fn a_reader_says_that_its_store_is_away_and_that_it_is_back() {
    let Some(disk) = Disk::new() else { return };
    disk.mount("mnt", &[]).end();
    let log = disk.at("log");
    let more = [
        "--read-only",
        "--poll",
        "10ms",
        "--daemon",
        "--log",
        log.to_str().unwrap(),
    ];
    let _reader = disk.mount("mnt", &more);
    let says = |words: &str| fs::read_to_string(&log).unwrap().contains(words);
    fs::rename(disk.at("disk/store"), disk.at("disk/away")).unwrap();
    until("it says so", || says("files are read as of commit"));
    fs::rename(disk.at("disk/away"), disk.at("disk/store")).unwrap();
    until("it says that too", || says("answers again"));
    let (code, said) = disk.umount("mnt", &[]);
    assert_eq!(code, 0, "{said}");
}
