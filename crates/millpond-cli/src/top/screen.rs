//! The screen of `millpond top`: figures laid out in lines, as many as there is room for.
//!
//! ```text
//!   title            which cache
//!   memory           a bar of its states, the limits for dirty pages, rates, whether it is large enough
//!   devices          latency against the goal, in transit against its limit
//!   stores           of a cache that has some: what each reports
//!   waits            who, why, for how long
//!   files            as many as fit
//!   keys
//! ```
//!
//! It is a pure function of figures and size: a terminal shows the same lines that `--once` prints. 80 columns are
//! filled; wider screens give the space to paths. Sizes without a unit are MiB, and with a `G` GiB.

use super::figures::{Device, Figures, File, Memory, ORDERS, Wait};
use super::fit;
use super::history::History;
use crate::control::percent;
use millpond::internal::quantity::{micros, number, number_tick, size};
use millpond_core::units::Bytes;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// The smallest terminal that has room for all parts.
pub(crate) const WIDTH_MIN: u16 = 80;
/// And its height.
pub(crate) const HEIGHT_MIN: u16 = 24;

/// The program's state, beside the figures.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) is_paused: bool,
    /// The number of this cache in the list, from 1.
    pub(super) number: usize,
    pub(super) caches: usize,
    /// The requested time between two screens.
    pub(super) interval_s: f64,
    /// Whether keys can be pressed.
    pub(super) has_keys: bool,
    /// A message in place of the keys.
    pub(super) note: Option<String>,
    /// The last minute.
    pub(super) history: History,
}

pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const CALM: Style = Style::new().fg(Color::Green);
const HEAD: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The lines of a screen; at least [`WIDTH_MIN`] by [`HEIGHT_MIN`] are used.
pub(super) fn lines(figures: &Figures, standing: &Standing, width: u16, height: u16) -> Vec<Line<'static>> {
    let (width, height) = (
        usize::from(width.max(WIDTH_MIN)),
        usize::from(height.max(HEIGHT_MIN)),
    );
    let mut lines = vec![title(figures, standing, width)];
    lines.extend(memory(&figures.memory, width));
    lines.push(rates(figures));
    lines.push(fit::line(figures, width));
    lines.extend(standing.history.line(width).map(Line::from));
    // At 24 lines: title 1, memory 5, devices 4, waits 6, files 7, keys 1. Additional lines are divided among the
    // middle parts.
    let more = height - usize::from(HEIGHT_MIN);
    lines.extend(devices(figures, 2 + more / 8, width));
    lines.extend(stores(figures, more, width));
    lines.extend(waits(&figures.waits, 5 + more / 4, width));
    let keys = usize::from(standing.has_keys);
    let room = height.saturating_sub(lines.len() + 1 + keys);
    lines.extend(files(figures, room, width));
    if standing.has_keys {
        lines.resize(height - 1, Line::default());
        lines.push(match &standing.note {
            Some(note) => heading(first_of(note, width), width),
            None => keys_line(figures, width),
        });
    }
    lines.into_iter().map(|line| cut(line, width)).collect()
}

/// The part of a line that fits. Only unusual figures need it: everything on at once, in the largest sizes.
pub(crate) fn cut(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let mut room = width;
    let mut short = Line::default();
    for span in line.spans {
        let text = first_of(&span.content, room);
        let cut = Span::styled(text, span.style);
        room = room.saturating_sub(cut.width());
        short.push_span(cut);
    }
    short.style(line.style)
}

fn bytes(bytes: u64) -> String {
    size(Bytes(bytes))
}

const GIB: u64 = 1 << 30;

/// In MiB, without the unit; from a GiB on in GiB, with a `G`.
fn mib(bytes: f64) -> String {
    match bytes {
        0.0 => "0".into(),
        bytes if bytes >= GIB as f64 => format!("{}G", number(bytes / GIB as f64)),
        bytes => number(bytes / 1048576.0),
    }
}

fn rate(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v < 9_999.5 => number(v),
        v if v < 99_950.0 => format!("{:.1}k", v / 1e3),
        v if v < 999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.1}M", v / 1e6),
    }
}

/// A count in four columns.
fn few(count: u64) -> String {
    match count {
        ..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".into(), |ns| micros(ns as f64 / 1e3))
}

pub(super) fn age(seconds: f64) -> String {
    match seconds as u64 {
        s @ ..120 => format!("{s} s"),
        s @ ..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// Two texts with the remaining space between them.
pub(crate) fn ends(left: Vec<Span<'static>>, right: String, width: usize) -> Line<'static> {
    let mut line = Line::from(left);
    let used = line.width() + right.chars().count();
    line.push_span(Span::raw(" ".repeat(width.saturating_sub(used))));
    line.push_span(Span::styled(right, DIM));
    line
}

/// A heading across the screen.
pub(crate) fn heading(text: String, width: usize) -> Line<'static> {
    Line::styled(format!("{text:width$}"), HEAD)
}

fn title(figures: &Figures, standing: &Standing, width: usize) -> Line<'static> {
    let every = number_tick(standing.interval_s);
    let right = match standing.caches {
        ..=1 => format!("every {every} s"),
        caches => format!("cache {}/{caches}, {every} s", standing.number),
    };
    let (head, paused) = ("millpond top  ", if standing.is_paused { "  PAUSED" } else { "" });
    let about = format!(
        " (pid {}), {}, up {}",
        figures.pid,
        bytes(figures.memory_bytes),
        age(figures.age_s)
    );
    let rest = head.len() + about.len() + paused.len() + right.len() + 2;
    let room = width.saturating_sub(rest).max(8);
    let name = match &figures.name {
        Some(name) => last_of(name, room),
        None => first_of(&figures.program, room),
    };
    let left = vec![
        Span::styled(head, BOLD),
        Span::raw(name + &about),
        Span::styled(paused, ALARM),
    ];
    ends(left, right, width)
}

/// The parts of the bar: name, mark, colour, size.
fn parts(m: &Memory) -> [(&'static str, char, Color, u64); 7] {
    [
        ("act", '#', Color::Green, m.clean_active),
        ("inact", '=', Color::Cyan, m.clean_inactive),
        ("dirty", 'D', Color::Red, m.dirty),
        ("wback", 'w', Color::Yellow, m.writing),
        ("anon", 'A', Color::Magenta, m.anonymous),
        ("load", 'r', Color::Blue, m.loading),
        ("free", '.', Color::DarkGray, m.free),
    ]
}

fn memory(m: &Memory, width: usize) -> Vec<Line<'static>> {
    let parts = parts(m);
    let all = parts.iter().map(|part| part.3).sum::<u64>().max(1);
    let room = (width - 2) as u64;
    let mut bar = vec![Span::raw("[")];
    let (mut sum, mut drawn) = (0, 0);
    for (_, mark, color, value) in parts {
        sum += value;
        // By cumulative sum, so rounding adds up to the whole, and every part that exists is visible.
        let mut end = (u128::from(sum) * u128::from(room) / u128::from(all)) as u64;
        if value > 0 && end == drawn {
            end = (drawn + 1).min(room);
        }
        let cells = end.saturating_sub(drawn) as usize;
        bar.push(Span::styled(
            mark.to_string().repeat(cells),
            Style::new().fg(color),
        ));
        drawn = drawn.max(end);
    }
    bar.push(Span::raw("]"));
    let mut legend = Vec::new();
    for (name, mark, color, value) in parts {
        // Rare parts only if they exist.
        if value < 50_000 && matches!(name, "anon" | "load") {
            continue;
        }
        legend.push(Span::styled(format!("{mark} "), Style::new().fg(color)));
        legend.push(Span::raw(format!("{name} {} ", mib(value as f64))));
    }
    let unit = match parts.iter().any(|part| part.3 >= GIB) {
        true => "MiB (G: GiB)",
        false => "MiB",
    };
    legend.push(Span::styled(
        if m.is_estimate {
            format!("{unit}, about")
        } else {
            unit.into()
        },
        DIM,
    ));
    let unclean = m.dirty + m.writing;
    let style = match unclean {
        u if u > m.dirty_hard => ALARM,
        u if u > m.dirty_background => Style::new().fg(Color::Yellow),
        _ => CALM,
    };
    let mut limits = vec![
        Span::raw("unwritten "),
        Span::styled(bytes(unclean), style),
        Span::raw(format!(
            " (background {}, limit {})",
            bytes(m.dirty_background),
            bytes(m.dirty_hard),
        )),
    ];
    limits.extend((m.lent > 0).then(|| Span::raw(format!("  lent {}", bytes(m.lent)))));
    if m.failed > 0 {
        limits.insert(0, Span::styled(format!("FAILED {}  ", bytes(m.failed)), ALARM));
    } else {
        // A narrow screen has no room for both.
        limits.push(Span::raw(format!("  second chance {}", bytes(m.second_chance))));
    }
    vec![Line::from(bar), Line::from(legend), Line::from(limits)]
}

fn rates(figures: &Figures) -> Line<'static> {
    let r = &figures.rates;
    Line::from(format!(
        "per s: faults {} refaults {} ahead {} dirtied {} scan {} freed {}",
        rate(r.faults),
        rate(r.refaults),
        rate(r.readahead_pages),
        rate(r.dirtied),
        rate(r.scanned),
        rate(r.freed)
    ))
}

fn devices(figures: &Figures, most: usize, width: usize) -> Vec<Line<'static>> {
    let name = width - 63;
    let mut lines = vec![heading(
        format!(
            "{:name$} {:>7} {:>6} {:>8} {:>8} {:>8} {:>6} {:>8} {:>4}",
            "DEVICE", "reads/s", "MiB/s", "p50", "p99", "writes/s", "MiB/s", "transit", "errs"
        ),
        width,
    )];
    let goal = figures.reads.goal_ns;
    let shown = figures.devices.iter().take(most);
    lines.extend(shown.map(|device| device_line(device, device.goal_ns.or(goal), name)));
    if figures.devices.is_empty() {
        lines.push(Line::styled("nothing was read or written yet", DIM));
    }
    let left_out = figures.devices.len().saturating_sub(most);
    let limit = match figures.reads.in_transit_limit_bytes {
        Some(limit) => format!("limit {}", bytes(limit)),
        None => "no limit".into(),
    };
    let mut last = format!(
        "goal for reads {}; writes in transit {}, {limit}",
        goal.map_or("none".into(), |_| time(goal)),
        bytes(figures.reads.in_transit_bytes),
    );
    if left_out > 0 {
        last += &format!("; {left_out} more devices");
    }
    if let Some(source) = &figures.reads.goal_source {
        let source = format!("; the goal is {source}");
        // Not a part of it: `?` shows all.
        if last.len() + source.len() <= width {
            last += &source;
        }
    }
    lines.push(Line::from(last));
    lines
}

/// Takes lines of the files: three for each store, and as many stores as a large screen has space for.
fn stores(figures: &Figures, more: usize, width: usize) -> Vec<Line<'static>> {
    let most = 1 + more / 12;
    let mut lines = Vec::new();
    for (n, store) in figures.stores.iter().take(most).enumerate() {
        let left_out = match figures.stores.len() {
            all if all > most && n == 0 => format!(" (and {} more)", all - most),
            _ => String::new(),
        };
        let name = last_of(&store.name, width.saturating_sub(6 + left_out.len()));
        lines.push(heading(format!("STORE {name}{left_out}"), width));
        lines.extend(store.lines(width).into_iter().take(2).map(Line::from));
    }
    lines
}

fn device_line(device: &Device, goal: Option<u64>, name: usize) -> Line<'static> {
    let is_over = device.p99_ns.zip(goal).is_some_and(|(p99, goal)| p99 > goal);
    let p99 = match (device.p99_ns, goal) {
        (Some(_), Some(_)) if is_over => ALARM,
        (Some(_), Some(_)) => CALM,
        _ => Style::new(),
    };
    let errors = if device.errors > 0 { ALARM } else { Style::new() };
    Line::from(vec![
        Span::raw(format!(
            "{:name$} {:>7} {:>6} {:>8} ",
            last_of(&device.name, name),
            rate(device.reads),
            mib(device.read_bytes),
            time(device.p50_ns)
        )),
        Span::styled(format!("{:>8}", time(device.p99_ns)), p99),
        Span::raw(format!(
            " {:>8} {:>6} {:>8} ",
            rate(device.writes),
            mib(device.write_bytes),
            bytes(device.write_bytes_in_transit)
        )),
        Span::styled(format!("{:>4}", few(device.errors)), errors),
    ])
}

fn waits(waits: &[Wait], most: usize, width: usize) -> Vec<Line<'static>> {
    let why = width - 39;
    let mut lines = vec![heading(
        format!(
            "{:8} {:why$} {:>9} {:>8} {:>9}",
            "WAITS", "because", "now", "times/s", "ms/s"
        ),
        width,
    )];
    if waits.is_empty() {
        lines.push(Line::styled("nothing waits", DIM));
    }
    for wait in waits.iter().take(most) {
        let now = wait.now.clone().unwrap_or_else(|| "-".into());
        lines.push(Line::from(format!(
            "{:8} {:why$} {now:>9} {:>8} {:>9}",
            wait.who,
            first_of(&wait.why, why),
            if wait.times > 0.0 {
                rate(wait.times)
            } else {
                "-".into()
            },
            wait.ms.map_or("-".into(), rate),
        )));
    }
    lines.resize(lines.len().max(most + 1), Line::default());
    lines
}

/// The width from which a file's line shows everything; narrower ones leave the space to the path.
const WIDTH_ALL: usize = 104;

fn files(figures: &Figures, room: usize, width: usize) -> Vec<Line<'static>> {
    let order = ORDERS.iter().find(|(name, _)| *name == figures.order);
    let order = order.map_or(figures.order.as_str(), |(_, shown)| shown);
    let heads = File::HEADS.map(str::to_owned);
    let all = format!("FILE ({} known, by {order})", figures.files_open);
    let mut line = file_line(heads, figures, width);
    let left = width.saturating_sub(line.len());
    line += &match all.len() > left {
        true => first_of(&format!("FILE (by {order})"), left),
        false => all,
    };
    let mut lines = vec![heading(line, width)];
    for file in figures.files.iter().take(room) {
        let mut line = file_line(file.cells(), figures, width);
        line += &last_of(&file.path, width.saturating_sub(line.chars().count()));
        lines.push(Line::from(line));
    }
    lines
}

impl File {
    const HEADS: [&'static str; 9] = [
        "in memory",
        "dirty",
        "hits",
        "refaults",
        "evicted",
        "back",
        "wants",
        "2nd chance",
        "writing",
    ];

    fn cells(&self) -> [String; 9] {
        let part = |value: u64| if value == 0 { "-".into() } else { bytes(value) };
        let span = |ns: Option<u64>| match ns {
            Some(ns) if ns >= 120_000_000_000 => age(ns as f64 / 1e9),
            ns => time(ns),
        };
        [
            part(self.resident),
            part(self.dirty),
            percent(self.reuse.hit_ratio),
            rate(self.refaults as f64),
            span(self.reuse.eviction_age_ns),
            span(self.reuse.refault_age_ns),
            self.reuse.more(),
            part(self.second_chance),
            part(self.writing),
        ]
    }
}

/// A narrow screen omits bytes being written and ages, and shows second-chance pages only when sorted by them.
fn file_line(cells: [String; 9], figures: &Figures, width: usize) -> String {
    let [
        resident,
        dirty,
        hits,
        refaults,
        evicted,
        back,
        more,
        second,
        writing,
    ] = cells;
    let is_wide = width >= WIDTH_ALL;
    let unclean = match () {
        () if is_wide => format!("{dirty:>8} {writing:>8} {second:>10}"),
        () if figures.order == "tagged" => format!("{second:>10}"),
        () => format!("{dirty:>8}"),
    };
    let ages = if is_wide {
        format!("{evicted:>7} {back:>7} ")
    } else {
        String::new()
    };
    format!("{resident:>9} {unclean} {hits:>5} {refaults:>8} {ages}{more:>9}  ")
}

fn keys_line(figures: &Figures, width: usize) -> Line<'static> {
    let next = ORDERS.iter().position(|(name, _)| *name == figures.order);
    let next = ORDERS[next.map_or(0, |at| (at + 1) % ORDERS.len())].1;
    let keys = format!("? help  q quit  s by {next}  space pause  n next cache  c caches  + -");
    heading(keys, width)
}

/// The beginning of a text, as much as fits.
fn first_of(text: &str, width: usize) -> String {
    match Span::raw(text).width() > width {
        false => text.into(),
        true if width == 0 => String::new(),
        true => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

/// The end of a text, as much as fits: the most significant part of a path.
pub(super) fn last_of(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.into();
    }
    let mut rest = text;
    while Span::raw(rest).width() >= width && !rest.is_empty() {
        rest = &rest[rest.chars().next().map_or(1, char::len_utf8)..];
    }
    format!("…{rest}")
}
