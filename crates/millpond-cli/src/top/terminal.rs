//! The screen of a terminal: drawn for new figures or another size, and restored whatever happens.
//!
//! ```text
//!   key, size, signal, figures ──► App ──► draw
//! ```
//!
//! Drawing goes to the alternate screen in raw mode, so Ctrl-C is a key here. The terminal is restored when this
//! returns, when it panics (a hook of ratatui's), and after SIGINT, SIGTERM and SIGHUP from elsewhere. When the
//! terminal itself is gone the program ends, whatever it is doing.

use super::figures::{Figures, ORDERS};
use super::history::History;
use super::list::{Fetching, Found, List, Purpose};
use super::screen::{self, HEIGHT_MIN, Standing, WIDTH_MIN};
use super::watcher::{self, Orders, Update};
use super::{TopArgs, help, sockets};
use crate::failure::Failure;
use crate::signals::Signals;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::SIGHUP;
use std::io;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// How long a signal or new figures may stay unnoticed: shorter than a person perceives.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a cache may owe an answer, beyond the interval, before the screen says so.
const SILENCE: Duration = Duration::from_secs(2);

/// Shorter shows nothing readable; longer looks like a hang.
const INTERVALS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Restores the terminal. Never dropped implicitly: ratatui's own drop panics where there is no longer a terminal to
/// show the cursor on, and its panic hook panics once more, which is SIGABRT.
pub(crate) struct Screen(pub(crate) ManuallyDrop<ratatui::DefaultTerminal>);

impl Screen {
    pub(crate) fn enter() -> io::Result<Screen> {
        Ok(Screen(ManuallyDrop::new(ratatui::try_init()?)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone, and then nothing can be reported.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// How long a terminal may be gone before that is noticed.
const GONE_MAX: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Ends the program when its terminal is gone, after `before`. A thread that waits for a key would not return:
/// crossterm 0.29 keeps reading until there is one, in a busy loop, and a hung-up terminal gives "end of file" at each
/// try. There is no signal either if it was not the controlling terminal, or if the signal is ignored (nohup).
pub(crate) fn end_with_terminal(before: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let look = move || {
        loop {
            let stdin = io::stdin();
            // POLLHUP is reported without being requested.
            let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
            let looked = rustix::event::poll(&mut terminal, Some(&GONE_MAX));
            let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
            if looked.is_ok() && terminal[0].revents().intersects(gone) {
                break;
            }
        }
        before();
        std::process::exit(128 + SIGHUP);
    };
    let thread = std::thread::Builder::new().name("terminal".into());
    thread.spawn(look).map(drop)
}

pub(super) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let sockets = sockets(&args.which)?;
    let signals = Signals::catch()?;
    end_with_terminal(|| {})?;
    let (orders, to_watch) = mpsc::channel();
    let (tell, updates) = mpsc::channel();
    // It ends when there are no more orders, and is not joined, because it may wait for a hanging cache.
    std::thread::Builder::new()
        .name("watcher".into())
        .spawn(move || watcher::run(&to_watch, &tell))?;
    let mut app = App::new(args, sockets, orders);
    if app.sockets.len() > 1 {
        app.fetching = Some(Fetching::start(Purpose::Show));
    }
    let mut screen = Screen::enter()?;
    let ended = app.serve(&mut screen, &updates, &signals);
    drop(screen);
    ended
}

/// The state that keys change, and what is shown.
pub(super) struct App {
    sockets: Vec<PathBuf>,
    at: usize,
    orders: Sender<Orders>,
    order: Orders,
    pub(super) figures: Option<Figures>,
    history: History,
    /// Whether the help is shown instead of a cache.
    is_help: bool,
    /// The list of caches instead of a cache.
    pub(super) list: Option<List>,
    fetching: Option<Fetching>,
    /// Whether a cache is watched, to which one can return from the list.
    is_watching: bool,
    /// The effect of the last key, until the next.
    note: Option<String>,
    /// The time of the last new order, or of the last answer.
    pub(super) heard: Instant,
}

/// The consequence of a key.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Next {
    Stay,
    Draw,
    Quit,
}

impl App {
    pub(super) fn new(args: &TopArgs, sockets: Vec<PathBuf>, orders: Sender<Orders>) -> App {
        let sort = ORDERS.iter().find(|(name, _)| *name == args.sort);
        let order = Orders {
            socket: sockets[0].clone(),
            sort: sort.map_or(ORDERS[0].0, |order| order.0),
            interval: args.interval,
            is_paused: false,
        };
        let mut app = App {
            at: 0,
            orders,
            order,
            figures: None,
            history: History::default(),
            is_help: false,
            list: None,
            fetching: None,
            is_watching: false,
            note: None,
            heard: Instant::now(),
            sockets,
        };
        if app.sockets.len() == 1 {
            app.is_watching = true;
            app.send();
        }
        app
    }

    fn serve(
        &mut self,
        screen: &mut Screen,
        updates: &Receiver<Update>,
        signals: &Signals,
    ) -> Result<ExitCode, Failure> {
        let mut is_due = true;
        let mut silence = None;
        loop {
            // The screen counts the seconds of a silence.
            is_due |= silence != self.silence();
            silence = self.silence();
            if is_due {
                screen.0.draw(|frame| self.draw(frame))?;
            }
            is_due = false;
            if let Some(signal) = signals.caught() {
                return Ok(ExitCode::from(128 + signal));
            }
            if event::poll(LOOK_EVERY)? {
                let next = match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => self.key(key),
                    Event::Resize(..) => Next::Draw,
                    _ => Next::Stay,
                };
                match next {
                    Next::Quit => return Ok(ExitCode::SUCCESS),
                    Next::Draw => is_due = true,
                    Next::Stay => {}
                }
            }
            if let Some(found) = self.fetching.as_ref().and_then(Fetching::found)
                && let Some(fetching) = self.fetching.take()
            {
                self.fetched(found, fetching.purpose);
                is_due = true;
            }
            loop {
                match updates.try_recv() {
                    Ok(Update::Figures(figures)) => {
                        // Figures still on their way when another cache was chosen are not shown.
                        if figures.socket == self.order.socket.display().to_string() {
                            self.heard = Instant::now();
                            self.take(*figures);
                            is_due = true;
                        }
                    }
                    Ok(Update::Ended(socket, failure)) if socket == self.order.socket => return Err(failure),
                    Ok(Update::Ended(..)) => {}
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        return Err(Failure {
                            code: 1,
                            message: Some("the thread that asks the cache has ended".into()),
                        });
                    }
                }
            }
        }
    }

    /// Takes new figures.
    pub(super) fn take(&mut self, figures: Figures) {
        self.history.add(&figures);
        self.figures = Some(figures);
    }

    fn send(&self) {
        // An ended thread is noticed where the answers are missing.
        let _ = self.orders.send(self.order.clone());
    }

    /// The seconds for which the cache has owed an answer, if that is long.
    fn silence(&self) -> Option<u64> {
        let silence = self.heard.elapsed();
        let is_long = silence > self.order.interval + SILENCE;
        (self.is_watching && !self.order.is_paused && is_long).then_some(silence.as_secs())
    }

    /// Takes the list.
    pub(super) fn fetched(&mut self, found: Found, purpose: Purpose) {
        let here = found.iter().position(|(socket, _)| *socket == self.order.socket);
        if found.is_empty() || (purpose == Purpose::Next && found.len() == 1 && here.is_some()) {
            self.note = Some("no other cache answers".into());
            if found.is_empty() && !self.is_watching {
                self.choose(self.at);
            }
            return;
        }
        self.sockets = found.iter().map(|(socket, _)| socket.clone()).collect();
        // A cache with a socket elsewhere is in no list, and comes before the first.
        let next = here.map_or(0, |here| (here + 1) % found.len());
        match purpose {
            Purpose::Next => self.choose(next),
            Purpose::Show => {
                let at = here.unwrap_or(0);
                self.list = Some(List { found, at });
            }
        }
    }

    pub(super) fn choose(&mut self, at: usize) {
        self.at = at;
        self.list = None;
        self.is_watching = true;
        self.heard = Instant::now();
        if self.order.socket != self.sockets[at] {
            self.figures = None;
        }
        self.order.socket.clone_from(&self.sockets[at]);
        self.send();
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let had_note = self.note.take().is_some();
        let next = match (key.code, &self.list) {
            (KeyCode::Char('q'), _) => return Next::Quit,
            (KeyCode::Char('c' | 'd'), _) if is_control => return Next::Quit,
            (KeyCode::Char('?' | 'h'), None) | (KeyCode::Esc, None)
                if self.is_help || key.code != KeyCode::Esc =>
            {
                self.is_help ^= true;
                Next::Draw
            }
            (KeyCode::Esc, Some(_)) if self.is_watching => {
                self.list = None;
                Next::Draw
            }
            (KeyCode::Esc, _) => return Next::Quit,
            (KeyCode::Char('c'), _) => {
                self.fetching = Some(Fetching::start(Purpose::Show));
                Next::Stay
            }
            (code, Some(list)) => {
                let at = list.at;
                self.key_in_list(code, at)
            }
            (code, None) => self.key_of_cache(code),
        };
        if had_note { Next::Draw } else { next }
    }

    fn key_in_list(&mut self, key: KeyCode, at: usize) -> Next {
        let last = self.sockets.len() - 1;
        let chosen = match key {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j' | 'n') => (at + 1).min(last),
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                match at <= last {
                    true => self.choose(at),
                    false => self.note = Some(format!("there is no {digit}: the last is {}", last + 1)),
                }
                return Next::Draw;
            }
            KeyCode::Enter => {
                self.choose(at);
                return Next::Draw;
            }
            _ => return Next::Stay,
        };
        if let Some(list) = &mut self.list {
            list.at = chosen;
        }
        Next::Draw
    }

    fn key_of_cache(&mut self, key: KeyCode) -> Next {
        match key {
            KeyCode::Char('s') => {
                let at = ORDERS.iter().position(|(name, _)| *name == self.order.sort);
                self.order.sort = ORDERS[at.map_or(0, |at| (at + 1) % ORDERS.len())].0;
            }
            KeyCode::Char(' ' | 'p') => self.order.is_paused ^= true,
            KeyCode::Char('n') if self.sockets.len() > 1 => {
                self.choose((self.at + 1) % self.sockets.len());
                return Next::Draw;
            }
            KeyCode::Char('n') => {
                // The requested one, or the only one.
                self.fetching = Some(Fetching::start(Purpose::Next));
                return Next::Stay;
            }
            KeyCode::Char('+' | '=') => {
                let slower = INTERVALS.into_iter().find(|one| *one > self.order.interval);
                self.order.interval = slower.unwrap_or(self.order.interval);
            }
            KeyCode::Char('-') => {
                let quicker = INTERVALS.into_iter().rev().find(|one| *one < self.order.interval);
                self.order.interval = quicker.unwrap_or(self.order.interval);
            }
            _ => return Next::Stay,
        }
        self.heard = Instant::now();
        self.send();
        Next::Draw
    }

    fn said(&self) -> Option<String> {
        let silence = |s| format!("no answer for {s} s; q quit  n next cache  c caches");
        self.note.clone().or_else(|| self.silence().map(silence))
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let text = match (&self.list, &self.figures) {
            _ if area.width < WIDTH_MIN || area.height < HEIGHT_MIN => too_small(area.width, area.height),
            (Some(list), _) => list.text(self.is_watching, self.note.as_deref(), area.width),
            (None, Some(figures)) if self.is_help => {
                let (width, height) = (usize::from(area.width), usize::from(area.height));
                Text::from(help::lines(figures, width, height))
            }
            (None, Some(figures)) => {
                let standing = Standing {
                    is_paused: self.order.is_paused,
                    number: self.at + 1,
                    caches: self.sockets.len(),
                    interval_s: self.order.interval.as_secs_f64(),
                    has_keys: true,
                    note: self.said(),
                    history: self.history.clone(),
                };
                Text::from(screen::lines(figures, &standing, area.width, area.height))
            }
            (None, None) if !self.is_watching => Text::from("\nasking which caches there are ...  q quit"),
            (None, None) => {
                let asking = format!("asking {} ...  q quit", self.order.socket.display());
                Text::from(
                    std::iter::once(asking)
                        .chain(self.said())
                        .collect::<Vec<_>>()
                        .join("\n"),
                )
            }
        };
        frame.render_widget(Paragraph::new(text), area);
    }
}

fn too_small(width: u16, height: u16) -> Text<'static> {
    Text::from(vec![
        Line::from(format!("{width} x {height} is too small:")),
        Line::from(format!("make it {WIDTH_MIN} x {HEIGHT_MIN},")),
        Line::from("or `millpond stat 1`."),
        Line::from("q quit"),
    ])
}
