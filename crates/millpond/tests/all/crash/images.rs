//! Every crash that there could have been of one file, and what it may have left.

use super::world::{Pond, device_identity};
use crate::history::{Seen, Taken};
use crate::support::Draw;
use millpond_testing::{AfterCrash, Fate, Happened, Journal};

/// The crashes of one file.
pub(crate) fn crashes(
    journal: &Journal,
    pond: &Pond,
    on_disk: &[u8],
    mut draw: Draw,
    end: usize,
    seen: &mut Seen,
) {
    let Some(mut crash) = journal.file(device_identity(&pond.path)) else {
        // It was never written, cut or synced.
        return;
    };
    let mut turns: Vec<usize> = pond.story.turns().collect();
    turns.sort_unstable();
    turns.dedup();
    let (mut position, mut taken) = (0, Vec::new());
    let mut journal = Vec::new();
    loop {
        // Until the next entry the same images are possible; what is promised may change in between.
        let until = crash.until().min(end);
        let between = turns
            .iter()
            .copied()
            .filter(|&turn| position < turn && turn <= until);
        for position in std::iter::once(position).chain(between) {
            if let Err(why) = look(&crash, pond, position, &taken, &mut draw, seen) {
                println!("{}\n{}", pond.story.told(), journal.join("\n"));
                panic!("{}: crash before entry {position}: {why}", pond.path.display());
            }
        }
        let happened = crash.advance();
        journal.push(format!("{until}: {happened:?}"));
        match happened {
            None => break,
            Some(Happened::Begun { bytes, since }) => {
                taken.push(Taken {
                    bytes,
                    positions: since..=until + 1,
                });
                seen.add("device write begun", 1);
            }
            Some(Happened::Done { failed, extended, .. }) => {
                seen.add(
                    if failed {
                        "device write failed"
                    } else {
                        "device write done"
                    },
                    1,
                );
                seen.add("device write extended", u64::from(extended));
            }
            Some(Happened::Length { from, to }) => {
                seen.add("device longer", u64::from(from < to));
                seen.add("device shorter", u64::from(to < from));
            }
            Some(Happened::Synced { .. }) => seen.add("device synced", 1),
        }
        position = until + 1;
    }
    assert!(on_disk == crash.live(), "the journal has not what the file has");
}

/// Some of the images of a crash at `position`.
fn look(
    crash: &AfterCrash<'_>,
    pond: &Pond,
    position: usize,
    taken: &[Taken],
    draw: &mut Draw,
    seen: &mut Seen,
) -> Result<(), String> {
    let fates = [
        Fate::Lost,
        Fate::Kept,
        Fate::Drawn(draw.bits()),
        Fate::Drawn(draw.bits()),
    ];
    seen.add("crash points", 1);
    for fate in fates {
        let (image, survived) = crash.image(fate);
        match pond.story.check(&image, position, crash.sector_bytes(), taken) {
            Ok(mixed) => seen.add("sectors mixed in memory", mixed),
            Err(why) => return Err(format!("{fate:?}: {why}")),
        }
        seen.add("images", 1);
        seen.add("crash write kept", survived.kept);
        seen.add("crash write lost", survived.lost);
        seen.add("crash write torn", survived.torn);
        seen.add("crash write reordered", survived.reordered);
        seen.add("crash write in transit", survived.in_transit);
        seen.add("crash length kept", survived.lengths_kept);
        seen.add("crash length lost", survived.lengths_lost);
        seen.add("crash length torn", survived.lengths_torn);
    }
    Ok(())
}
