//! Mappings of far more than there is memory for, even for what is known of their pages.

use super::{PAGE, cache, folder, touch};
use crate::{MapOptions, OpenOptions};
use std::sync::atomic::Ordering;

/// Its tables were taken from the budget by its length: 1 GiB for this one.
#[test]
fn a_sparse_file_of_a_tebibyte_is_mapped_within_a_small_budget_and_its_tables_stay_in_that() {
    const LEN: u64 = 1 << 40;
    let folder = folder();
    let path = folder.path().join("data");
    std::fs::File::create(&path).unwrap().set_len(LEN).unwrap();
    for writable in [false, true] {
        let Some(cache) = cache(16 << 20) else { return };
        let before = cache.stats().occupancy.frames.0;
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        let mapping = file.map(.., &MapOptions::new().writable(writable)).unwrap();
        assert!(before - cache.stats().occupancy.frames.0 <= 17);
        // Each touch is in 4 MiB of its own, and there is room for a quarter as many of those as there are frames.
        let places: Vec<usize> = (0..4000)
            .map(|n| n * 104_729 % (LEN as usize / PAGE) * PAGE)
            .collect();
        let value = |place: usize| (place / PAGE % 251) as u8;
        std::thread::scope(|scope| {
            for part in places.chunks(2000) {
                let mapping = &mapping;
                scope.spawn(move || {
                    for &place in part {
                        match writable {
                            true => {
                                let word = u64::from_ne_bytes([value(place); 8]);
                                mapping.words()[place / 8].store(word, Ordering::Relaxed);
                            }
                            false => assert_eq!(touch(mapping, place), 0),
                        }
                    }
                });
            }
        });
        let taken = before - cache.stats().occupancy.frames.0;
        assert!(taken <= before / 4, "{taken} of {before} frames for tables");
        assert!(taken > 17, "as many as were touched");
        if writable {
            mapping.sync(..).unwrap();
            let mut byte = [0];
            for &place in &places {
                assert_eq!(touch(&mapping, place), value(place));
                file.read_at(&mut byte, place as u64).unwrap();
                assert_eq!(byte[0], value(place));
            }
        }
        drop(mapping);
        assert_eq!(cache.stats().occupancy.frames.0, before);
    }
}
