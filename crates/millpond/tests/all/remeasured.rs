//! The goal for reads follows the device: one measured beside a load is measured again when the device is idle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, linger};
use millpond::device::{self, Completion, Device, DeviceFacts, DeviceFile, DeviceLoad, GoalSource, Request};
use millpond::{Notice, OpenOptions, PageCache};
use millpond_core::admission::AdmissionOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A disk that says that it rotates. While others keep it busy three of four reads take 5 ms more, and others have ended ten
/// requests meanwhile.
#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Device>,
    is_busy: AtomicBool,
    ended: AtomicU64,
    reads: AtomicU64,
    /// Whether it reports its requests.
    says: bool,
}

impl Shared {
    fn new(is_busy: bool, says: bool) -> Arc<Shared> {
        Arc::new(Shared {
            inner: device::best(),
            is_busy: AtomicBool::new(is_busy),
            ended: AtomicU64::new(1),
            reads: AtomicU64::new(0),
            says,
        })
    }

    fn cache(self: &Arc<Shared>) -> millpond::Builder {
        PageCache::builder().memory(4 << 20).device(self.clone())
    }
}

impl Device for Shared {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        let is_busy = self.is_busy.load(Ordering::SeqCst);
        if is_busy && !read.is_multiple_of(4) {
            // What the device takes; nothing waits for it to have passed.
            std::thread::sleep(Duration::from_millis(5));
        }
        let others = if is_busy { 10 } else { 0 };
        self.ended.fetch_add(1 + others, Ordering::SeqCst);
        self.inner.transfer(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        self.inner.submit(requests)
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        self.inner.wait(done, timeout)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        self.inner.sync(file)
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        DeviceFacts {
            rotational: true,
            ..self.inner.facts(file)
        }
    }

    fn load(&self, _file: &DeviceFile) -> DeviceLoad {
        match self.says {
            true => DeviceLoad::Disk {
                in_transit: u64::from(self.is_busy.load(Ordering::SeqCst)),
                ended: self.ended.load(Ordering::SeqCst),
            },
            false => DeviceLoad::Unknown,
        }
    }

    fn name(&self) -> &'static str {
        "shared with others"
    }
}

fn goal_ms(cache: &PageCache) -> f64 {
    match cache.options().admission {
        AdmissionOptions::Goal(goal) => goal.read_latency.0 as f64 / 1e6,
        other => panic!("{other:?}"),
    }
}

/// Waits until it is so; two minutes are a very busy day.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        linger(&is_so);
    }
}

fn measured(cache: &PageCache) -> bool {
    matches!(cache.goal_source(), Some(GoalSource::Measured(_)))
}

/// The machine was booting when the mount was started: its reads had a goal of 60 ms for as long as it ran.
#[test]
fn a_goal_measured_on_a_busy_disk_is_measured_again_when_the_disk_is_idle() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let disk = Shared::new(true, true);
    let cache = disk.cache().build().unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    assert!(goal_ms(&cache) > 59.0, "{}", goal_ms(&cache));
    let source = cache.goal_source().unwrap();
    assert!(matches!(source, GoalSource::MeasuredUnderLoad(_)), "{source}");
    assert!(
        source.to_string().contains("measured again when idle"),
        "{source}"
    );
    disk.is_busy.store(false, Ordering::SeqCst);
    until("the goal falls", || goal_ms(&cache) < 50.0 && measured(&cache));
    let found = cache.calibration().unwrap();
    let ms = found.read_latency_goal().as_nanos() as f64 / 1e6;
    assert!(
        (goal_ms(&cache) - ms).abs() < 1e-6,
        "{ms} and {}",
        goal_ms(&cache)
    );
    file.close().unwrap();
}

/// It may be a class's longest by right, or by what others do in a machine that this one can't see.
#[test]
fn a_small_file_is_measured_when_it_has_grown() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    let disk = Shared::new(false, true);
    let cache = disk.cache().build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    assert_eq!(cache.goal_source(), Some(GoalSource::Presumed));
    assert!(goal_ms(&cache) > 59.0, "{}", goal_ms(&cache));
    (0..1024_u64).for_each(|n| file.write_at(&[7; 4096], n * 4096).unwrap());
    file.sync_data().unwrap();
    // A look that found it short comes back after a minute.
    cache.set(&[("admission.read_latency", "measure")]).unwrap();
    until("measured", || measured(&cache));
    assert!(goal_ms(&cache) < 50.0, "{}", goal_ms(&cache));
    file.close().unwrap();
}

#[test]
fn a_goal_that_was_set_is_measured_where_that_is_asked_for() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    for says in [true, false] {
        let disk = Shared::new(false, says);
        let own = Duration::from_millis(60);
        let cache = disk.cache().read_latency_goal(own).build().unwrap();
        let measure = || cache.set(&[("admission.read_latency", "measure")]).unwrap();
        // Without a file there is nothing to read: the first one is measured as ever.
        measure();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        assert!(measured(&cache) && goal_ms(&cache) < 50.0);
        cache.set(&[("admission.read_latency", "60ms")]).unwrap();
        assert_eq!(cache.goal_source(), Some(GoalSource::Given));
        let before = disk.reads.load(Ordering::SeqCst);
        measure();
        until("measured", || measured(&cache));
        assert!(goal_ms(&cache) < 50.0, "{}", goal_ms(&cache));
        assert!(disk.reads.load(Ordering::SeqCst) >= before + 24);
        // And what is set afterwards holds.
        cache.set(&[("admission.read_latency", "33ms")]).unwrap();
        assert_eq!(cache.goal_source(), Some(GoalSource::Given));
        assert!((goal_ms(&cache) - 33.0).abs() < 1e-9);
        file.close().unwrap();
    }
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let wrong = cache.set(&[("admission", "bytes"), ("admission.read_latency", "measure")]);
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("belongs to admission=goal"), "{wrong}");
    let wrong = cache.set(&[("admission.read_latency", "mesure")]).unwrap_err();
    assert!(wrong.to_string().contains("or measure"), "{wrong}");
}

#[test]
fn a_goal_of_more_than_five_times_an_idle_disks_is_warned_of() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let disk = Shared::new(true, true);
    let cache = disk.cache().on_notice(|_| ()).build().unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let busy = |notice: &Notice| matches!(notice, Notice::GoalOfBusyDisk { .. });
    assert!(!cache.notices().iter().any(busy), "not before half a minute");
    until("told", || cache.notices().iter().any(busy));
    let told = cache.notices().into_iter().find(busy).unwrap().to_string();
    assert!(told.contains("the goal for reads is 60.0 ms"), "{told}");
    file.close().unwrap();
}
