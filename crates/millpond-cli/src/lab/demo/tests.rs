//! The screen and the final summary, from invented reads.

use super::dots::{Axis, Dots, seconds};
use super::show::Show;
use super::{screen, terminal};
use millpond_core::units::Bytes;
use millpond_lab::experiment::axboe2016::demo::{Figures, Plan, Round, Side, Told};
use millpond_lab::measure::heat::Counts;
use millpond_lab::measure::others::Others;
use millpond_lab::workload::{Live, Progress};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn plan() -> Plan {
    Plan::with_sizes(
        "/var/tmp (ext4 on vda)",
        50,
        Bytes::from_mib(120),
        Bytes::from_mib(512),
    )
}

fn progress(number: u32, reads: &[Counts]) -> Progress {
    Progress {
        doing: "writing".into(),
        live: Some(Live {
            number,
            reads: reads.to_vec(),
            slowest_us: 47_000.0,
            written: 3 << 30,
            total: 6 << 30,
            in_transit: Some(12 << 20),
        }),
        ..Progress::default()
    }
}

/// A hundred reads of about 50 us, and one of 40 ms.
fn step() -> Counts {
    vec![(34, 100), (92, 1)]
}

fn show() -> Show {
    let mut show = Show::new();
    show.told(Told::Planned(Box::new(plan())));
    show.told(Told::Running(0, Side::Kernel, progress(0, &[step(), step()])));
    show
}

fn shown(show: &Show, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| terminal::draw(show, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let row =
        |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>() + "\n";
    rows.map(row).collect()
}

#[test]
fn repeated_reports_are_shown_once() {
    let mut show = show();
    show.told(Told::Running(0, Side::Kernel, progress(0, &[step(), step()])));
    assert_eq!(show.halves[0].rounds, [[step(), step()]]);
    show.told(Told::Running(0, Side::Kernel, progress(1, &[step()])));
    assert_eq!(show.halves[0].rounds[0].len(), 3);
    let (count, [p50, _]) = show.halves[0].reads([0.5, 0.99]);
    assert_eq!(count, 303);
    assert!((45.0..56.0).contains(&p50.unwrap()));
}

#[test]
fn the_end_of_a_run_replaces_its_reports_and_a_new_plan_begins_anew() {
    let mut show = show();
    let round = Round {
        figures: Figures::default(),
        reads: vec![step(); 5],
    };
    show.told(Told::Ended(Side::Kernel, round));
    assert_eq!(show.halves[0].rounds, [vec![step(); 5]]);
    show.told(Told::Running(1, Side::Kernel, progress(0, &[step()])));
    assert_eq!(show.halves[0].rounds.len(), 2);
    show.told(Told::Planned(Box::new(plan())));
    assert!(show.halves[0].rounds.is_empty());
}

#[test]
fn a_screen_of_each_size_shows_both_sides_and_no_line_is_cut() {
    for (width, height) in [(80, 24), (81, 25), (120, 40), (200, 50)] {
        let show = show();
        let lines = screen::lines(&show, width, height);
        assert_eq!(lines.len(), usize::from(height));
        let text = shown(&show, width, height);
        for part in [
            "KERNEL'S PAGE CACHE, all memory",
            "MILLPOND, 512 MiB",
            "round 1 of 4, on the kernel: writing",
            "slowest 47 ms",
            "written 3 GiB of 6 GiB [",
            "in transit to the disk 12 MiB",
            "Ctrl-C",
        ] {
            assert!(text.contains(part), "no {part:?} at {width} x {height}:\n{text}");
        }
        assert!(!text.contains('…'), "{text}");
    }
    let mut busy = show();
    busy.told(Told::Busy(Others::of(63.9, 64, Some(1.0))));
    let text = shown(&busy, 80, 24);
    let line = "Busy: others use 63.9 of 64 processors and 100 % of the disk's time.";
    assert!(text.contains(line), "{text}");
    let text = shown(&show(), 79, 24);
    assert!(text.contains("79 x 24 is too small"), "{text}");
}

#[test]
fn a_slow_read_is_a_dot_high_up_and_many_fast_ones_fill_the_bottom() {
    let rounds = [vec![step(); 4]];
    let axis = Axis::of(rounds.iter());
    let dots = Dots::draw(&rounds, 4, axis, (8, 10));
    let is_empty = |row: usize| dots.row(row).iter().all(|&bits| bits == 0);
    let labels = axis.labels(10);
    let at = |label: &str| labels.iter().position(|l| l.as_deref() == Some(label)).unwrap();
    // 40 ms is above 10 ms, 50 us below 100 us, and nothing lies between
    assert!((0..at("10 ms")).any(|row| !is_empty(row)));
    assert!((at("10 ms") + 1..at("100 us")).all(is_empty));
    let full = (at("100 us")..10).find(|&row| !is_empty(row)).unwrap();
    assert!(
        dots.row(full).iter().all(|&bits| bits.count_ones() >= 2),
        "{:?}",
        dots.row(full)
    );
}

#[test]
fn the_axis_of_time_has_round_seconds_and_its_whole_width() {
    assert_eq!(seconds(100, 30), "└0 s───────────└5 s───────────");
    assert_eq!(seconds(30, 20).chars().count(), 20);
}
