//! Pages that can't be had: of a file that can't be read, and behind its end.

use super::{BOTH, PAGE, byte, cache, cache_with, file_of, folder, open, touch};
use crate::{Error, Faults, MapOptions, OpenOptions, PageCheck, Warning};
use std::io::Write as _;
use std::os::unix::thread::JoinHandleExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Says to a test that it is the child: where the file is, and how faults are served.
const CHILD: &str = "MILLPOND_MAPPED_CHILD";

/// What a child of this test is to do with, if this is it.
fn child() -> Option<(PathBuf, Faults)> {
    let said = std::env::var(CHILD).ok()?;
    let (faults, path) = said.split_once(' ').unwrap();
    let faults = BOTH[usize::from(faults == "InThread")];
    Some((path.into(), faults))
}

/// How a child of this test ends, and what it says on stderr.
fn ends(name: &str, path: &std::path::Path, faults: Faults) -> (Option<i32>, String) {
    use std::os::unix::process::ExitStatusExt;
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("sys::mapped_tests::signals::{name}"),
            "--nocapture",
        ])
        .env(CHILD, format!("{faults:?} {}", path.display()))
        .output()
        .unwrap();
    (
        ran.status.signal(),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

/// Refuses a page while it is told to.
struct Refuses(AtomicBool);

impl PageCheck for Refuses {
    fn before_write(&self, _: u64, _: &mut [u8]) {}

    fn after_read(&self, page: u64, _: &[u8]) -> Result<(), String> {
        match page == 3 && self.0.load(Ordering::SeqCst) {
            true => Err("it is not liked".to_owned()),
            false => Ok(()),
        }
    }
}

#[test]
fn a_touch_of_a_page_that_cannot_be_read_is_a_signal_after_a_warning_that_says_why() {
    let name = "a_touch_of_a_page_that_cannot_be_read_is_a_signal_after_a_warning_that_says_why";
    if let Some((path, faults)) = child() {
        let cache = cache(2 << 20).unwrap();
        let options = OpenOptions::new().check(Arc::new(Refuses(true.into())));
        let file = cache.open(path, options).unwrap();
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        assert_eq!(touch(&mapping, 0), byte(0));
        panic!("page 3 has {}", touch(&mapping, 3 * PAGE));
    }
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    if cache(2 << 20).is_none() {
        return;
    }
    for faults in BOTH {
        let (signal, said) = ends(name, &path, faults);
        assert_eq!(signal, Some(libc::SIGBUS), "{said}");
        let warned = format!("a thread that has touched byte 12288 of {}", path.display());
        assert!(
            said.contains(&warned) && said.contains("it is not liked"),
            "{said}"
        );
    }
}

#[test]
fn a_touch_past_the_end_of_a_cut_file_is_a_signal() {
    let name = "a_touch_past_the_end_of_a_cut_file_is_a_signal";
    if let Some((path, faults)) = child() {
        let cache = cache(2 << 20).unwrap();
        let file = open(&cache, &path);
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        assert_eq!(touch(&mapping, 9 * PAGE), byte(9));
        file.set_len(5 * PAGE as u64 + 10).unwrap();
        assert_eq!(
            (touch(&mapping, 5 * PAGE), touch(&mapping, 5 * PAGE + 10)),
            (byte(5), 0)
        );
        panic!("page 9 has {}", touch(&mapping, 9 * PAGE));
    }
    let folder = folder();
    let path = folder.path().join("data");
    if cache(2 << 20).is_none() {
        return;
    }
    for faults in BOTH {
        file_of(&path, 10);
        let (signal, said) = ends(name, &path, faults);
        assert_eq!(signal, Some(libc::SIGBUS), "{said}");
    }
}

/// It had zeros, and nothing was said.
#[test]
fn a_touch_of_bytes_cut_off_by_others_is_a_signal() {
    let name = "a_touch_of_bytes_cut_off_by_others_is_a_signal";
    if let Some((path, faults)) = child() {
        let cache = cache(2 << 20).unwrap();
        let file = open(&cache, &path);
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        assert_eq!(touch(&mapping, 0), byte(0));
        let others = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        others.set_len(300 * PAGE as u64 + 10).unwrap();
        // Of the page in which it ends there is what is left, as in a kernel's mapping.
        let left = (touch(&mapping, 300 * PAGE), touch(&mapping, 300 * PAGE + 10));
        assert_eq!(left, (byte(300), 0));
        // Others see that these bytes are not the file's.
        let is_cut = |error| matches!(error, Error::Read { offset, .. } if offset == 300 * PAGE as u64 + 10);
        let whole = 300 * PAGE..301 * PAGE;
        assert!(is_cut(mapping.try_read(whole.clone(), |_| ()).unwrap_err()));
        assert!(is_cut(mapping.copy_to(&mut [0; PAGE], whole.start).unwrap_err()));
        assert!(is_cut(file.page(300).unwrap_err()));
        assert_eq!(
            mapping
                .try_read(whole.start..whole.start + 10, <[u8]>::len)
                .unwrap(),
            10
        );
        panic!("page 390 has {}", touch(&mapping, 390 * PAGE));
    }
    let folder = folder();
    let path = folder.path().join("data");
    if cache(2 << 20).is_none() {
        return;
    }
    for faults in BOTH {
        file_of(&path, 400);
        let (signal, said) = ends(name, &path, faults);
        assert_eq!(signal, Some(libc::SIGBUS), "{said}");
        let warned = format!(
            "a thread that has touched byte {} of {}",
            390 * PAGE,
            path.display()
        );
        assert!(
            said.contains(&warned) && said.contains("another program has truncated it"),
            "{said}"
        );
    }
}

#[test]
fn a_write_into_a_mapping_for_reading_is_a_signal() {
    let name = "a_write_into_a_mapping_for_reading_is_a_signal";
    if let Some((path, faults)) = child() {
        let cache = cache(2 << 20).unwrap();
        let mapping = open(&cache, &path)
            .map(.., &MapOptions::new().faults(faults))
            .unwrap();
        assert_eq!(touch(&mapping, 0), byte(0));
        // SAFETY: an address that may not be written, which ends the process.
        unsafe { mapping.as_ptr().cast_mut().write_volatile(1) };
        panic!("it has written {}", touch(&mapping, 0));
    }
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    if cache(2 << 20).is_none() {
        return;
    }
    for faults in BOTH {
        let (signal, said) = ends(name, &path, faults);
        assert_eq!(signal, Some(libc::SIGSEGV), "{said}");
    }
}

/// Whether a system call can have the byte at this place.
fn can_be_had(mapping: &crate::Mapping, at: usize) -> bool {
    can_be_written(mapping.as_ptr().wrapping_add(at))
}

/// Whether a system call can have the byte at this address, where nothing may be by then.
fn can_be_written(address: *const u8) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: what can't be read is an error.
    let written = unsafe { libc::write(pipe[1], address.cast(), 1) };
    for fd in pipe {
        // SAFETY: a descriptor of this call.
        unsafe { libc::close(fd) };
    }
    written == 1
}

#[test]
fn try_read_is_an_error_instead_and_the_next_touch_asks_again() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let warnings = Arc::new(AtomicU32::new(0));
    let told = warnings.clone();
    let with = move |builder: crate::Builder| {
        builder.on_warning(move |warning| {
            assert!(
                matches!(warning, Warning::Unreadable { offset: 12288, .. }),
                "{warning}"
            );
            told.fetch_add(1, Ordering::SeqCst);
        })
    };
    let Some(cache) = cache_with(2 << 20, with) else {
        return;
    };
    let refuses = Arc::new(Refuses(true.into()));
    let file = cache
        .open(&path, OpenOptions::new().write(true).check(refuses.clone()))
        .unwrap();
    let mapping = file.map(..100 * PAGE as u64, &MapOptions::new()).unwrap();
    let error = mapping.try_read(3 * PAGE..3 * PAGE + 1, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Check { page: 3, .. }), "{error}");
    let error = mapping.try_read(50 * PAGE..50 * PAGE + 1, |_| ()).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    if cache.notices().contains(&crate::Notice::NoKernelFaults) {
        return println!("skipped: system calls don't see faults here");
    }
    assert_eq!(warnings.load(Ordering::SeqCst), 0);
    assert!(!can_be_had(&mapping, 3 * PAGE));
    assert_eq!(warnings.load(Ordering::SeqCst), 1);
    refuses.0.store(false, Ordering::SeqCst);
    // The mark stays for a second.
    let began = Instant::now();
    while !can_be_had(&mapping, 3 * PAGE) {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not asked again");
    }
    assert_eq!(touch(&mapping, 3 * PAGE), byte(3));
    // Past the end there is no warning, and pages that the file grows over are there at once.
    assert!(!can_be_had(&mapping, 50 * PAGE));
    file.set_len(60 * PAGE as u64).unwrap();
    assert!(can_be_had(&mapping, 50 * PAGE));
    assert_eq!(touch(&mapping, 50 * PAGE), 0);
    file.write_at(&[9], 50 * PAGE as u64).unwrap();
    assert_eq!(touch(&mapping, 50 * PAGE), 9);
    file.punch(50 * PAGE as u64, PAGE as u64).unwrap();
    assert_eq!(touch(&mapping, 50 * PAGE), 0);
    assert_eq!(warnings.load(Ordering::SeqCst), 1);
}

/// The mark of the touch that failed was still there.
#[test]
fn bytes_lent_by_try_read_can_be_touched_although_a_touch_has_just_failed() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache_with(2 << 20, |builder| builder.on_warning(|_| ())) else {
        return;
    };
    if cache.notices().contains(&crate::Notice::NoKernelFaults) {
        return println!("skipped: system calls don't see faults here");
    }
    let refuses = Arc::new(Refuses(true.into()));
    let file = cache
        .open(&path, OpenOptions::new().check(refuses.clone()))
        .unwrap();
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    assert!(!can_be_had(&mapping, 3 * PAGE));
    refuses.0.store(false, Ordering::SeqCst);
    let lent = mapping.try_read(3 * PAGE..4 * PAGE, |_| can_be_had(&mapping, 3 * PAGE));
    assert!(lent.unwrap());
    assert_eq!(touch(&mapping, 3 * PAGE), byte(3));
}

/// The inner one gave way to the writer again and again, which waited for the outer one.
#[test]
fn try_read_of_a_page_that_the_thread_has_ends_although_a_writer_waits_for_it() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    for is_touched in [false, true] {
        let page = 3 + usize::from(is_touched);
        let range = page * PAGE..(page + 1) * PAGE;
        // A page that was changed is pinned by a count, for which a writer waits without looking again.
        file.write_at(&[byte(page)], (page * PAGE) as u64).unwrap();
        std::thread::scope(|scope| {
            let outer = |_: &[u8]| {
                if is_touched {
                    assert_eq!(touch(&mapping, page * PAGE), byte(page));
                }
                let write = scope.spawn(|| file.write_at(&[99], (page * PAGE) as u64).unwrap());
                // Long enough for the writer to wait; if it does not, the test sees nothing.
                std::thread::sleep(Duration::from_millis(50));
                assert!(!write.is_finished());
                mapping.try_read(range.clone(), |bytes| bytes[0]).unwrap()
            };
            assert_eq!(mapping.try_read(range.clone(), outer).unwrap(), byte(page));
        });
        assert_eq!(touch(&mapping, page * PAGE), 99);
    }
}

/// The mapping's end waited for the handler that waited for the hook: ten seconds, each time.
#[test]
fn a_hook_for_warnings_may_drop_the_mapping_of_which_a_touch_has_failed() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let (mapping, took) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    let (theirs, noted) = (mapping.clone(), took.clone());
    let with = move |builder: crate::Builder| {
        builder.on_warning(move |_| {
            let began = Instant::now();
            drop(theirs.lock().unwrap().take());
            *noted.lock().unwrap() = Some(began.elapsed());
        })
    };
    let Some(cache) = cache_with(2 << 20, with) else {
        return;
    };
    let options = OpenOptions::new().check(Arc::new(Refuses(true.into())));
    let file = cache.open(&path, options).unwrap();
    let drops_it = || {
        let made = file.map(.., &MapOptions::new()).unwrap();
        let address = made.as_ptr().wrapping_add(3 * PAGE);
        *mapping.lock().unwrap() = Some(made);
        // Another test may have its own memory there as soon as the mapping has gone, so this may succeed.
        can_be_written(address);
        // The warning comes first.
        took.lock().unwrap().take().unwrap()
    };
    // A processor that is taken away for seconds is so once or twice.
    let all: Vec<Duration> = std::iter::repeat_with(drops_it).take(5).collect();
    assert!(all.iter().any(|&took| took < Duration::from_secs(5)), "{all:?}");
    let again = file.map(.., &MapOptions::new()).unwrap();
    assert_eq!(touch(&again, 4 * PAGE), byte(4));
}

/// All handlers waited for frames, and the thread that had them for one of these.
#[test]
fn touches_that_get_no_frame_hold_up_no_others_and_go_on_when_there_is_one() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 400);
    let Some(cache) = cache(1 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    cache.set(&[("alloc_timeout", "10ms")]).unwrap();
    let mut guards = Vec::new();
    while let Ok(guard) = file.page(guards.len() as u64) {
        guards.push(guard);
    }
    let taken = guards.len();
    assert!((50..300).contains(&taken), "{taken}");
    cache.set(&[("alloc_timeout", "60s")]).unwrap();
    std::thread::scope(|scope| {
        let touch = |page: usize| touch(&mapping, page * PAGE);
        let without: Vec<_> = (0..12)
            .map(|n| scope.spawn(move || assert_eq!(touch(399 - n), byte(399 - n))))
            .collect();
        // Long enough for all of them to be asleep; if not, the test sees nothing.
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        (0..20).for_each(|page| assert_eq!(touch(page), byte(page)));
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert!(without.iter().all(|thread| !thread.is_finished()));
        drop(guards);
        without.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(cache.stats().warnings, 0);
}

#[test]
fn try_read_holds_off_a_writer_and_a_cut_until_it_is_over() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    let began = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let others = mapping
            .try_read(4 * PAGE..6 * PAGE, |bytes| {
                let write = scope.spawn(|| {
                    began.fetch_add(1, Ordering::SeqCst);
                    file.write_at(&[99; 100], 4 * PAGE as u64).unwrap();
                });
                let cut = scope.spawn(|| {
                    began.fetch_add(1, Ordering::SeqCst);
                    file.set_len(5 * PAGE as u64).unwrap();
                });
                let since = Instant::now();
                while began.load(Ordering::SeqCst) < 2 || since.elapsed() < Duration::from_millis(20) {
                    assert_eq!((bytes[0], bytes[PAGE + 5]), (byte(4), byte(5)));
                }
                assert!(!write.is_finished() && !cut.is_finished());
                [write, cut]
            })
            .unwrap();
        others.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!((touch(&mapping, 4 * PAGE), file.len()), (99, 5 * PAGE as u64));
}

/// Where the handler below touches, and how often it did.
static TOUCHED: (AtomicUsize, AtomicU64) = (AtomicUsize::new(0), AtomicU64::new(0));
const SIGNALLED_PAGES: usize = 512;

extern "C" fn touches(_: libc::c_int) {
    let (start, n) = (
        TOUCHED.0.load(Ordering::Relaxed),
        TOUCHED.1.fetch_add(1, Ordering::Relaxed),
    );
    let page = n as usize * 7919 % SIGNALLED_PAGES;
    // SAFETY: inside the mapping, which stays as long as the process.
    unsafe { (start as *const u8).wrapping_add(page * PAGE).read_volatile() };
}

/// It waited for the core lock, which the thread that it had interrupted held.
#[test]
fn a_signal_handler_touches_what_is_not_there_while_its_thread_serves_such_a_touch() {
    let name = "a_signal_handler_touches_what_is_not_there_while_its_thread_serves_such_a_touch";
    if let Some((path, faults)) = child() {
        let cache = cache(1 << 20).unwrap();
        let mapping = open(&cache, &path)
            .map(.., &MapOptions::new().faults(faults))
            .unwrap();
        TOUCHED.0.store(mapping.as_ptr().addr(), Ordering::Relaxed);
        // SAFETY: numbers, of which zero is a value.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        ours.sa_sigaction = touches as *const () as usize;
        ours.sa_flags = libc::SA_RESTART;
        // SAFETY: an action that outlives the call; `touches` is a handler of one argument, as no flag says otherwise.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const ours, std::ptr::null_mut()) };
        let touching = std::thread::spawn(move || {
            for n in 0..2_000 {
                let page = n * 31 % SIGNALLED_PAGES;
                assert_eq!(touch(&mapping, page * PAGE), byte(page));
            }
            std::mem::forget(mapping);
        });
        let thread = touching.as_pthread_t();
        while !touching.is_finished() {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            std::thread::yield_now();
        }
        touching.join().unwrap();
        let has_touched = TOUCHED.1.load(Ordering::Relaxed) > 0;
        writeln!(std::io::stderr(), "touched {has_touched}").unwrap();
        std::process::exit(0);
    }
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, SIGNALLED_PAGES);
    if cache(1 << 20).is_none() {
        return;
    }
    let (signal, said) = ends(name, &path, Faults::InThread);
    assert!(signal.is_none() && said.contains("touched true"), "{said}");
}
