//! The screen as a terminal shows it, with recorded answers of a cache: the example `retune`, a second apart.

use super::figures::{Figures, Sample};
use super::list::{Found, Purpose};
use super::screen::{HEIGHT_MIN, Standing, WIDTH_MIN, lines};
use super::terminal::App;
use super::{TopArgs, sockets};
use clap::Parser;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::mpsc;

#[path = "../../../millpond/tests/all/made.rs"]
mod made;

const ANSWERS: &str = include_str!("answers.json");
const SOCKET: &str = "/run/user/1000/millpond/27379-1.sock";

fn sample(name: &str) -> Sample {
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let answer = |question: &str| answers[name][question].clone();
    Sample {
        socket: SOCKET.into(),
        about: answer("about"),
        stat: answer("stat"),
        files: answer("files"),
        devices: answer("devices"),
    }
}

pub(super) fn before() -> Sample {
    sample("before")
}

pub(super) fn after() -> Sample {
    sample("after")
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: TopArgs,
}

fn args(line: &str) -> TopArgs {
    Line::parse_from(std::iter::once("top").chain(line.split_whitespace())).args
}

fn app() -> App {
    let (orders, _) = mpsc::channel();
    let mut app = App::new(&args(""), vec![PathBuf::from(SOCKET)], orders);
    app.take(Figures::of(&before(), &after()));
    app
}

/// What a terminal of this size shows, without colours.
fn shown(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let row = |cells: &[ratatui::buffer::Cell]| {
        let row: String = cells.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned() + "\n"
    };
    rows.map(row).collect()
}

#[test]
fn a_screen_of_80_by_24_is_the_stored_one() {
    let shown = shown(&app(), WIDTH_MIN, HEIGHT_MIN);
    assert_eq!(shown.lines().count(), 24);
    assert!(shown == include_str!("screen.txt"), "it is now\n{shown}");
}

/// The document shows the same.
#[test]
fn the_documents_screen_is_the_stored_one() {
    let screen = format!("```text\n{}\n```", include_str!("screen.txt").trim_end());
    made::block("docs/WATCH.md", "screen", &screen);
}

#[test]
fn nothing_is_cut_at_80_columns_and_the_last_minute_has_a_line() {
    let mut app = app();
    let mut figures = Figures::of(&before(), &after());
    figures.age_s += 1.0;
    figures.name = Some("/mnt/of/all/places/pond".into());
    figures.files[0].path = "/mnt/of/all/places/pond/db/main.sqlite".into();
    figures.fit.file = Some(figures.files[0].path.clone());
    app.take(figures);
    let shown = shown(&app, 80, 24);
    assert!(shown.contains("1 min: p99 ") && shown.contains('█'), "{shown}");
    let cut: Vec<_> = shown.lines().filter(|line| line.contains('…')).collect();
    assert!(cut.iter().all(|line| line.contains("db/main.sqlite")), "{shown}");
    assert!(
        shown.contains("/mnt/of/all/places/pond (pid") && shown.contains("too small for main.sqlite"),
        "{shown}"
    );
}

#[test]
fn a_question_mark_shows_what_the_words_mean_and_where_the_goal_comes_from() {
    use super::terminal::Next::{Draw, Quit};
    let mut app = app();
    assert_eq!(key(&mut app, KeyCode::Char('?')), Draw);
    let help = shown(&app, 80, 24);
    for words in [
        "refaults",
        "second chance",
        "transit",
        "ms/s",
        "wants",
        "? this",
        "goal",
        "for reads 60.0 ms",
    ] {
        assert!(help.contains(words), "{words} is not in\n{help}");
    }
    for (height, lines) in [(24, 24), (40, 40)] {
        assert_eq!(shown(&app, 80, height).lines().count(), lines);
    }
    assert!(
        !help.contains('…') && help.lines().all(|line| line.chars().count() <= 80),
        "{help}"
    );
    assert_eq!(key(&mut app, KeyCode::Esc), Draw);
    assert!(shown(&app, 80, 24).contains("? help"));
    assert_eq!(key(&mut app, KeyCode::Esc), Quit);
}

#[test]
fn a_larger_terminal_shows_more_and_no_line_is_wider_than_it() {
    let figures = Figures::of(&before(), &after());
    let standing = Standing {
        number: 2,
        caches: 3,
        interval_s: 0.5,
        has_keys: true,
        is_paused: true,
        ..Standing::default()
    };
    for (width, height) in [(80, 24), (81, 25), (100, 40), (200, 60), (500, 200)] {
        let lines = lines(&figures, &standing, width, height);
        assert_eq!(lines.len(), usize::from(height));
        for line in &lines {
            assert!(line.width() <= usize::from(width), "{width} x {height}: {line}");
        }
    }
    let usual = lines(&figures, &standing, 80, 24);
    let cut: Vec<_> = usual[..5]
        .iter()
        .filter(|line| line.to_string().contains('…'))
        .collect();
    assert!(cut.is_empty(), "{cut:?}");
    let wide = lines(&figures, &standing, 120, 40);
    let title = wide[0].to_string();
    assert!(
        title.contains("PAUSED") && title.ends_with("cache 2/3, 0.5 s"),
        "{title}"
    );
}

#[test]
fn sizes_from_a_gib_on_are_shown_in_gib() {
    let mut figures = Figures::of(&before(), &after());
    figures.memory.clean_active = 45 << 30;
    figures.memory.free = 3 << 29;
    let lines = lines(&figures, &Standing::default(), 80, 24);
    let legend = lines[2].to_string();
    assert!(
        legend.contains("act 45.0G ")
            && legend.contains("inact ")
            && legend.ends_with("free 1.50G MiB (G: GiB)"),
        "{legend}"
    );
}

#[test]
fn a_terminal_that_is_too_small_says_what_to_do() {
    for (width, height) in [(79, 24), (80, 23), (30, 5)] {
        let shown = shown(&app(), width, height);
        assert!(
            shown.contains("too small") && shown.contains("make it 80 x 24"),
            "{shown}"
        );
        assert!(shown.contains("q quit"), "{shown}");
    }
    let mut terminal = Terminal::new(TestBackend::new(1, 1)).unwrap();
    terminal.draw(|frame| app().draw(frame)).unwrap();
}

#[test]
fn keys_change_what_is_asked_for() {
    let (orders, asked) = mpsc::channel();
    let mut app = App::new(&args("2s --sort dirty"), vec!["a".into(), "b".into()], orders);
    // With several, none is asked before one is chosen.
    app.choose(0);
    assert_eq!(asked.try_iter().count(), 1);
    let mut press = |code| {
        let next = app.key(KeyEvent::new(code, KeyModifiers::NONE));
        let last = asked.try_iter().last();
        (
            next,
            last.map(|o| (o.socket, o.sort, o.interval.as_millis(), o.is_paused)),
        )
    };
    use super::terminal::Next::{Draw, Quit, Stay};
    let order = |socket: &str, sort, ms, is_paused| Some((PathBuf::from(socket), sort, ms, is_paused));
    assert_eq!(
        press(KeyCode::Char('s')),
        (Draw, order("a", "tagged", 2000, false))
    );
    assert_eq!(
        press(KeyCode::Char('+')),
        (Draw, order("a", "tagged", 5000, false))
    );
    assert_eq!(
        press(KeyCode::Char('-')),
        (Draw, order("a", "tagged", 2000, false))
    );
    assert_eq!(
        press(KeyCode::Char(' ')),
        (Draw, order("a", "tagged", 2000, true))
    );
    assert_eq!(
        press(KeyCode::Char('n')),
        (Draw, order("b", "tagged", 2000, true))
    );
    assert_eq!(press(KeyCode::Char('x')), (Stay, None));
    assert_eq!(press(KeyCode::Char('q')).0, Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(control_c), Quit);
}

#[test]
fn the_requested_cache_is_watched() {
    let missing = sockets(&args("--cache /not/there.sock").which);
    assert!(
        missing
            .err()
            .and_then(|failure| failure.message)
            .is_some_and(|m| m.contains("/not/there.sock"))
    );
}

fn key(app: &mut App, code: KeyCode) -> super::terminal::Next {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn found(names: &[&str]) -> Found {
    let one = |(n, name): (usize, &&str)| {
        let about = json!({ "pid": 100 + n, "program": "millpond", "memory_bytes": 64 << 20, "age_s": 9.5, "name": name });
        (PathBuf::from(format!("/run/user/1000/millpond/{n}.sock")), about)
    };
    names.iter().enumerate().map(one).collect()
}

#[test]
fn in_the_list_escape_goes_back_and_an_unknown_number_is_reported() {
    use super::terminal::Next::{Draw, Quit};
    let mut app = app();
    let mut caches = found(&["/mnt/a"]);
    caches.push((SOCKET.into(), json!({ "pid": 20214, "program": "retune" })));
    app.fetched(caches.clone(), Purpose::Show);
    let list = shown(&app, 80, 24);
    assert!(list.contains("/mnt/a") && list.contains("esc back"), "{list}");
    // The watched one is marked, and stays when nothing is chosen.
    assert_eq!(app.list.as_ref().map(|list| list.at), Some(1));
    assert_eq!(key(&mut app, KeyCode::Char('7')), Draw);
    let said = shown(&app, 80, 24);
    assert!(said.contains("there is no 7: the last is 2"), "{said}");
    assert_eq!(key(&mut app, KeyCode::Esc), Draw);
    assert!(
        shown(&app, 80, 24).contains("retune (pid"),
        "{}",
        shown(&app, 80, 24)
    );
    assert_eq!(key(&mut app, KeyCode::Esc), Quit);
    // If none has been watched yet there is nothing to go back to.
    let (orders, _asked) = mpsc::channel();
    let mut first = App::new(&args(""), vec!["a".into(), "b".into()], orders);
    first.fetched(caches, Purpose::Show);
    assert!(!shown(&first, 80, 24).contains("esc back"));
    assert_eq!(key(&mut first, KeyCode::Esc), Quit);
}

#[test]
fn the_next_cache_is_found_also_where_one_was_asked_for() {
    let (orders, asked) = mpsc::channel();
    let mut app = App::new(
        &args(""),
        vec![PathBuf::from("/run/user/1000/millpond/0.sock")],
        orders,
    );
    let last = || asked.try_iter().last().map(|order| order.socket);
    last();
    app.fetched(found(&["/mnt/a", "/mnt/b"]), Purpose::Next);
    assert_eq!(last(), Some(PathBuf::from("/run/user/1000/millpond/1.sock")));
    app.fetched(found(&["/mnt/a", "/mnt/b"]), Purpose::Next);
    assert_eq!(last(), Some(PathBuf::from("/run/user/1000/millpond/0.sock")));
    app.fetched(found(&["/mnt/a"]), Purpose::Next);
    assert_eq!(last(), None);
    let said = shown(&app, 80, 24);
    assert!(said.contains("no other cache answers"), "{said}");
}

#[test]
fn a_name_that_is_too_long_for_the_list_keeps_its_end() {
    let mut app = app();
    let long = format!("/{}/pond", "folder/".repeat(20));
    app.fetched(found(&[&long, "/mnt/b"]), Purpose::Show);
    let list = shown(&app, 80, 24);
    let line = list.lines().find(|line| line.contains("100")).unwrap();
    assert!(line.contains('…') && line.ends_with("/pond"), "{list}");
}

#[test]
fn a_cache_that_owes_an_answer_is_reported() {
    let mut app = app();
    let Some(before) = std::time::Instant::now().checked_sub(std::time::Duration::from_secs(9)) else {
        return; // the machine has not been up long enough
    };
    assert!(!shown(&app, 80, 24).contains("no answer"));
    app.heard = before;
    let said = shown(&app, 80, 24);
    assert!(said.contains("no answer for 9 s; q quit"), "{said}");
}

/// The screen said that nothing waits, or that writes are held back for reads.
#[test]
fn a_disk_that_does_not_answer_is_the_first_that_is_waited_for() {
    let mut now = after();
    now.stat["overdue"] = json!({ "requests": 3, "waited_s": 14.2, "longest": "a write" });
    let (orders, _) = mpsc::channel();
    let mut app = App::new(&args(""), vec![PathBuf::from(SOCKET)], orders);
    app.take(Figures::of(&before(), &now));
    let screen = shown(&app, WIDTH_MIN, HEIGHT_MIN);
    let waits: Vec<_> = screen
        .lines()
        .skip_while(|line| !line.starts_with("WAITS"))
        .collect();
    assert!(
        waits[1].starts_with("DISK     3 requests get no answer") && waits[1].contains("14.2 s"),
        "{screen}"
    );
    assert!(!screen.contains("held back for reads"), "{screen}");
}
