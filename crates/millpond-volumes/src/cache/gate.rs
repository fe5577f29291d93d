//! Limits the bytes of concurrent transfers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Admits transfers as long as they do not exceed a limit in bytes together. A larger one goes alone.
#[derive(Debug)]
pub(super) struct Gate {
    most: u64,
    inside: Mutex<u64>,
    left: Condvar,
}

/// An admitted transfer.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    gate: &'a Gate,
    bytes: u64,
}

impl Gate {
    pub(super) fn new(most: u64) -> Gate {
        Gate {
            most,
            inside: Mutex::new(0),
            left: Condvar::new(),
        }
    }

    fn inside(&self) -> MutexGuard<'_, u64> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room.
    pub(super) fn enter(&self, bytes: u64) -> Inside<'_> {
        let mut inside = self.inside();
        while *inside > 0 && *inside + bytes > self.most {
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        *inside += bytes;
        Inside { gate: self, bytes }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.gate.inside() -= self.bytes;
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_does_not_fit_waits_and_what_never_fits_goes_alone() {
        let gate = Gate::new(10);
        let first = gate.enter(6);
        let second = gate.enter(4);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| gate.enter(50).bytes);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished());
            drop(first);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished(), "it is not alone yet");
            drop(second);
        });
        assert_eq!(*gate.inside(), 0);
    }
}
