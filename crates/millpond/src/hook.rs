//! Who is told what no call fails for: a function of the user's, or one that writes a line on standard error.

use std::fmt;

/// One listener for values of one type, on whichever thread they come up.
pub(crate) struct Hook<T>(Box<dyn Fn(&T) + Send + Sync>);

impl<T> Hook<T> {
    pub(crate) fn new(listener: impl Fn(&T) + Send + Sync + 'static) -> Hook<T> {
        Hook(Box::new(listener))
    }

    pub(crate) fn tell(&self, value: &T) {
        (self.0)(value);
    }
}

impl<T> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
