//! Regions as the buffers of reads and writes of files of the same cache.

use super::{MIB, cache, folder};
use crate::support::bounded;
use millpond::{File, OpenOptions, PageCache};

const THREADS: u64 = 12;
const LEN: u64 = 4 * MIB;
/// The size of one call, not a multiple of a page.
const CALL: u64 = MIB / 2 + 100;

/// The content of a file at an offset.
fn byte(offset: u64) -> u8 {
    (offset / 4096 * 31 + offset % 251) as u8
}

fn file(cache: &PageCache, folder: &std::path::Path, name: &str) -> File {
    let options = OpenOptions::new().create(true);
    let file = cache.open(folder.join(name), options).unwrap();
    let bytes: Vec<u8> = (0..LEN).map(byte).collect();
    file.write_at(&bytes, 0).unwrap();
    file
}

/// Each of several threads reads from the file into a region of its own, and writes from there.
fn crowd(cache: &PageCache, file: &File) {
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            scope.spawn(move || {
                let mut region = cache.region(MIB as usize).unwrap();
                for round in 0..16 {
                    let (at, from) = (
                        (n * 7 + round * 13) % 27 * (MIB / 8) + n,
                        (round * 4099 % (MIB / 4)) as usize,
                    );
                    let part = &mut region.as_mut_slice()[from..][..CALL as usize];
                    assert_eq!(file.read_at(part, at).unwrap(), CALL as usize);
                    let wrong = (at..).zip(&*part).find(|&(at, is)| *is != byte(at));
                    assert_eq!(wrong, None, "thread {n} round {round}");
                    file.write_at(part, at).unwrap();
                }
            });
        }
    });
}

/// Calls held pages of the file while they touched the region, whose pages then got no frame: after 30 s they were lost.
#[test]
fn reads_and_writes_of_many_threads_may_have_regions_as_buffers_at_the_least_memory() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 2 * MIB, THREADS * MIB) else {
            return;
        };
        crowd(&cache, &file(&cache, folder.path(), "one"));
        assert_eq!(cache.stats().warnings, 0);
    });
}

#[test]
fn a_read_into_a_region_ends_where_the_file_does_and_an_append_from_one_is_whole() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 2 * MIB, 4 * MIB) else {
            return;
        };
        let file = file(&cache, folder.path(), "one");
        let mut region = cache.region(4 * MIB as usize).unwrap();
        let at = LEN - MIB - 77;
        assert_eq!(file.read_at(region.as_mut_slice(), at).unwrap() as u64, MIB + 77);
        assert_eq!(file.read_at(region.as_mut_slice(), LEN).unwrap(), 0);
        assert_eq!(
            file.append(&region.as_slice()[..(MIB + 77) as usize]).unwrap(),
            LEN
        );
        let mut copy = vec![0; (MIB + 77) as usize];
        assert_eq!(file.read_at(&mut copy, LEN).unwrap(), copy.len());
        assert!((at..).zip(&copy).all(|(at, is)| *is == byte(at)));
        assert_eq!(file.len(), LEN + MIB + 77);
    });
}
