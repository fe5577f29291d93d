//! The screen of a terminal, drawn ten times a second until the laboratory is done; and lines where there is no
//! terminal.

use super::Running;
use super::screen;
use super::show::Show;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::top::screen::{HEIGHT_MIN, WIDTH_MIN};
use crate::top::terminal::{Screen, end_with_terminal};
use millpond::internal::quantity::{number, size};
use millpond_core::units::Bytes;
use millpond_lab::LabError;
use millpond_lab::experiment::axboe2016::demo::{Demo, Side, Told};
use millpond_lab::report::verdict::time;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::text::Text;
use ratatui::widgets::Paragraph;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// The time between two screens: smooth enough for appearing dots.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// How long the removal of files may take when the terminal is gone; then the program ends all the same.
const REMOVED_WITHIN: Duration = Duration::from_secs(60);

/// How a busy machine affects the demo.
pub(super) const BUSY_MEANS: &str = "Reads wait for them too, on both sides, so it may take longer and end in \"not shown\". The \
     sentence after that does not depend on them: the post's load in virtual time.";

/// The width of the terminal.
pub(super) fn columns() -> u16 {
    ratatui::crossterm::terminal::size().map_or(WIDTH_MIN, |(columns, _)| columns)
}

/// Shows it on a terminal's screen. Returns the result, once all files are removed.
pub(super) fn screen(running: Running, signals: &Signals) -> Result<Result<Demo, LabError>, Failure> {
    // The closed channel tells it to end.
    let (ended, until_ended) = mpsc::channel::<()>();
    let stop = Arc::clone(&running.stop);
    end_with_terminal(move || {
        stop.store(true, Ordering::Relaxed);
        let _ = until_ended.recv_timeout(REMOVED_WITHIN);
    })?;
    let mut screen = Screen::enter()?;
    let shown = serve(&mut screen, &running, signals);
    drop(screen);
    if shown.is_err() {
        running.stop.store(true, Ordering::Relaxed);
    }
    let demo = running.end();
    drop(ended);
    shown?;
    Ok(demo)
}

fn serve(screen: &mut Screen, running: &Running, signals: &Signals) -> Result<(), Failure> {
    let mut show = Show::new();
    loop {
        if !hear(&mut show, &running.told) {
            return Ok(());
        }
        if signals.caught().is_some() {
            show.is_stopping = true;
        }
        running.stop.fetch_or(show.is_stopping, Ordering::Relaxed);
        screen.0.draw(|frame| draw(&show, frame))?;
        if !event::poll(DRAW_EVERY)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if is_end(key) {
            if show.is_stopping {
                return Err(Failure {
                    code: 130,
                    message: Some("left at once; the next run removes what is left".into()),
                });
            }
            show.is_stopping = true;
        }
    }
}

/// Takes what was reported. Returns whether there may be more.
fn hear(show: &mut Show, told: &Receiver<Told>) -> bool {
    loop {
        match told.try_recv() {
            Ok(what) => show.told(what),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('c' | 'd') => is_control,
            KeyCode::Char('q') | KeyCode::Esc => true,
            _ => false,
        }
}

pub(super) fn draw(show: &Show, frame: &mut Frame<'_>) {
    let area = frame.area();
    let text = match area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        true => Text::from(format!(
            "{} x {} is too small:\nmake it {WIDTH_MIN} x {HEIGHT_MIN}.\nIt goes on; q stops it.",
            area.width, area.height
        )),
        false => Text::from(screen::lines(show, area.width, area.height)),
    };
    frame.render_widget(Paragraph::new(text), area);
}

/// Reports in lines on standard error. Returns the result.
pub(super) fn lines(running: Running, signals: &Signals) -> Result<Result<Demo, LabError>, Failure> {
    let mut show = Show::new();
    let (mut planned, mut is_warned) = (None, false);
    let mut last = Instant::now();
    loop {
        match running.told.recv_timeout(DRAW_EVERY) {
            Ok(told) => show.told(told),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(running.end()),
        }
        if signals.caught().is_some() && !running.stop.swap(true, Ordering::Relaxed) {
            say!("millpond demo: stopping and removing what was made; once more leaves at once");
        }
        if let Some(others) = show.others.filter(|_| !is_warned) {
            is_warned = true;
            say!("millpond demo: this machine is busy: others use {others}. {BUSY_MEANS}");
        }
        // reported again when the sizes have changed
        if let Some(plan) = show.plan.as_ref().filter(|plan| planned != Some(plan.file)) {
            planned = Some(plan.file);
            say!(
                "millpond demo: {}, {} MB/s; {} files of {} in a run, memory {}, about {} s",
                plan.place,
                number((plan.rate / 1e6).round()),
                plan.files,
                size(plan.file),
                size(plan.memory),
                plan.seconds
            );
        }
        if last.elapsed() >= LINE_EVERY {
            last = Instant::now();
            say!("{:>4} s  {}", show.elapsed().as_secs(), line(&show));
        }
    }
}

/// The progress in a line.
fn line(show: &Show) -> String {
    let Some((round, side, doing)) = &show.now else {
        return match &show.preparing {
            Some((step, detail)) if detail.is_empty() => step.clone(),
            Some((step, detail)) => format!("{step}: {detail}"),
            None => "checking and removing what was written".into(),
        };
    };
    let half = &show.halves[*side as usize];
    let name = match side {
        Side::Kernel => "kernel",
        Side::Millpond => "Millpond",
    };
    let mut line = format!("round {} {name:8} {doing}", round + 1);
    let live = &half.live;
    if doing.is_empty() || live.total == 0 {
        return line + "starting";
    }
    line += &format!(" {} of {}", size(Bytes(live.written)), size(Bytes(live.total)));
    if let Some(bytes) = live.in_transit {
        line += &format!(", {} in transit", size(Bytes(bytes)));
    }
    let (count, [p50, p99]) = half.reads([0.5, 0.99]);
    if let (Some(p50), Some(p99), Some(slowest)) = (p50, p99, half.slowest_us()) {
        let [p50, p99, slowest] = [p50, p99, slowest].map(time);
        line += &format!("; {count} reads, p50 {p50}, p99 {p99}, slowest {slowest}");
    }
    line
}
