//! The observer of a run, which may stop it.

/// The answer to a report of progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proceed {
    /// Go on.
    Yes,
    /// The user has asked to stop.
    Stop,
}

/// A progress bar, with the user who may press Ctrl-C.
pub trait Watch {
    /// The experiment's progress (0 to 1), its step, and details.
    fn at(&mut self, share: f64, step: &str, detail: &str) -> Proceed;
}

/// Shows nothing, and never stops.
impl Watch for () {
    fn at(&mut self, _share: f64, _step: &str, _detail: &str) -> Proceed {
        Proceed::Yes
    }
}
