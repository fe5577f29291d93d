//! What a touch costs, beside the kernel's own mapping: not run by itself.
//!
//! ```text
//! cargo test --release -p millpond --lib mapped_tests::speed -- --ignored --nocapture
//! ```
//!
//! `MILLPOND_ROW` picks a row by a part of its name. `MILLPOND_MIB` is the file's length, 1024; the cache has a quarter. The kernel's row is fair in a memory group of the
//! cache's size and 200 MiB more only; elsewhere the file stays in the kernel's page cache.

use super::{BOTH, PAGE, cache, open};
use crate::MapOptions;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_secs(5);

/// Draws pages, by Zipf's law with exponent 1 or all alike.
struct Pages {
    state: u64,
    pages: u64,
    is_zipf: bool,
}

impl Pages {
    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        match self.is_zipf {
            false => (unit * self.pages as f64) as u64,
            // Rank r has a share of about 1 / r; neighbours in rank lie apart.
            true => ((self.pages as f64).powf(unit) as u64).wrapping_mul(2_654_435_761) % self.pages,
        }
    }
}

/// Accesses in a second, of so many threads.
fn rate(threads: u64, pages: u64, is_zipf: bool, touch: impl Fn(u64) -> u8 + Sync) -> u64 {
    let one = |seed: u64| {
        let state = seed * 77_777 + 1;
        let mut draw = Pages {
            state,
            pages,
            is_zipf,
        };
        let (began, mut count, mut sum) = (Instant::now(), 0, 0_u64);
        while began.elapsed() < RUN {
            for _ in 0..64 {
                sum += u64::from(touch(draw.next()));
            }
            count += 64;
        }
        std::hint::black_box(sum);
        count
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>() / RUN.as_secs()
    })
}

/// The kernel's mapping of a file, read at random.
struct Kernel(usize, usize);

impl Kernel {
    fn new(file: &std::fs::File, len: usize) -> Kernel {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let kernel = Kernel(start as usize, len);
        kernel.advise(libc::MADV_RANDOM);
        kernel
    }

    fn advise(&self, advice: i32) {
        // SAFETY: a hint about this mapping.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(self.0), self.1, advice) };
    }

    fn touch(&self, page: u64) -> u8 {
        let at = self.0 + page as usize * PAGE;
        assert!(at < self.0 + self.1);
        // SAFETY: inside the mapping, which is there as long as `self`.
        unsafe { std::ptr::with_exposed_provenance::<u8>(at).read_volatile() }
    }

    /// Reads and writes it.
    fn change(&self, page: u64) -> u8 {
        let byte = self.touch(page);
        let at = self.0 + page as usize * PAGE;
        // SAFETY: as in `touch`, which has looked whether it is there.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(byte.wrapping_add(1)) };
        byte
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing refers into it any more.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.0), self.1) };
    }
}

fn change(mapping: &crate::Mapping, page: u64) -> u8 {
    let at = page as usize * PAGE;
    let byte = super::touch(mapping, at);
    // SAFETY: inside the mapping, which `touch` has looked at.
    unsafe {
        mapping
            .as_mut_ptr()
            .wrapping_add(at)
            .write_volatile(byte.wrapping_add(1))
    };
    byte
}

#[test]
#[ignore = "measures: takes a minute and a quiet machine"]
fn touches_beside_the_kernel_s() {
    let mib = std::env::var("MILLPOND_MIB").map_or(1024, |mib| mib.parse::<u64>().unwrap());
    let folder = tempfile::tempdir_in(std::env::var("MILLPOND_FOLDER").unwrap_or("/var/tmp".into())).unwrap();
    let path = folder.path().join("data");
    let bytes = vec![7; 1 << 20];
    let mut whole = std::fs::File::create(&path).unwrap();
    (0..mib).for_each(|_| std::io::Write::write_all(&mut whole, &bytes).unwrap());
    whole.sync_all().unwrap();
    let pages = mib << 8;
    println!(
        "accesses/s                 uniform 1, 8 threads    Zipf 1, 8 threads     read-modify-write 1, 8 threads"
    );
    let picked = std::env::var("MILLPOND_ROW").unwrap_or_default();
    let row = |name: &str, touch: &(dyn Fn(u64) -> u8 + Sync), change: &(dyn Fn(u64) -> u8 + Sync)| {
        if !name.contains(&picked) {
            return;
        }
        let rates = [(1, false), (8, false), (1, true), (8, true)];
        let rates = rates.map(|(threads, is_zipf)| rate(threads, pages, is_zipf, touch));
        let changes = [1, 8].map(|threads| rate(threads, pages, false, change));
        println!("{name:24} {rates:?} {changes:?}");
    };
    // A touch of each page in order, and of records of 256 KiB at random places, in MiB a second.
    let in_order = |name: &str, touch: &(dyn Fn(u64) -> u8 + Sync)| {
        if !name.contains(&picked) {
            return;
        }
        let next = std::sync::atomic::AtomicU64::new(0);
        let sequential = rate(1, pages, false, |_| {
            touch(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % pages)
        });
        let records = rate(1, pages / 64, false, |record| {
            (record * 64..record * 64 + 64)
                .map(touch)
                .fold(0, u8::wrapping_add)
        });
        println!(
            "{name:24} {} sequential, {} records",
            sequential / 256,
            records / 4
        );
    };
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let kernel = Kernel::new(&opened, (mib << 20) as usize);
    row("kernel, MADV_RANDOM", &|page| kernel.touch(page), &|page| {
        kernel.change(page)
    });
    kernel.advise(libc::MADV_NORMAL);
    in_order("kernel, MADV_NORMAL", &|page| kernel.touch(page));
    drop(kernel);
    opened.sync_all().unwrap();
    let Some(cache) = cache(mib << 18) else { return };
    let file = open(&cache, &path);
    file.advise(crate::Advice::Random).unwrap();
    for faults in BOTH {
        let mapping = file
            .map(.., &MapOptions::new().faults(faults).writable(true))
            .unwrap();
        let name = format!("mapping, {faults:?}");
        row(
            &name,
            &|page| super::touch(&mapping, page as usize * PAGE),
            &|page| change(&mapping, page),
        );
        file.advise(crate::Advice::Normal).unwrap();
        in_order(&name, &|page| super::touch(&mapping, page as usize * PAGE));
        file.advise(crate::Advice::Random).unwrap();
    }
    row(
        "page(), page_mut()",
        &|page| file.page(page).unwrap()[0],
        &|page| {
            let mut guard = file.page_mut(page).unwrap();
            guard[0] = guard[0].wrapping_add(1);
            guard[0]
        },
    );
}
