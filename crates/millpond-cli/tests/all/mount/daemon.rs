//! The mount's life, from outside.

use super::{TestMount, folders, millpond, umount};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

fn start(arguments: &[&str]) -> Option<TestMount> {
    TestMount::start(&folders()[0], arguments)
}

#[test]
fn data_written_at_the_mount_is_in_the_source_when_it_has_ended() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    fs::write(mounted.at().join("file"), &bytes).unwrap();
    assert_eq!(fs::read(mounted.at().join("file")).unwrap(), bytes);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(", everything is on the disk"), "{said}");
    assert_eq!(fs::read(mounted.source().join("file")).unwrap(), bytes);
    assert_eq!(fs::read_dir(mounted.at()).unwrap().count(), 0);
}

/// It looked for signals fifty times a second.
#[test]
fn a_mount_that_nobody_uses_sleeps() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    // Of its first thread, which serves: how often it has slept and gone on.
    let status = format!("/proc/{}/status", mounted.pid().as_raw_pid());
    let woken = || {
        let status = fs::read_to_string(&status).unwrap();
        let figure = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        figure.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = std::cell::Cell::new(woken());
    super::wait_until("it does not sleep", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = woken();
        before.replace(now) == now
    });
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_name_that_nothing_has_is_asked_for_once_and_may_be_taken() {
    let Some(mut mounted) = start(&["--memory", "16M", "--attribute-timeout", "3600"]) else {
        return;
    };
    let tries = std::cell::Cell::new(0);
    let [at, below] = [mounted.at(), mounted.source()];
    let name = || format!("file-{}", tries.get());
    // The kernel may have forgotten one.
    super::wait_until("names are asked for again", || {
        tries.set(tries.get() + 1);
        assert!(fs::metadata(at.join(name())).is_err());
        fs::write(below.join(name()), "text").unwrap();
        fs::metadata(at.join(name())).is_err()
    });
    let path = at.join(name());
    let mut options = File::options();
    options.read(true).write(true);
    assert!(options.clone().create_new(true).open(&path).is_err());
    let mut text = String::new();
    let mut file = options.create(true).truncate(false).open(&path).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    fs::create_dir(at.join("directory")).unwrap();
    assert!(fs::metadata(at.join("directory/file")).is_err());
    fs::write(at.join("directory/file"), "more").unwrap();
    assert_eq!(fs::read(at.join("directory/file")).unwrap(), b"more");
    drop(file);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

/// `top` and `stat` showed the path that it was opened by.
#[test]
fn a_file_that_is_renamed_or_whose_directory_is_has_its_new_path() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let at = |name: &str| mounted.at().join(name);
    fs::create_dir(at("old")).unwrap();
    fs::write(at("old/one"), [7; 100_000]).unwrap();
    let paths = || {
        let point = mounted.at().display().to_string();
        let (code, said) = millpond(&["stat", "--files", "--json", "--cache", &point]);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    assert!(paths().contains("mnt/old/one\""), "{}", paths());
    fs::rename(at("old/one"), at("old/two")).unwrap();
    fs::rename(at("old"), at("new")).unwrap();
    assert!(paths().contains("mnt/new/two\""), "{}", paths());
    mounted.end(Signal::TERM);
}

#[test]
fn umount_writes_everything_and_waits_for_the_end() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let at = mounted.at().display().to_string();
    fs::write(mounted.at().join("file"), [7; 100_000]).unwrap();
    let open = File::open(mounted.at().join("file")).unwrap();
    let (code, said) = millpond(&["umount", &at]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is in use"), "{said}");
    drop(open);
    // Nor was a mount inside it named: fuser lists the kernel.
    if rustix::process::geteuid().is_root() {
        let inside = mounted.at().join("inside");
        fs::create_dir(&inside).unwrap();
        rustix::mount::mount_bind(mounted.source(), &inside).unwrap();
        let (code, said) = millpond(&["umount", &at]);
        rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::empty()).unwrap();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("mnt/inside is mounted inside it"), "{said}");
    }
    let (code, said) = umount(&mounted.at());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(mounted.wait().code(), Some(0));
    assert_eq!(fs::read(mounted.source().join("file")).unwrap(), [7; 100_000]);
    let (code, said) = millpond(&["umount", &at]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no millpond mount is there"), "{said}");
}

#[test]
fn programs_that_use_it_when_a_signal_comes_go_on_until_they_are_done() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mounted.at().join("file"))
        .unwrap();
    file.write_all(b"before").unwrap();
    rustix::process::kill_process(mounted.pid(), Signal::INT).unwrap();
    let began = std::time::Instant::now();
    while mounted.at().join("file").exists() {
        assert!(began.elapsed() < crate::mount::BOUND);
        std::thread::yield_now();
    }
    file.write_all(b" and after").unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(mounted.wait().code(), Some(0));
    assert_eq!(
        fs::read(mounted.source().join("file")).unwrap(),
        b"before and after"
    );
}

#[test]
fn a_mount_that_was_killed_is_cleared_away_by_the_next_one_and_what_was_synced_is_there() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let file = File::create(mounted.at().join("file")).unwrap();
    file.write_all_at(&[7; 1_000_000], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[8; 1_000_000], 0).unwrap();
    mounted.kill();
    drop(file);
    assert!(fs::read(mounted.at().join("file")).is_err());
    mounted.again();
    let bytes = fs::read(mounted.at().join("file")).unwrap();
    assert_eq!(bytes.len(), 1_000_000);
    assert!(bytes.iter().all(|&byte| byte == 7 || byte == 8));
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("cleared away what a killed mount had left"),
        "{said}"
    );
    // And by umount.
    mounted.again();
    mounted.kill();
    let (code, said) = millpond(&["umount", &mounted.at().display().to_string()]);
    // Not all is on the disk.
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("what was synced is on the disk"), "{said}");
    assert!(fs::read_dir(mounted.at()).is_ok());
}

#[test]
fn places_that_can_t_be_used_are_refused_with_the_way_out() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let (source, at) = (
        mounted.source().display().to_string(),
        mounted.at().display().to_string(),
    );
    let refused = |source: &str, at: &str, why: &str| {
        let (code, said) = millpond(&["mount", source, at]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused(&source, &at, "a millpond mount is already there");
    mounted.end(Signal::TERM);
    fs::create_dir(mounted.source().join("inside")).unwrap();
    refused(&source, &format!("{source}/inside"), "lies within the source");
    refused(
        &format!("{source}/none"),
        &at,
        "does not exist: mkdir -p makes it",
    );
    refused("/dev/null", &at, "it is not a directory");
    let (code, said) = millpond(&["mount", &source, &at, "--memory", "1K"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is too small"), "{said}");
    fs::write(mounted.at().join("hidden"), "").unwrap();
    refused(&source, &at, "--nonempty mounts over its contents");
    mounted.arguments.push("--nonempty".into());
    mounted.again();
    assert!(mounted.at().join("inside").exists() && !mounted.at().join("hidden").exists());
}

#[test]
fn in_the_background_it_leaves_its_number_and_its_words_in_files() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    mounted.end(Signal::TERM);
    let folder = mounted.folder.path().display().to_string();
    let [source, at, pid, log] = ["src", "mnt", "pid", "log"].map(|name| format!("{folder}/{name}"));
    let (code, said) = millpond(&[
        "mount",
        &source,
        &at,
        "--memory",
        "16M",
        "--daemon",
        "--pid-file",
        &pid,
        "--log",
        &log,
    ]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(fs::read_to_string(&pid).unwrap().trim()), "{said}");
    fs::write(format!("{at}/file"), "text").unwrap();
    let (code, said) = umount(at.as_ref());
    assert_eq!(code, Some(0), "{said}");
    assert!(
        fs::read_to_string(&log)
            .unwrap()
            .contains("everything is on the disk")
    );
    assert!(fs::metadata(&pid).is_err());
    assert_eq!(fs::read_to_string(format!("{source}/file")).unwrap(), "text");
    // Quietly: messages are in the log, and nowhere else.
    let quiet = ["--memory", "16M", "--daemon", "--quiet", "--log", &log];
    let (code, said) = millpond(&[&["mount", &source, &at], &quiet[..]].concat());
    assert_eq!((code, &*said), (Some(0), ""));
    assert_eq!(umount(at.as_ref()).0, Some(0));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("the goal for reads is"), "{told}");
    fs::write(format!("{at}/hidden"), "").unwrap();
    let (code, said) = millpond(&["mount", &source, &at, "--daemon"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("it is not empty"), "{said}");
}

#[test]
fn stat_and_set_and_inspect_find_the_cache_of_a_mount() {
    let Some(mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let pid = mounted.pid().as_raw_nonzero().to_string();
    let (code, said) = millpond(&["set", "--cache", &pid, "memory=32M"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = millpond(&["inspect", "--cache", &pid, "limits"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = millpond(&["stat", "--cache", &pid]);
    assert_eq!(code, Some(0), "{said}");
    let mut text = String::new();
    File::open("/proc/self/mountinfo")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let line = text
        .lines()
        .find(|line| line.contains(&*mounted.at().display().to_string()))
        .unwrap();
    assert!(
        line.contains("fuse.millpond") && !line.contains("allow_other"),
        "{line}"
    );
}

#[test]
fn changes_by_others_in_the_source_are_seen_by_the_next_open() {
    let Some(mounted) = start(&["--memory", "16M", "--attribute-timeout", "0"]) else {
        return;
    };
    let (at, below) = (mounted.at().join("file"), mounted.source().join("file"));
    fs::write(&below, "one").unwrap();
    assert_eq!(fs::read(&at).unwrap(), b"one");
    fs::write(&below, "two, longer").unwrap();
    assert_eq!(fs::metadata(&at).unwrap().len(), 11);
    assert_eq!(fs::read(&at).unwrap(), b"two, longer");
    fs::remove_file(&below).unwrap();
    assert!(fs::read(&at).is_err());
    fs::write(&below, "another").unwrap();
    assert_eq!(fs::read(&at).unwrap(), b"another");
}

#[test]
fn times_that_were_set_survive_what_is_written_later_by_the_cache() {
    use std::time::{Duration, UNIX_EPOCH};
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let at = mounted.at().join("file");
    let set = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let file = File::create(&at).unwrap();
    file.write_all_at(&[7; 100_000], 0).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    assert!(written.elapsed().unwrap() < crate::mount::BOUND);
    file.set_modified(set).unwrap();
    let before = file.metadata().unwrap();
    assert_eq!(before.modified().unwrap(), set);
    file.sync_all().unwrap();
    assert_eq!(
        mounted
            .source()
            .join("file")
            .metadata()
            .unwrap()
            .modified()
            .unwrap(),
        set
    );
    drop(file);
    let file = File::options().write(true).open(&at).unwrap();
    file.write_all_at(&[8; 100_000], 0).unwrap();
    file.set_modified(set).unwrap();
    drop(file);
    assert_eq!(at.metadata().unwrap().modified().unwrap(), set);
    mounted.end(Signal::TERM);
    assert_eq!(
        mounted
            .source()
            .join("file")
            .metadata()
            .unwrap()
            .modified()
            .unwrap(),
        set
    );
}

#[test]
fn a_cache_is_found_by_where_it_is_mounted_and_does_not_record_into_itself() {
    let Some(mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let at = mounted.at().display().to_string();
    let (code, said) = millpond(&["caches"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("  {at}  ")), "{at} is not in\n{said}");
    let (code, said) = millpond(&["stat", "--cache", &at]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = millpond(&["top", "--once", "--cache", &at]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("/mnt (pid "), "{said}");
    let trace = format!("{at}/trace");
    let (code, said) = millpond(&["record", "--for", "1s", &trace, "--cache", &at]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("give a path outside"), "{said}");
    assert!(!mounted.at().join("trace").exists());
}

#[test]
fn memory_without_a_unit_asks_whether_mebibytes_were_meant() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (memory, words) in [
        ("64", "did you mean 64M?"),
        ("70000", "is too small"),
        ("1P", "1P"),
    ] {
        let (code, said) = millpond(&["mount", folder, folder, "--memory", memory]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
