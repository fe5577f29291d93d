//! Pages that are lent to the kernel: they are those of the file, whoever changes it, they are within the budget, and taking
//! them back hangs nobody.

use super::maps::{RACE, python};
use super::{TestMount, folders, skip};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

/// `cached(path)`: how many pages of the file the kernel has, or `None` where it can't be asked.
const CACHED: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def cached(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        range_, stat = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        failed = libc.syscall(451, fd, ctypes.byref(range_), ctypes.byref(stat), 0)
        return None if failed else stat[0]
    finally: os.close(fd)
";

fn lending(arguments: &[&str]) -> Option<TestMount> {
    TestMount::start(&folders()[0], arguments)
}

/// How many pages the kernel has of each of these files; `None`, and says why, where that can't be asked.
fn cached(paths: &[&Path]) -> Option<Vec<u64>> {
    let said = python(
        &format!("{CACHED}\nfor path in sys.argv[1:]: print(cached(path))"),
        paths,
    )?;
    let counts: Option<_> = said.lines().map(|line| line.parse().ok()).collect();
    if counts.is_none() {
        skip("the kernel has no cachestat(2)");
    }
    counts
}

fn numbered(pages: usize) -> Vec<u8> {
    (0..pages << 12).map(|at| (at >> 12) as u8 ^ at as u8).collect()
}

fn end(mut mounted: TestMount) {
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn pages_read_are_lent_and_pages_read_with_o_direct_or_only_written_are_not() {
    let Some(mounted) = lending(&["--memory", "32M", "--lend", "8M"]) else {
        return;
    };
    let content = numbered(512);
    let [read, direct, written] = ["read", "direct", "written"].map(|name| mounted.at().join(name));
    fs::write(mounted.source().join("read"), &content).unwrap();
    fs::write(mounted.source().join("direct"), &content).unwrap();
    fs::write(&written, &content).unwrap();
    assert!(fs::read(&read).unwrap() == content);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&direct)
        .unwrap();
    let mut bytes = vec![0; content.len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content);
    if cached(&[&read]).is_none() {
        return;
    }
    // The budget may not have been divided when it was read first.
    super::wait_until("it is not lent", || {
        assert!(fs::read(&read).unwrap() == content);
        cached(&[&read]) == Some(vec![512])
    });
    assert_eq!(cached(&[&direct, &written]), Some(vec![0, 0]));
    assert!(fs::read(&read).unwrap() == content && fs::read(&written).unwrap() == content);
    drop(file);
    end(mounted);
}

#[test]
fn writes_cuts_and_punches_by_others_are_seen_at_once_in_lent_pages() {
    let Some(mut mounted) = lending(&["--memory", "32M", "--lend", "8M"]) else {
        return;
    };
    let (at, pages) = (mounted.at().join("file"), 64);
    fs::write(&at, numbered(pages)).unwrap();
    let mut model = numbered(pages);
    let reader = File::open(&at).unwrap();
    let open = |flags| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(&at)
            .unwrap()
    };
    let (cached, direct) = (open(0), open(libc::O_DIRECT));
    let only = OpenOptions::new().write(true).open(&at).unwrap();
    let is_seen = |model: &[u8], what: &str| {
        for file in [&reader, &cached, &direct] {
            let mut bytes = vec![0; model.len() + 1];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), model.len(), "{what}");
            let differs = bytes.iter().zip(model).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{what}");
        }
    };
    is_seen(&model, "first");
    for (n, file) in [&cached, &direct, &only].into_iter().enumerate() {
        for (offset, len) in [(0, 4096), (5000, 10), (12_288, 70_000), (200_001, 5000)] {
            let bytes = vec![n as u8 + 100; len];
            file.write_all_at(&bytes, offset).unwrap();
            model[offset as usize..][..len].copy_from_slice(&bytes);
            is_seen(&model, &format!("write {n} at {offset}"));
        }
    }
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&only, flags, 6000, 100_000).unwrap();
    model[6000..106_000].fill(0);
    is_seen(&model, "punch");
    only.set_len(150_001).unwrap();
    model.truncate(150_001);
    is_seen(&model, "cut");
    only.set_len(190_000).unwrap();
    model.resize(190_000, 0);
    is_seen(&model, "longer");
    let from = mounted.at().join("from");
    fs::write(&from, vec![7; 1 << 17]).unwrap();
    let from = File::open(&from).unwrap();
    let (mut offset, mut left) = (4096, 70_000);
    let mut from_offset = 0;
    while left > 0 {
        left -= rustix::fs::copy_file_range(&from, Some(&mut from_offset), &only, Some(&mut offset), left)
            .unwrap();
    }
    model[4096..][..70_000].fill(7);
    is_seen(&model, "copy");
    drop((reader, cached, direct, only, from));
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read(mounted.source().join("file")).unwrap() == model);
}

#[test]
fn changes_in_the_source_are_seen_by_the_next_open_though_pages_are_lent() {
    let Some(mounted) = lending(&["--memory", "32M", "--lend", "8M"]) else {
        return;
    };
    let (at, below) = (mounted.at().join("file"), mounted.source().join("file"));
    for (n, len) in [9000, 9000, 20_000, 5, 70_000, 70_000].into_iter().enumerate() {
        let content = vec![n as u8 + 1; len];
        let mut file = File::create(&below).unwrap();
        file.write_all(&content).unwrap();
        // A clock of milliseconds may give two changes one time.
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + n as u64);
        file.set_modified(time).unwrap();
        assert!(fs::read(&at).unwrap() == content, "{n}");
        assert!(fs::read(&at).unwrap() == content, "{n}, again");
    }
    end(mounted);
}

/// Reads a file once: `hot`, then as much as has `hot` taken back, `hot` again, and at last a long file.
#[test]
fn a_scan_leaves_lent_pages_that_are_used_with_the_kernel() {
    let Some(mounted) = lending(&["--memory", "32M", "--lend", "8M"]) else {
        return;
    };
    for (name, pages) in [("hot", 512), ("little", 2048), ("long", 20_000)] {
        fs::write(mounted.source().join(name), numbered(pages)).unwrap();
    }
    let at = |name: &str| mounted.at().join(name);
    let read = |names: &[&str]| names.iter().for_each(|name| drop(fs::read(at(name)).unwrap()));
    read(&["hot", "little"]);
    let Some(first) = cached(&[&at("hot")]) else {
        return;
    };
    assert_eq!(first, [0], "nothing is known of its use");
    read(&["hot", "long", "long"]);
    let Some(then) = cached(&[&at("hot"), &at("long")]) else {
        return;
    };
    // The kernel may have dropped some.
    assert!(then[0] > 256 && then[1] <= 2048, "{then:?}");
    end(mounted);
}

/// One process writes a page, and reads at once what it has written; others read the file, so that pages are taken back all
/// the time. What differs is printed, with how many pages were wrong at the end.
const WRITE_AND_READ: &str = "
import os, random, sys, time
path, LEN = sys.argv[1], 4 << 20
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, LEN)
readers = []
for seed in range(3):
    pid = os.fork()
    if pid == 0:
        draw, own = random.Random(seed), os.open(path, os.O_RDONLY)
        while True: os.pread(own, draw.choice([1, 4096, 65536]), draw.randrange(LEN))
    readers.append(pid)
draw, model, wrong = random.Random(7), bytearray(LEN), 0
end = time.monotonic() + float(sys.argv[2])
n = 0
while time.monotonic() < end:
    n += 1
    length = draw.choice([3, 4096, 6000, 40000])
    at = draw.randrange(LEN - length)
    if draw.random() < 0.5: at &= ~4095
    if draw.random() < 0.7: os.pread(fd, 4096, at)
    model[at:at + length] = bytes([n % 255 + 1]) * length
    os.pwrite(fd, model[at:at + length], at)
    wrong += os.pread(fd, length, at) != model[at:at + length]
for pid in readers:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
stale = sum(os.pread(fd, 4096, at) != model[at:at + 4096] for at in range(0, LEN, 4096))
os.fsync(fd)
with open(sys.argv[3], 'wb') as file: file.write(model)
print(wrong, stale)
";

/// A page that was taken back while a write of it was on its way was read with the old bytes, and kept.
#[test]
fn a_write_beside_readers_and_pages_that_are_taken_back_is_read_at_once_and_for_good() {
    let Some(mounted) = lending(&["--memory", "8M", "--lend", "256K"]) else {
        return;
    };
    let (at, model) = (mounted.at().join("file"), mounted.source().join("model"));
    let arguments = [at, "3".into(), model.clone()];
    let said =
        mounted.within_bound(move || python(WRITE_AND_READ, &arguments.each_ref().map(PathBuf::as_path)));
    let Some(said) = said else { return };
    assert_eq!(said, "0 0\n");
    assert!(fs::read(mounted.source().join("file")).unwrap() == fs::read(model).unwrap());
    end(mounted);
}

/// As without lending, by a descriptor with `O_DIRECT` beside a mapping of the kernel's pages.
#[test]
fn a_direct_write_beside_a_store_through_a_map_of_the_same_page_is_not_undone_by_it() {
    let Some(mounted) = lending(&["--memory", "32M", "--lend", "8M"]) else {
        return;
    };
    let direct =
        "fd, own = (os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | flag) for flag in (os.O_DIRECT, 0))";
    let script = RACE.replace("fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)", direct);
    let script = script.replace("mmap.mmap(fd, LEN)", "mmap.mmap(own, LEN)");
    assert!(script.contains(direct) && script.contains("own, LEN"));
    let at = mounted.at().join("file");
    let Some(said) = mounted.within_bound(move || python(&script, &[&at])) else {
        return;
    };
    assert_eq!(said, "0 0 True\n");
    end(mounted);
}

/// Processes that write parts of pages which are not there, store through maps, read and sync, on few pages.
const TANGLE: &str = "
import mmap, os, random, sys
path, LEN = sys.argv[1], 1 << 20
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, LEN)
pids = []
for seed in range(8):
    pid = os.fork()
    if pid == 0:
        draw, own = random.Random(seed), os.open(path, os.O_RDWR)
        direct = os.open(path, os.O_RDWR | os.O_DIRECT)
        map = mmap.mmap(own, LEN)
        for n in range(600):
            at = draw.randrange(LEN - 9000)
            what = draw.randrange(7)
            if what < 2: os.pread(own, 9000, at)
            elif what < 4: os.pwrite(own, b'x' * draw.choice([10, 9000]), at)
            elif what == 4: map[at] = n % 256
            elif what == 5: os.pwrite(direct, b'y' * 100, at)
            elif n % 20 == 0: os.fsync(own)
        os._exit(0)
    pids.append(pid)
print(sum(os.waitpid(pid, 0)[1] for pid in pids))
";

/// With two threads that answer the kernel, the one that took a page back for its answer waited for itself.
#[test]
fn pages_are_taken_back_from_readers_writers_and_mappings_and_no_call_hangs() {
    let Some(mounted) = lending(&["--memory", "8M", "--lend", "256K", "--threads", "2"]) else {
        return;
    };
    let at = mounted.at().join("file");
    let Some(said) = mounted.within_bound(move || python(TANGLE, &[&at])) else {
        return;
    };
    assert_eq!(said, "0\n");
    end(mounted);
}

/// What `millpond stat` says of a cache.
fn figures(cache: &str) -> serde_json::Value {
    let (code, said) = super::millpond(&["stat", "--json", "--cache", cache]);
    assert_eq!(code, Some(0), "{said}");
    // What there is to warn of follows.
    serde_json::from_str(said.lines().next().unwrap()).unwrap()
}

fn lent_bytes(cache: &str) -> u64 {
    figures(cache)["now"]["lent_bytes"].as_u64().unwrap()
}

/// A chunk is taken back and read again before it is written: the write has it dropped once more before it is answered. The
/// kernel holds a page that is written in part and was not read until then, so the thread that has the write must not wait for
/// that.
#[test]
fn a_write_to_a_chunk_that_was_taken_back_and_read_again_does_not_wait_for_itself() {
    let Some(mounted) = lending(&["--memory", "8M", "--lend", "256K"]) else {
        return;
    };
    let (at, others) = (mounted.at().join("file"), mounted.at().join("others"));
    fs::write(&at, numbered(16)).unwrap();
    fs::write(&others, numbered(256)).unwrap();
    mounted.within_bound(move || {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(&at).unwrap();
        // Nothing is read ahead.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        let (mut bytes, written) = ([0; 4096], 9 << 12);
        for n in 0..10 {
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(fs::read(&others).unwrap().len(), 256 << 12);
            file.read_exact_at(&mut bytes, 0).unwrap();
            file.write_all_at(&[n; 100], written + 50).unwrap();
            file.read_exact_at(&mut bytes, written).unwrap();
            assert!(bytes[50..150] == [n; 100], "write {n}");
        }
    });
    end(mounted);
}

/// The kernel waits with a page's lock for a disk that stands still. A notification for that page would wait with it, and keep
/// what others read from being taken back.
#[test]
fn pages_that_the_kernel_waits_for_are_not_taken_back_and_others_are() {
    // The kernel does not ask for names while the disk stands still.
    let of_high = "--memory 8M --lend 256K --threads 2 --attribute-timeout 3600";
    let of_high: Vec<_> = of_high.split(' ').collect();
    let Some((low, high)) = super::on_each_other(&[], &of_high) else {
        return;
    };
    fs::write(low.source().join("slow"), numbered(1024)).unwrap();
    fs::write(low.source().join("warm"), numbered(512)).unwrap();
    let [slow, warm] = ["slow", "warm"].map(|name| high.at().join(name));
    let warm_file = File::open(&warm).unwrap();
    let slow_file = File::open(&slow).unwrap();
    let read = |file: &File, page: u64| file.read_exact_at(&mut [0; 4096], page << 12).unwrap();
    // The first page of a chunk is lent, the next is asked for when the disk stands still.
    (0..512).for_each(|page| read(&warm_file, page));
    read(&slow_file, 0);
    let stopped = super::Stopped::stop(low.pid());
    let reader = thread::spawn(move || slow_file.read_exact_at(&mut [0; 4096], 900 << 12));
    let warm_again = warm_file.try_clone().unwrap();
    high.within_bound(move || {
        for _ in 0..4 {
            (0..512).for_each(|page| warm_again.read_exact_at(&mut [0; 4096], page << 12).unwrap());
        }
    });
    // By its number: the path would be looked up on the disk that stands still.
    let lent = lent_bytes(&high.program.id().to_string());
    drop(stopped);
    reader.join().unwrap().unwrap();
    assert!(lent <= 512 << 10, "{lent} bytes are lent, of 256 KiB at most");
    drop(warm_file);
    end(high);
    drop(low);
}

/// Eight readers of a file of four times the budget, which becomes a quarter meanwhile; the most that the process and the
/// kernel had in MiB, of all of it, and once the smaller budget was reached.
const BUDGET: &str = "
import subprocess, time
path, pid, program, point = sys.argv[1:]
def resident():
    lines = open(f'/proc/{pid}/status').read().splitlines()
    anon = next(int(line.split()[1]) for line in lines if line.startswith('RssAnon:'))
    return anon / 1024 + (cached(path) or 0) / 256
if cached(path) is None: sys.exit('no cachestat')
def readers(count):
    pids = []
    for n in range(count):
        child = os.fork()
        if child == 0:
            fd, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
            for at in range(size * n // count, size * n // count + size, 1 << 20): os.pread(fd, 1 << 20, at % size)
            os._exit(0)
        pids.append(child)
    return pids
def most(pids):
    most = 0
    while pids:
        most = max(most, resident())
        pids = [child for child in pids if os.waitpid(child, os.WNOHANG)[0] == 0]
    return most
first = most(readers(8))
set_ = subprocess.Popen([program, 'set', 'memory=16M', '--cache', point], stdout=subprocess.DEVNULL)
between = most(readers(8))
if set_.wait(): sys.exit('not set')
# Frames leave after the call: when they have, nothing comes in their place.
deadline = time.monotonic() + 100
while resident() > 16 * 1.05 + 6 and time.monotonic() < deadline: time.sleep(0.05)
print(first, between, most(readers(8)))
";

#[test]
fn the_process_and_the_lent_pages_are_within_the_budget_also_when_it_becomes_smaller() {
    let Some(mounted) = lending(&["--memory", "64M", "--lend", "auto"]) else {
        return;
    };
    fs::write(mounted.source().join("file"), vec![7; 256 << 20]).unwrap();
    let pid = mounted.program.id().to_string();
    let (at, point) = (mounted.at().join("file"), mounted.at());
    let arguments = [&*at, Path::new(&pid), Path::new(super::PROGRAM), &*point];
    let Some(said) = python(&format!("{CACHED}{BUDGET}"), &arguments) else {
        return;
    };
    let most: Vec<f64> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    println!("{most:?} MiB");
    // Beside the budget it has stacks and tables, and 5 %.
    assert!(
        most[0] < 64.0 * 1.05 + 4.0 && most[1] < 64.0 * 1.05 + 4.0,
        "{most:?}"
    );
    assert!(most[2] < 16.0 * 1.05 + 6.0, "{most:?}");
    end(mounted);
}

/// What is read over and over is lent by itself, half of the budget at most; a working set of others that needs that memory gets
/// it.
#[test]
fn without_a_setting_what_is_used_is_lent_and_given_back_to_what_would_be_read_from_the_disk() {
    let Some(mounted) = lending(&["--memory", "32M", "--lend", "auto"]) else {
        return;
    };
    for (name, pages) in [("used", 2800), ("direct", 5632)] {
        fs::write(mounted.source().join(name), numbered(pages)).unwrap();
    }
    let used = mounted.at().join("used");
    if cached(&[&used]).is_none() {
        return;
    }
    // The kernel may drop some.
    super::wait_until("what is used is not lent", || {
        fs::read(&used).unwrap();
        cached(&[&used]).is_some_and(|lent| lent[0] > 2000)
    });
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    let direct = options.open(mounted.at().join("direct")).unwrap();
    let cache = mounted.program.id().to_string();
    let misses = || figures(&cache)["counters"]["page_misses"].as_u64().unwrap();
    super::wait_until("the set of 22 MiB does not stay in 32 MiB", || {
        let before = misses();
        for at in (0..5632_u64 << 12).step_by(1 << 18) {
            direct.read_exact_at(&mut vec![0; 1 << 18], at).unwrap();
        }
        misses() == before
    });
    let lent = lent_bytes(&cache);
    assert!(lent < 6 << 20, "{lent} bytes are lent");
    drop(direct);
    end(mounted);
}
