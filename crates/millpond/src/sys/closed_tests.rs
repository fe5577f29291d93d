//! A program that closes descriptors of the cache's by mistake: it is told, and nothing waits for ever.
//!
//! Here and not beside the others, because to close another's descriptor needs what is allowed in `sys` only. Each runs in a
//! process of its own, whose other descriptors stay whole.

use crate::{Error, OpenOptions, PageCache};
use std::path::Path;
use std::process::Command;

/// Says to a test that it is the child, and in which folder.
const CHILD: &str = "MILLPOND_CLOSED_CHILD";

/// Closes all eventfds of this process.
fn close_eventfds() -> usize {
    let listed: Vec<_> = std::fs::read_dir("/proc/self/fd").unwrap().flatten().collect();
    let is_one =
        |path: &Path| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("eventfd"));
    let ours = listed.iter().filter(|entry| is_one(&entry.path()));
    let numbers: Vec<i32> = ours
        .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .collect();
    for &number in &numbers {
        // SAFETY: takes a number. Their owners take it.
        unsafe { libc::close(number) };
    }
    numbers.len()
}

fn runs(name: &str, maps: bool) {
    if let Ok(folder) = std::env::var(CHILD) {
        let built = PageCache::builder().memory(8 << 20).mappings(maps).build();
        let cache = match built {
            Err(why @ Error::Setup { .. }) => return println!("skipped: {why}"),
            built => built.unwrap(),
        };
        let file = cache
            .open(Path::new(&folder).join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&[1; 1 << 20], 0).unwrap();
        file.sync_data().unwrap();
        if close_eventfds() == 0 {
            return println!("skipped: no ring here");
        }
        // Many pages, which the ring is to write.
        let tried = file.write_at(&[2; 1 << 20], 0).and_then(|()| file.sync_data());
        let said = match tried {
            Err(error) => error.to_string(),
            Ok(()) => file.sync_data().unwrap_err().to_string(),
        };
        drop((file, cache));
        return println!("ended: {said}");
    }
    let folder = crate::scratch::folder();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("sys::closed_tests::{name}"), "--nocapture"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    if let Some(why) = said.lines().find(|line| line.contains("skipped: ")) {
        return println!("{why}");
    }
    let ended = said.lines().find(|line| line.contains("ended: "));
    assert!(
        ended.is_some_and(|line| line.contains("the program has closed one of the cache's own descriptors")),
        "{}: {said}{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// The close of the file took 20 s, and the drop of the cache never ended.
#[test]
fn a_cache_whose_eventfd_the_program_has_closed_says_so_and_ends() {
    runs(
        "a_cache_whose_eventfd_the_program_has_closed_says_so_and_ends",
        false,
    );
}

#[test]
fn so_does_one_whose_handlers_can_be_woken_no_more() {
    runs("so_does_one_whose_handlers_can_be_woken_no_more", true);
}
