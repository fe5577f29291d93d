//! The same files on other file systems and on block devices, made in an image for the test and mounted.
//!
//! Needs root, the tools and the file system in the kernel: a test that has not all of it says "skipped" and why. What
//! is mounted or attached is let go of when the test ends, however it ends.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints why it was skipped"
)]

use crate::support::{Draw, Kind, bounded};
use millpond::{Error, File, OpenOptions, PageCache};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Does a command; what it says if it fails or is not there.
fn run(command: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(command).args(arguments).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(format!("{command}: {}", said(&output.stderr))),
    }
}

/// A file that is a block device, until it is dropped.
struct Loop {
    device: String,
    image: PathBuf,
}

impl Loop {
    fn new(image: PathBuf, bytes: u64, sector: u64) -> Result<Loop, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can attach a file as a block device".into());
        }
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let (sector, path) = (sector.to_string(), image.display().to_string());
        let device = run("losetup", &["--find", "--show", "--sector-size", &sector, &path])?;
        Ok(Loop { device, image })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(said) = run("losetup", &["--detach", &self.device]) {
            println!("{said}");
        }
    }
}

/// A file system that is mounted until it is dropped. In this order: unmounted, detached, removed.
struct Mounted {
    how: Vec<String>,
    point: PathBuf,
    _device: Option<Loop>,
    _folder: tempfile::TempDir,
}

impl Mounted {
    fn new(how: &[&str], folder: tempfile::TempDir, device: Option<Loop>) -> Result<Mounted, String> {
        let point = folder.path().join("mounted");
        std::fs::create_dir(&point).unwrap();
        let mounted = Mounted {
            how: how.iter().map(|&argument| argument.to_owned()).collect(),
            point,
            _device: device,
            _folder: folder,
        };
        mounted.mount()?;
        Ok(mounted)
    }

    fn mount(&self) -> Result<String, String> {
        let point = self.point.display().to_string();
        let how = self.how.iter().map(String::as_str);
        run("mount", &how.chain([point.as_str()]).collect::<Vec<_>>())
    }

    fn unmount(&self) -> Result<String, String> {
        run("umount", &[&self.point.display().to_string()])
    }

    /// As after a restart of the machine.
    fn again(&self) {
        when_idle(|| self.unmount());
        self.mount().unwrap();
    }
}

/// Does it when the file system is not busy. A program that another test is just starting has copies of all open files
/// until it runs: the file system is busy for so long.
fn when_idle(command: impl Fn() -> Result<String, String>) {
    let begun = Instant::now();
    while let Err(error) = command() {
        assert!(
            error.contains("busy") && begun.elapsed() < Duration::from_secs(30),
            "{error}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that has failed may have left files open.
        if self.unmount().is_err() {
            let _ = run("umount", &["--lazy", &self.point.display().to_string()]);
        }
    }
}

/// A new file system on a device with sectors of that size.
fn made(make: &[&str], mebibytes: u64, sector: u64) -> Result<Mounted, String> {
    let folder = tempfile::tempdir().unwrap();
    let device = Loop::new(folder.path().join("image"), mebibytes << 20, sector)?;
    let (tool, arguments) = (make[0], &make[1..]);
    run(tool, &[arguments, &[&device.device]].concat())?;
    let name = device.device.clone();
    Mounted::new(&[&name], folder, Some(device))
}

/// Runs `test` on the file system, or says why not.
fn on(mounted: Result<Mounted, String>, test: impl FnOnce(&Mounted) + Send + 'static) {
    match mounted {
        Err(why) => println!("skipped: {why}"),
        Ok(mounted) => bounded(move || test(&mounted)),
    }
}

/// By default; `MILLPOND_FSX=n` for others.
const SEEDS: u64 = 3;
const OPERATIONS: u64 = 150;

fn seeds() -> std::ops::Range<u64> {
    crate::support::seeds("MILLPOND_FSX", SEEDS)
}

/// Histories on one file each, by ring and by threads, which are there also after the file system was unmounted.
fn histories(mounted: &Mounted) {
    let mut all = Vec::new();
    for (kind, seed) in [Kind::Ring, Kind::Pool]
        .into_iter()
        .flat_map(|kind| seeds().map(move |seed| (kind, seed)))
    {
        let folder = mounted.point.join(format!("{kind:?} {seed}"));
        std::fs::create_dir(&folder).unwrap();
        all.extend(crate::world::history(kind, &folder, seed, OPERATIONS).unwrap_or_default());
    }
    let check = |when: &str| {
        for file in &all {
            for path in &file.paths {
                assert!(
                    std::fs::read(path).unwrap() == file.bytes,
                    "{} {when}",
                    path.display()
                );
            }
        }
    };
    check("at once");
    mounted.again();
    check("when it was mounted again");
}

fn drawn(len: u64) -> Vec<u8> {
    let mut draw = Draw(len);
    (0..len).map(|_| draw.bits() as u8).collect()
}

fn cache() -> PageCache {
    PageCache::builder().memory(2 << 20).build().unwrap()
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

/// The file system stops as it would if the power failed: what is only in its memory is lost. What was synced is there, by
/// the name of a file that was new, too.
fn power_fails(mounted: &Mounted) {
    let path = |name: &str| mounted.point.join(name);
    let cache = cache();
    let (kept, cut) = (open(&cache, &path("kept")), open(&cache, &path("cut")));
    let bytes = drawn(300_001);
    kept.write_at(&bytes, 0).unwrap();
    cut.write_at(&bytes, 0).unwrap();
    cut.sync_data().unwrap();
    cut.set_len(70_001).unwrap();
    cut.append(b"behind the cut").unwrap();
    cache.sync_all().unwrap();
    // Never synced: may be there or not.
    kept.write_at(b"more", 500_000).unwrap();
    cut.set_len(10).unwrap();
    if let Err(said) = run(
        "xfs_io",
        &["-x", "-c", "shutdown", &mounted.point.display().to_string()],
    ) {
        println!("skipped: {said}");
        return;
    }
    assert!(cut.sync_data().is_err(), "there is no file system any more");
    drop((kept, cut, cache));
    mounted.again();
    let (kept, cut) = (
        std::fs::read(path("kept")).unwrap(),
        std::fs::read(path("cut")).unwrap(),
    );
    assert!(kept[..300_001] == bytes && kept[300_001..].iter().all(|&byte| byte == 0));
    let expected = [&bytes[..70_001], b"behind the cut"].concat();
    assert!(cut == expected || cut == bytes[..10], "{} bytes", cut.len());
}

fn read_only(mounted: &Mounted) {
    let path = mounted.point.join("read");
    std::fs::write(&path, drawn(50_000)).unwrap();
    let point = mounted.point.display().to_string();
    when_idle(|| run("mount", &["-o", "remount,ro", &point]));
    let cache = cache();
    for options in [OpenOptions::new().write(true), OpenOptions::new().create(true)] {
        let error = cache.open(&path, options).unwrap_err();
        assert!(matches!(error, Error::Open { .. }), "{error}");
        assert_eq!(error.errno(), libc::EROFS);
    }
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let mut bytes = vec![0; 60_000];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 50_000);
    assert!(bytes[..50_000] == drawn(50_000));
    file.invalidate(..).unwrap();
    assert_eq!(file.page(12).unwrap().len(), 50_000 - 12 * 4096);
    file.close().unwrap();
    drop(cache);
    run("mount", &["-o", "remount,rw", &point]).unwrap();
}

fn all(mounted: &Mounted) {
    read_only(mounted);
    histories(mounted);
    power_fails(mounted);
}

#[test]
fn files_are_as_the_model_says_on_ext4() {
    on(made(&["mkfs.ext4", "-q"], 128, 512), all);
}

#[test]
fn files_are_as_the_model_says_on_ext4_with_blocks_of_1_kib() {
    on(made(&["mkfs.ext4", "-q", "-b", "1024"], 128, 512), all);
}

#[test]
fn files_are_as_the_model_says_on_ext4_with_sectors_of_4_kib() {
    on(made(&["mkfs.ext4", "-q"], 128, 4096), all);
}

#[test]
fn files_are_as_the_model_says_on_xfs() {
    on(made(&["mkfs.xfs", "-q"], 300, 512), all);
}

#[test]
fn files_are_as_the_model_says_on_xfs_with_sectors_of_4_kib() {
    on(made(&["mkfs.xfs", "-q"], 300, 4096), all);
}

#[test]
fn files_are_as_the_model_says_on_btrfs() {
    on(made(&["mkfs.btrfs", "-q"], 300, 512), |mounted| {
        read_only(mounted);
        histories(mounted);
    });
}

#[test]
fn files_are_as_the_model_says_on_tmpfs() {
    let folder = tempfile::tempdir().unwrap();
    on(Mounted::new(&["-t", "tmpfs", "none"], folder, None), |mounted| {
        let folder = mounted.point.join("files");
        std::fs::create_dir(&folder).unwrap();
        for seed in seeds() {
            let folder = folder.join(seed.to_string());
            std::fs::create_dir(&folder).unwrap();
            let files = crate::world::history(Kind::Ring, &folder, seed, OPERATIONS).unwrap_or_default();
            assert!(
                files
                    .iter()
                    .all(|file| std::fs::read(&file.paths[0]).unwrap() == file.bytes)
            );
        }
    });
}

/// Files of the lower layer are copied up when they are opened for writing: a reader that had them open sees
/// that.
#[test]
fn files_are_as_the_model_says_on_overlayfs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("lower").join("below"), drawn(100_000)).unwrap();
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        path("lower").display(),
        path("upper").display(),
        path("work").display()
    );
    on(
        Mounted::new(&["-t", "overlay", "-o", &layers, "overlay"], folder, None),
        |mounted| {
            let path = mounted.point.join("below");
            let cache = cache();
            let reader = cache.open(&path, OpenOptions::new()).unwrap();
            assert!(reader.page(2).unwrap()[..] == drawn(100_000)[8192..12_288]);
            let writer = open(&cache, &path);
            writer.write_at(b"changed", 8192).unwrap();
            writer.append(b"more").unwrap();
            assert_eq!(&reader.page(2).unwrap()[..7], b"changed");
            reader.sync_data().unwrap();
            let expected = [
                &drawn(100_000)[..8192],
                b"changed",
                &drawn(100_000)[8199..],
                b"more",
            ]
            .concat();
            assert!(std::fs::read(&path).unwrap() == expected);
            reader.invalidate(..).unwrap();
            let mut bytes = vec![0; 200_000];
            assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), expected.len());
            assert!(bytes[..expected.len()] == expected);
            drop((reader, writer, cache));
            histories(mounted);
            assert!(std::fs::read(&path).unwrap() == expected);
        },
    );
}

/// A device whose size is not a multiple of a page: read and written to its last byte, and never past it.
fn block_device(sector: u64, bytes: u64) {
    let folder = tempfile::tempdir().unwrap();
    let device = match Loop::new(folder.path().join("image"), bytes, sector) {
        Ok(device) => device,
        Err(why) => return println!("skipped: {why}"),
    };
    let path = PathBuf::from(&device.device);
    let mut expected = drawn(bytes);
    std::fs::write(&device.image, &expected).unwrap();
    for size in [4096, 16_384, 65_536] {
        let builder = PageCache::builder().page_size(size).memory(8 << 20);
        let cache = builder.build().unwrap();
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        file.invalidate(..).unwrap();
        assert_eq!(file.len(), bytes);
        let mut all = vec![0; bytes as usize + 1];
        assert_eq!(file.read_at(&mut all, 0).unwrap() as u64, bytes);
        assert!(all[..bytes as usize] == expected, "pages of {size}");
        let end = bytes as usize;
        file.write_at(&[size as u8 ^ 1; 700], bytes - 700).unwrap();
        expected[end - 700..].fill(size as u8 ^ 1);
        let last = (bytes - 1) / size;
        file.page_mut(last).unwrap()[0] = 9;
        expected[(last * size) as usize] = 9;
        file.write_at(b"somewhere", 12_345).unwrap();
        expected[12_345..12_354].copy_from_slice(b"somewhere");
        let grown = file.page_mut_or_grow(last).map(drop);
        if bytes.is_multiple_of(size) {
            grown.unwrap();
        } else {
            assert!(matches!(grown, Err(Error::FixedLength { .. })), "{grown:?}");
        }
        for refused in [
            file.write_at(&[1; 10], bytes - 9),
            file.write_at(&[1], bytes + (100 << 20)),
            file.append(b"x").map(drop),
            file.page_mut_or_grow(last + 1).map(drop),
            file.set_len(bytes + 1),
            file.set_len(0),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(error, Error::FixedLength { len, .. } if len == bytes),
                "{error}"
            );
            assert!(error.to_string().contains("is a block device of"), "{error}");
        }
        file.set_len(bytes).unwrap();
        file.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected, "pages of {size}");
    }
    // It has become larger under our hands.
    let cache = cache();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let image = std::fs::OpenOptions::new()
        .append(true)
        .open(&device.image)
        .unwrap();
    image.set_len(bytes + 8192).unwrap();
    run("losetup", &["--set-capacity", &device.device]).unwrap();
    assert_eq!(file.len(), bytes);
    file.invalidate(..).unwrap();
    assert_eq!(file.len(), bytes + 8192);
    assert_eq!(file.page((bytes + 8191) / 4096).unwrap()[0], 0);
}

#[test]
fn a_block_device_is_a_file_of_fixed_length() {
    bounded(|| block_device(512, (1 << 20) + 3 * 512));
}

#[test]
fn a_block_device_with_sectors_of_4_kib_is_a_file_of_fixed_length() {
    bounded(|| block_device(4096, (1 << 20) + 3 * 4096));
}
