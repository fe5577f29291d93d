//! The drawing and the sentences, of figures made up.

use super::*;
use crate::report::verdict::Grade;

fn round(tail_us: f64, class: u8) -> Round {
    Round {
        figures: Figures {
            reads: 9000.0,
            reads_per_s: 3000.0,
            p50_us: 50.0,
            p99_us: tail_us / 4.0,
            p999_us: tail_us,
            slowest_us: tail_us * 2.0,
            writers_s: 3.0,
        },
        reads: vec![vec![(34, 200), (class, 1)]; 30],
    }
}

fn demo(is_limited: bool) -> Demo {
    let clock = Clock::start(40).unwrap();
    let mut plan = plan::plan(Path::new("/"), &clock, 2e9, None);
    plan.kernel_group = is_limited.then_some("v1");
    let rounds = [
        vec![round(21e3, 86), round(22e3, 88)],
        vec![round(1.8e3, 66), round(1.7e3, 64)],
    ];
    Demo {
        verdict: answer::verdict(&plan, &rounds, None),
        report: Report::default(),
        svg: String::new(),
        plan,
        rounds,
        modelled: modelled::run(&Program::this(&[]), 1, &mut |_| Proceed::Yes)
            .unwrap()
            .0,
        notes: Vec::new(),
    }
}

#[test]
fn the_verdict_says_which_memory_each_side_had() {
    let limited = demo(true).verdict;
    assert_eq!(limited.grade, Grade::Better);
    assert!(
        limited.line.ends_with(
            "Millpond had a budget of 512 MiB and its program beside it, the kernel a memory group of 525 MiB for all, of version 1, \
             which lets writers fill it with dirty pages."
        ),
        "{}",
        limited.line
    );
    let sentence = demo(false).verdict.line;
    assert!(
        sentence.contains("The kernel had all of the machine's memory"),
        "{sentence}"
    );
}

/// It decided where the laboratory gives no verdict: with writers that took 0.24 s.
#[test]
fn writers_that_were_not_at_it_for_a_second_have_no_verdict_and_a_quiet_machine_is_asked_for_where_it_was_not()
 {
    let mut rounds = demo(true).rounds;
    for round in rounds.iter_mut().flatten() {
        round.figures.writers_s = 0.24;
    }
    let plan = demo(true).plan;
    let verdict = answer::verdict(&plan, &rounds, None);
    assert_eq!(verdict.grade, Grade::NotShown);
    let why = "Not shown, the writers took 0.24 s. A tail needs 1 s: --seconds 120 has longer runs: slowest";
    assert!(verdict.line.starts_with(why), "{}", verdict.line);
    let busy = Others::of(1.5, 2, Some(1.0));
    for few in [false, true] {
        for round in rounds.iter_mut().flatten().filter(|_| few) {
            (round.figures.writers_s, round.figures.reads) = (3.0, 200.0);
        }
        let line = answer::verdict(&plan, &rounds, Some(busy)).line;
        assert!(
            line.contains("on a quieter machine (others used 1.5 of 2 processors"),
            "{line}"
        );
    }
}

/// One in 1000 was printed for 290 reads, where the verdict's own rule needs 3000.
#[test]
fn a_percentile_of_too_few_reads_is_none() {
    let mut rounds = vec![round(21e3, 86), round(22e3, 88)];
    assert_eq!(tails(&rounds), [Some(5375.0), Some(21.5e3)]);
    rounds[1].figures.reads = 2999.0;
    assert_eq!(tails(&rounds), [Some(5375.0), None]);
    rounds[0].figures.reads = 290.0;
    assert_eq!(tails(&rounds), [None, None]);
    assert_eq!(tails(&[]), [None, None]);
}

#[test]
fn the_last_sentence_says_whose_load_it_is_and_that_it_is_not_this_disks() {
    let line = demo(true).modelled.verdict.line;
    assert!(
        line.starts_with("In virtual time, the post's load (4.88 GiB written, 512 MiB of memory) on a modelled SATA SSD and not this disk"),
        "{line}"
    );
}

#[test]
fn every_read_is_in_the_drawing_and_within_its_panel() {
    let demo = demo(true);
    let svg = picture::draw(&demo);
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
    let paths: Vec<_> = document
        .descendants()
        .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "path")))
        .collect();
    // two shades of two sides
    assert_eq!(paths.len(), 4);
    let mut dots = 0;
    for path in paths {
        let left = if path.attribute("class").unwrap().starts_with("kernel") {
            74.0
        } else {
            400.0
        };
        for dot in path.attribute("d").unwrap().split('M').skip(1) {
            let (x, y) = dot.trim_end_matches("h0").split_once(' ').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                x >= left && x <= left + 310.0 && (112.0..=350.0).contains(&y),
                "{x} {y}"
            );
            dots += 1;
        }
    }
    assert_eq!(dots, 2 * 2 * 30 * 2);
    assert!(svg.contains("slowest 43 ms, one in 1000 22 ms"), "{svg}");
    assert!(svg.len() < 100 << 10, "{} bytes", svg.len());
}

#[test]
fn a_run_without_reads_can_be_drawn() {
    let mut demo = demo(true);
    demo.rounds = [vec![Round::default()], vec![Round::default()]];
    roxmltree::Document::parse(&picture::draw(&demo)).unwrap();
}
