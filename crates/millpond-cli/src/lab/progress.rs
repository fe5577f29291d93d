//! The progress bar, through which a signal reaches the experiment.

use crate::signals::Signals;
use indicatif::{ProgressBar, ProgressStyle};
use millpond_lab::watch::Proceed;
use millpond_lab::watch::Watch;

/// Steps of the bar: tenths of a percent.
const STEPS: u64 = 1000;

/// A bar on stderr; nothing where stderr is not a terminal.
pub(crate) struct Bar<'a> {
    bar: ProgressBar,
    signals: &'a Signals,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(signals: &'a Signals) -> Bar<'a> {
        let bar = ProgressBar::new(STEPS);
        // the step, and below it its progress: both fit 80 columns
        let style =
            ProgressStyle::with_template("{elapsed:>4} {bar:12} {percent:>3} %  {prefix}\n{wide_msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Bar { bar, signals }
    }
}

impl Watch for Bar<'_> {
    fn at(&mut self, share: f64, step: &str, detail: &str) -> Proceed {
        if self.signals.caught().is_some() {
            self.bar
                .set_message("stopping and removing what was made; once more leaves at once");
            return Proceed::Stop;
        }
        self.bar.set_position((share * STEPS as f64) as u64);
        if self.bar.prefix() != step {
            self.bar.set_prefix(step.to_owned());
        }
        if self.bar.message() != detail {
            self.bar.set_message(detail.to_owned());
        }
        Proceed::Yes
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
