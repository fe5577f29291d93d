//! What the figures were made on.

use std::fmt::Write as _;
use std::fs;

/// The machine, its kernel, and how busy it is at this moment, in lines for people.
pub fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let field = |name: &'static str| cpus.lines().filter(move |line| line.starts_with(name));
    let value = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let model = field("model name").next().and_then(value);
    let memory = read("/proc/meminfo");
    let kib = memory
        .lines()
        .next()
        .and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok());
    let mut text = String::new();
    let _ = writeln!(
        text,
        "processors: {} x {}; memory: {:.1} GiB; Linux {}; load: {}\n",
        field("processor").count(),
        model.as_deref().unwrap_or(std::env::consts::ARCH),
        kib.map_or(0.0, |kib: f64| kib / (1 << 20) as f64),
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    );
    text
}
