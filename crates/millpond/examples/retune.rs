//! A cache under load that can be looked into and retuned from another terminal, for as long as you like.
//!
//! ```sh
//! cargo run --release -p millpond --example retune [FOLDER] [SECONDS]     # 60 s in the folder for temporary files
//! cargo run --release -- stat 1
//! cargo run --release -- set dirty.hard=4M memory=128M
//! ```
//!
//! One thread writes a file of 256 MiB from its start to its end, again and again; another reads single pages of it,
//! anywhere. Nothing of what it writes is of use; it is removed at the end.

use millpond::{OpenOptions, PageCache};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 256 << 20;
const WRITE_BYTES: usize = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(std::env::temp_dir, Into::into);
    let seconds: u64 = args.next().map_or(Ok(60), |text| text.parse())?;

    let cache = PageCache::builder().memory(64 << 20).control(true).build()?;
    if let Some(socket) = cache.control_path() {
        eprintln!(
            "a cache of 64 MiB, for {seconds} s: millpond stat 1 --cache {}",
            socket.display()
        );
    }
    let path = folder.join(format!("millpond-retune-{}", std::process::id()));
    let file = cache.open(&path, OpenOptions::new().create(true))?;
    file.set_len(FILE_BYTES)?;

    let over = AtomicBool::new(false);
    let done: millpond::Result<()> = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut page, mut n) = ([0; 4096], 1_u64);
            while !over.load(Ordering::Relaxed) {
                // Any page of the file (the multiplier is Knuth's).
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                file.read_at(&mut page, (n >> 33) % (FILE_BYTES / 4096) * 4096)?;
            }
            Ok(())
        });
        let until = Instant::now() + Duration::from_secs(seconds);
        let writes = (0..FILE_BYTES).step_by(WRITE_BYTES).cycle();
        let written = writes
            .take_while(|_| Instant::now() < until)
            .try_for_each(|at| file.write_at(&[7; WRITE_BYTES], at));
        over.store(true, Ordering::Relaxed);
        let read = reader.join().expect("the reader does not panic");
        written.and(read)
    });
    let closed = file.close();
    std::fs::remove_file(&path)?;
    done?;
    closed?;

    for change in cache.history().changes {
        for setting in &change.settings {
            let (old, new) = (setting.old.as_deref(), setting.new.as_deref());
            eprintln!("{} set {} from {old:?} to {new:?}", change.by, setting.name);
        }
    }
    Ok(())
}
