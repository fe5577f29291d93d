//! A line on the terminal that says how far it is, of what takes longer than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_secs(2);

/// How far it is, in bytes.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// Of so many bytes, or of nobody knows how many.
    pub(crate) fn of(what: &str, bytes: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        let template = match bytes {
            Some(_) => {
                "{elapsed:>4} {bar:12} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}  {wide_msg}"
            }
            None => "{elapsed:>4} {binary_bytes}, {binary_bytes_per_sec}  {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        let begun = Instant::now();
        Progress { bar, begun }
    }

    pub(crate) fn at(&self, bytes: u64) {
        if self.bar.is_hidden() && self.begun.elapsed() > QUIET {
            // Draws nothing where stderr is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
