use super::*;

const FRAMES: PageCount = PageCount(64);

fn at(ms: u64) -> Instant {
    Instant(0) + Nanos::from_millis(ms)
}

fn ms(span: Option<Nanos>) -> Option<u64> {
    span.map(|span| span.0 / 1_000_000)
}

#[test]
fn a_page_is_as_old_as_it_has_been_in_memory() {
    let mut turnover = Turnover::new(FRAMES);
    assert_eq!(
        turnover.evicted(FrameNo(3), at(5)),
        None,
        "it came before that was noted"
    );
    turnover.came(FrameNo(3), at(10));
    turnover.came(FrameNo(4), at(11));
    assert_eq!(ms(turnover.evicted(FrameNo(3), at(40))), Some(30));
    turnover.came(FrameNo(3), at(50));
    assert_eq!(ms(turnover.evicted(FrameNo(3), at(55))), Some(5), "another page");
    assert_eq!(ms(turnover.evicted(FrameNo(4), at(61))), Some(50));
}

#[test]
fn of_a_large_memory_a_thousand_frames_at_most_are_a_sample() {
    let mut turnover = Turnover::new(PageCount(1_000_000));
    assert!(turnover.metadata_bytes() <= 8 * SAMPLED_MAX);
    let sampled = (0..1_000_000).map(FrameNo).filter(|&frame| {
        turnover.came(frame, at(1));
        turnover.evicted(frame, at(2)).is_some()
    });
    assert_eq!(sampled.count(), 977);
    turnover.resized(PageCount(2_000_000), PageCount(2_000_000), at(3));
    assert_eq!(turnover.evicted(FrameNo(0), at(4)), None, "another sample");
    turnover.came(FrameNo(1_998_848), at(5));
    assert_eq!(ms(turnover.evicted(FrameNo(1_998_848), at(6))), Some(1));
}

#[test]
fn a_distance_in_evictions_is_a_time_up_to_two_memories_back() {
    for frames in [64, 1000] {
        let mut turnover = Turnover::new(PageCount(frames));
        // The nth eviction is at n ms.
        for n in 1..=10 * frames {
            turnover.evicted(FrameNo(0), at(n));
        }
        let now = at(10 * frames + 7);
        let mark = frames.div_ceil(MARKS_A_MEMORY);
        for distance in [0, 1, 5, frames / 2, frames, 2 * frames - 2 * mark] {
            let away = ms(turnover.away(PageCount(distance), now)).unwrap();
            // What came after the last mark is spread up to now.
            assert!(away.abs_diff(distance + 7) <= 7, "{distance} of {frames}: {away}");
        }
        assert_eq!(turnover.away(PageCount(3 * frames), now), None);
        assert_eq!(turnover.away(PageCount(11 * frames), now), None);
    }
}

#[test]
fn a_memory_of_another_size_begins_its_order_of_evictions_anew() {
    let mut turnover = Turnover::new(FRAMES);
    (1..100).for_each(|n| _ = turnover.evicted(FrameNo(0), at(n)));
    turnover.resized(PageCount(128), FRAMES, at(100));
    assert_eq!(turnover.away(PageCount(1), at(101)), None);
    (101..=110).for_each(|n| _ = turnover.evicted(FrameNo(0), at(n)));
    assert_eq!(ms(turnover.away(PageCount(4), at(110))), Some(4));
}

#[test]
fn an_age_is_within_a_tenth_and_follows_what_was_last() {
    for ns in [1, 700, 1_500, 999_999, 3_000_000_000, u64::MAX / 2] {
        let mut age = Age::default();
        (0..50).for_each(|_| age.add(Nanos(ns)));
        let got = age.get().unwrap().0;
        assert!(got.abs_diff(ns) <= ns / 10, "{ns}: {got}");
    }
    let mut age = Age::default();
    assert_eq!(age.get(), None);
    (0..1000).for_each(|_| age.add(Nanos::from_millis(20)));
    age.add(Nanos::from_secs(3600));
    assert!(
        age.get() < Some(Nanos::from_millis(25)),
        "one that slept for an hour"
    );
    (0..1000).for_each(|_| age.add(Nanos::from_secs(2)));
    let seconds = age.get().unwrap_or_default().0 as f64 / 1e9;
    assert!((1.8..2.2).contains(&seconds), "{seconds}");
}

fn refaults(distances: impl IntoIterator<Item = u64>) -> Reuse {
    let mut reuse = Reuse::default();
    for distance in distances {
        reuse.refaulted(PageCount(distance), FRAMES, Some(Nanos::from_millis(distance)));
    }
    reuse
}

fn more(reuse: &Reuse) -> More {
    reuse.figures(FRAMES).more
}

#[test]
fn so_much_more_memory_would_have_kept_nine_in_ten() {
    assert_eq!(more(&Reuse::default()), More::None);
    assert_eq!(
        more(&refaults([1])),
        More::Pages(PageCount(8)),
        "an eighth is the least"
    );
    assert_eq!(more(&refaults([8; 3])), More::Pages(PageCount(8)));
    assert_eq!(more(&refaults([9])), More::Pages(PageCount(16)));
    assert_eq!(more(&refaults([64])), More::Pages(PageCount(64)));
    assert_eq!(more(&refaults([65])), More::AboveDouble);
    let one_in_ten_is_far = [20, 20, 20, 20, 20, 20, 20, 20, 20, 64];
    assert_eq!(more(&refaults(one_in_ten_is_far)), More::Pages(PageCount(24)));
    assert_eq!(more(&refaults([20, 20, 20, 64])), More::Pages(PageCount(64)));
    let few_missing = |more, rest| {
        let figures = ReuseFigures {
            more,
            ..ReuseFigures::default()
        };
        figures.of_what_is_missing(PageCount(rest), FRAMES).more
    };
    assert_eq!(
        few_missing(More::Pages(PageCount(24)), 9),
        More::Pages(PageCount(9))
    );
    assert_eq!(few_missing(More::AboveDouble, 60), More::Pages(PageCount(60)));
    assert_eq!(few_missing(More::AboveDouble, 65), More::AboveDouble);
    assert_eq!(few_missing(More::None, 65), More::None);
    assert_eq!(
        few_missing(More::AboveDouble, 0),
        More::None,
        "all of it is there by now"
    );
    let figures = refaults([20, 64, 65, 90]).figures(FRAMES);
    assert_eq!((figures.refaults, figures.refaults_kept_by_double), (4, 2));
}

#[test]
fn old_figures_expire_and_another_memory_size_starts_anew() {
    let far = core::iter::repeat_n(60, 100_000);
    let near = core::iter::repeat_n(3, 20_000);
    let mut reuse = refaults(far.chain(near));
    assert_eq!(more(&reuse), More::Pages(PageCount(8)));
    reuse.resized();
    assert_eq!(more(&reuse), More::None);
}

#[test]
fn the_age_at_a_refault_is_the_age_at_eviction_and_the_time_away() {
    let mut reuse = refaults([30; 10]);
    let away = ms(reuse.figures(FRAMES).refault_age());
    assert!(away.is_some_and(|ms| (29..=31).contains(&ms)), "{away:?}");
    (0..10).for_each(|_| reuse.evicted(Some(Nanos::from_millis(64))));
    reuse.evicted(None);
    let figures = reuse.figures(FRAMES);
    assert_eq!(figures.evicted, 11);
    let (evicted, refault) = (ms(figures.eviction_age), ms(figures.refault_age()));
    assert!(evicted.is_some_and(|ms| (63..=65).contains(&ms)), "{evicted:?}");
    assert!(refault.is_some_and(|ms| (92..=96).contains(&ms)), "{refault:?}");
}

#[test]
fn more_reads_than_pages_are_of_pages_that_were_there_too_long_ago_to_be_remembered() {
    let len = PageCount(100);
    let mut reuse = Reuse::default();
    assert_eq!(reuse.missed(100, len), 0, "each for the first time");
    assert_eq!(reuse.missed(60, len), 60);
    (0..30).for_each(|_| reuse.refaulted(PageCount(9), FRAMES, None));
    assert_eq!(reuse.missed(40, len), 10, "30 are remembered");
    reuse.discarded(50);
    assert_eq!(reuse.missed(70, len), 20, "50 went by the user's will");
    assert_eq!(reuse.figures(FRAMES).refaults_forgotten, 90);
    let mut all = Reuse::default();
    all.one_missed(270, 90);
    assert_eq!(all.figures(FRAMES).misses, reuse.figures(FRAMES).misses);
}
