//! The places compared with a naive model, and the smallest example of each rule.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A row of them and some; and as many as there may be.
const FRAMES: u32 = 600;
const MOST: u32 = 1100;

fn places() -> Places {
    let places = Places::new(MOST).unwrap();
    places.born(FRAMES, true);
    places
}

fn frames(numbers: impl IntoIterator<Item = u32>) -> Vec<FrameNo> {
    numbers.into_iter().map(FrameNo).collect()
}

fn of(places: &Places, frames: &[FrameNo]) -> Vec<u32> {
    frames.iter().map(|&frame| places.of(frame).unwrap()).collect()
}

fn are_side_by_side(places: &[u32]) -> bool {
    places.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

#[test]
fn a_frame_is_where_it_was_born_until_its_page_is_in_a_region() {
    let places = places();
    let some = frames([7, 3, 511, 512]);
    assert_eq!(of(&places, &some), [7, 3, 511, 512 + 64]);
    places.vacate(some.iter().copied());
    assert!(some.iter().all(|&frame| places.of(frame).is_none()));
}

#[test]
fn pages_that_leave_together_are_put_side_by_side() {
    let places = places();
    let leaving = frames([9, 100, 4, 33]);
    places.vacate(leaving.iter().copied());
    assert_eq!(places.put_together(leaving.iter().copied()), 4);
    let now = of(&places, &leaving);
    assert!(are_side_by_side(&now), "{now:?}");
    assert_eq!(
        places.put_together(leaving.iter().copied()),
        4,
        "they have places"
    );
    // Those that leave next are put behind them.
    let next = frames([50, 20]);
    places.vacate(next.iter().copied());
    assert_eq!(places.put_together(next.iter().copied()), 2);
    assert_eq!(of(&places, &next), [now[3] + 1, now[3] + 2]);
}

#[test]
fn of_frames_that_have_places_already_those_side_by_side_are_told() {
    let places = places();
    assert_eq!(places.put_together(frames([5, 6, 7, 9]).into_iter()), 3);
    assert_eq!(
        places.put_together(frames([511, 512]).into_iter()),
        1,
        "rows apart"
    );
    places.vacate(frames([6]).into_iter());
    assert_eq!(
        places.put_together(frames([5, 6, 7]).into_iter()),
        1,
        "6 has none"
    );
    assert_eq!(
        places.put_together(frames([6, 7]).into_iter()),
        1,
        "7 has one elsewhere"
    );
}

#[test]
fn frames_that_are_granted_together_get_places_side_by_side() {
    let places = places();
    let granted = frames([5, 130, 64, 2, 199]);
    assert!(places.granted(&granted, None).is_none());
    let now = of(&places, &granted);
    assert!(are_side_by_side(&now), "{now:?}");
    let next = frames([10, 150]);
    assert!(places.granted(&next, Some(FrameNo(199))).is_none());
    assert_eq!(of(&places, &next), [now[4] + 1, now[4] + 2]);
    let all: BTreeSet<_> = (0..FRAMES)
        .filter_map(|frame| places.of(FrameNo(frame)))
        .collect();
    assert_eq!(
        all,
        (0..FRAMES).map(born_at).collect(),
        "each place is one frame's"
    );
}

/// Behind each whole row there are some, and they have no memory yet: pages can be put side by side there at once.
#[test]
fn frames_that_are_new_bring_the_places_behind_their_row() {
    let places = Places::new(MOST).unwrap();
    let (frames, metadata) = (places.frames(), places.metadata_bytes());
    assert_eq!((frames, metadata, places.of(FrameNo(0))), (0, 0, None));
    let mut empty = Vec::new();
    for frames in [511, 512, 600, MOST] {
        places.born(frames, true);
        assert_eq!(places.frames(), frames);
        assert!(places.of(FrameNo(frames - 1)).is_some());
        let maps = places.maps.lock();
        assert_eq!(maps.free.len().0, u64::from(frames));
        empty.push(maps.empty.len().0);
    }
    assert_eq!(empty, [0, 64, 64, 128]);
    let per_frame = places.metadata_bytes() / u64::from(MOST);
    assert!(per_frame <= PLACE_BYTES, "{per_frame} bytes a frame");
}

#[test]
fn rows_are_of_512_frames() {
    let all: Vec<_> = rows(500..1030).collect();
    assert_eq!(all, [500..512, 512..1024, 1024..1030]);
    assert_eq!(rows(512..512).count(), 0);
    assert!(
        born_at(FRAMES_MAX) > u32::MAX - 1024,
        "and no more than can be counted"
    );
}

/// Its place has no memory: a frame that got it would have more than there is.
#[test]
fn a_frame_that_was_given_back_exchanges_its_place_with_none() {
    let places = places();
    places.given_back(FrameNo(70));
    let others: Vec<_> = (9..FRAMES).rev().filter(|&n| n != 70).map(FrameNo).collect();
    assert!(places.granted(&others, None).is_none());
    assert_eq!(places.of(FrameNo(70)), Some(70));
    assert_eq!(others.len(), FRAMES as usize - 10);
    assert!(of(&places, &others).iter().all(|&place| place != 70));
    // It is used again where it is.
    assert!(places.granted(&[FrameNo(70)], Some(FrameNo(3))).is_none());
    assert_eq!(places.of(FrameNo(70)), Some(70));
}

/// Places that are refreshed, in order.
fn of_stale(stale: Option<Stale>) -> Vec<u32> {
    stale.map_or_else(Vec::new, |mut stale| stale.runs().flatten().copied().collect())
}

#[test]
fn slots_from_a_region_are_refreshed_a_batch_at_a_time_before_reuse() {
    let places = places();
    let all: Vec<_> = (0..FRAMES).map(FrameNo).collect();
    assert!(places.granted(&all, None).is_none());
    let seen = frames(100..140);
    places.seen(seen.iter().copied());
    let at = of(&places, &seen);
    let freed: Vec<_> = seen.iter().map(|&frame| of_stale(places.freed(frame))).collect();
    assert_eq!(freed[31], at[..32], "as soon as there is a batch");
    assert_eq!(freed.iter().filter(|batch| !batch.is_empty()).count(), 1);
    // Eight are left. One is given back; the other seven are refreshed as soon as one of them is
    // used.
    places.given_back(seen[35]);
    let rest = frames((100..140).filter(|n| *n != 135));
    let stale = of_stale(places.granted(&rest, None));
    assert_eq!(
        stale,
        at[32..]
            .iter()
            .copied()
            .filter(|&place| place != at[35])
            .collect::<Vec<_>>()
    );
    rest.iter()
        .for_each(|&frame| assert!(places.freed(frame).is_none(), "they are fresh"));
}

/// What a frame is for, by the model.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    Free,
    InArena,
    InRegion,
    GivenBack,
}

proptest! {
    #[test]
    fn no_two_frames_have_one_place(steps in prop::collection::vec((0_u8..6, 0..FRAMES, 1_usize..40), 1..200)) {
        let places = places();
        let mut is = [Is::Free; FRAMES as usize];
        for (what, from, count) in steps {
            let mut some = |was: Is, now: Is| -> Vec<FrameNo> {
                let found: Vec<_> = (0..FRAMES)
                    .map(|n| (from + n * 37) % FRAMES)
                    .filter(|&n| is[n as usize] == was)
                    .take(count)
                    .collect();
                found.iter().for_each(|&n| is[n as usize] = now);
                frames(found)
            };
            match what {
                0 | 1 => {
                    let behind = (what == 1).then_some(FrameNo(from));
                    let granted = some(Is::Free, Is::InArena);
                    let _ = places.granted(&granted, behind);
                    let at = of(&places, &granted);
                    let maps = places.maps.lock();
                    prop_assert!(at.iter().all(|&place| !maps.seen.contains(FrameNo(place))));
                }
                2 => places.vacate(some(Is::InArena, Is::InRegion).into_iter()),
                3 => {
                    let leaving = some(Is::InRegion, Is::InArena);
                    let mut left = &leaving[..];
                    while !left.is_empty() {
                        let count = places.put_together(left.iter().copied());
                        prop_assert!(are_side_by_side(&of(&places, &left[..count])));
                        left = &left[count..];
                    }
                    places.seen(leaving.iter().copied());
                }
                4 => some(Is::InArena, Is::Free).into_iter().for_each(|frame| {
                    let _ = places.freed(frame);
                }),
                _ => some(Is::Free, Is::GivenBack).into_iter().for_each(|frame| places.given_back(frame)),
            }
            let mut seen = BTreeSet::new();
            for (n, is) in (0..).zip(is) {
                let place = places.of(FrameNo(n));
                prop_assert_eq!(place.is_none(), is == Is::InRegion, "frame {} is {:?}", n, is);
                prop_assert!(place.is_none_or(|place| seen.insert(place)), "frame {}: {:?} is another's", n, place);
            }
            let maps = places.maps.lock();
            maps.empty.validate();
            maps.free.validate();
            maps.seen.validate();
            let stale = maps.stale.places[..maps.stale.count].iter().collect::<BTreeSet<_>>();
            let due = |place: &u32| maps.free.contains(FrameNo(*place)) && maps.seen.contains(FrameNo(*place));
            prop_assert_eq!(stale.len(), (0..born_at(FRAMES)).filter(due).count());
            prop_assert!(stale.into_iter().all(due));
            let free = is.iter().filter(|&&is| is == Is::Free).count() as u64;
            prop_assert_eq!(maps.free.len(), PageCount(free));
            prop_assert_eq!(maps.empty.len().0 + seen.len() as u64, u64::from(born_at(FRAMES)));
        }
    }
}
