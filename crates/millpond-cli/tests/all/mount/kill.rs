//! The process that serves the mount is killed under a load that knows what it was promised.
//!
//! Writers change blocks of files of their own, each block stamped with a number that rises, and sync now and then. When
//! the mount is back every block must have the number that it had at the last sync that has returned, or a later one,
//! whole; and files that were made and synced must be there. `MILLPOND_KILLS=n` kills n times; 5 by default. Every second
//! time it is a process that has just taken the mount over.

use super::{TestMount, folders};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KILLS: u64 = 5;
const WRITERS: u64 = 4;
const BLOCK: usize = 4096;
const BLOCKS: u64 = 200;

/// A writer's knowledge of its file.
struct Known {
    /// For each block: the number at the last sync, and the last one that was perhaps written.
    blocks: Vec<(u64, u64)>,
    next: u64,
    /// The number of small files made and synced.
    files: u64,
    draw: fastrand::Rng,
}

fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

impl Known {
    fn new(seed: u64) -> Known {
        Known {
            blocks: vec![(0, 0); BLOCKS as usize],
            next: 1,
            files: 0,
            draw: fastrand::Rng::with_seed(seed),
        }
    }

    /// Until the mount is gone.
    fn write(&mut self, folder: &Path, syncs: &AtomicU64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("blocks"))?;
        loop {
            for _ in 0..self.draw.u64(1..60) {
                let at = self.draw.u64(0..BLOCKS);
                // It may be there whatever is answered.
                self.blocks[at as usize].1 = self.next;
                file.write_all_at(&block(self.next), at * BLOCK as u64)?;
                self.next += 1;
            }
            let seen = self.next;
            match self.draw.u32(0..4) {
                0 => {
                    let small = File::create(folder.join(format!("small-{}", self.files)))?;
                    small.write_all_at(&block(self.files), 0)?;
                    small.sync_all()?;
                    self.files += 1;
                }
                _ => {
                    file.sync_data()?;
                    self.blocks
                        .iter_mut()
                        .filter(|block| block.1 < seen)
                        .for_each(|block| block.0 = block.1);
                }
            }
            syncs.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Reads the present content, and takes it as the truth. Returns the number of bytes.
    fn check(&mut self, folder: &Path) -> u64 {
        let bytes = fs::read(folder.join("blocks")).unwrap_or_default();
        for (n, (synced, written)) in self.blocks.iter_mut().enumerate() {
            let zeros = [0; BLOCK];
            let found = bytes.get(n * BLOCK..(n + 1) * BLOCK).unwrap_or(&zeros);
            let number = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(
                (*synced..=*written).contains(&number),
                "block {n} of {} has {number}, of {synced} synced and {written} written",
                folder.display()
            );
            assert!(found == block(number), "block {n} is a mixture");
            (*synced, *written) = (number, number);
        }
        for n in 0..self.files {
            let bytes = fs::read(folder.join(format!("small-{n}"))).unwrap();
            assert!(bytes == block(n), "small-{n} has {} bytes", bytes.len());
        }
        bytes.len() as u64 + self.files * BLOCK as u64
    }
}

#[test]
fn data_synced_at_the_mount_survives_a_kill_of_its_process() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    for folder in folders() {
        let Some(mut mounted) = TestMount::start(&folder, &["--memory", "3M"]) else {
            return;
        };
        let mut known: Vec<_> = (0..WRITERS).map(Known::new).collect();
        let syncs = AtomicU64::new(0);
        let mut draw = fastrand::Rng::with_seed(7);
        let mut checked = 0;
        for n in 0..WRITERS {
            fs::create_dir(mounted.at().join(n.to_string())).unwrap();
        }
        // Their names are durable from here on.
        File::open(mounted.at()).unwrap().sync_all().unwrap();
        for kill in 0..kills {
            let at = mounted.at();
            std::thread::scope(|scope| {
                for (n, known) in known.iter_mut().enumerate() {
                    let (folder, syncs) = (at.join(n.to_string()), &syncs);
                    scope.spawn(move || {
                        let error = known.write(&folder, syncs).unwrap_err();
                        let errno = error.raw_os_error().unwrap_or(0);
                        let gone = [libc::ENOTCONN, libc::ECONNABORTED, libc::EIO];
                        assert!(gone.contains(&errno), "{error}");
                    });
                }
                // Some syncs later, at some moment.
                let from = syncs.load(Ordering::SeqCst);
                let (wanted, began) = (draw.u64(4..60), Instant::now());
                while syncs.load(Ordering::SeqCst) < from + wanted {
                    assert!(began.elapsed() < crate::mount::BOUND, "no sync ends");
                    std::thread::sleep(Duration::from_micros(draw.u64(1..2000)));
                }
                if kill % 2 == 1 {
                    mounted.take_over();
                }
                mounted.kill();
            });
            mounted.again();
            for (n, known) in known.iter_mut().enumerate() {
                checked += known.check(&mounted.at().join(n.to_string()));
            }
            if kill + 1 == kills {
                let syncs = syncs.load(Ordering::SeqCst);
                println!(
                    "{kills} kills, {syncs} syncs, {checked} bytes checked, over {}",
                    folder.display()
                );
            }
        }
        let (said, code) = mounted.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        for (n, known) in known.iter_mut().enumerate() {
            known.check(&mounted.source().join(n.to_string()));
        }
    }
}
