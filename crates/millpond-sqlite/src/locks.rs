//! Which connections of the process may read and write a database: SQLite's five levels, counted in memory.
//!
//! ```text
//!   NONE ──► SHARED ──► RESERVED ──► (PENDING) ──► EXCLUSIVE
//!            many       one, beside  one: no new   one alone
//!                       readers      readers
//! ```
//!
//! The rules are those of SQLite's unix VFS (`unixLock` in `os_unix.c`), without what it does for other processes: there are
//! none.

/// The lock level of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

impl Level {
    /// In SQLite's numbers.
    pub(crate) fn from_number(number: i32) -> Option<Level> {
        Some(match number {
            0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            4 => Level::Exclusive,
            _ => return None,
        })
    }
}

/// A connection of the process.
pub(crate) type Connection = u64;

/// All connections' levels.
#[derive(Default, Debug)]
pub(crate) struct Locks {
    /// Connections at SHARED or above.
    readers: usize,
    /// The one above SHARED.
    writer: Option<(Connection, Level)>,
}

/// Another connection has what it would take.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Busy;

impl Locks {
    /// Raises a connection from `own` to `wanted`. `own` may be higher afterwards even if it is busy: PENDING.
    ///
    /// # Errors
    /// [`Busy`].
    pub(crate) fn lock(&mut self, who: Connection, own: &mut Level, wanted: Level) -> Result<(), Busy> {
        if *own >= wanted {
            return Ok(());
        }
        let other = self.writer.filter(|&(writer, _)| writer != who);
        if *own == Level::None {
            if other.is_some_and(|(_, level)| level >= Level::Pending) {
                return Err(Busy);
            }
            self.readers += 1;
            *own = Level::Shared;
            return match wanted {
                Level::Shared => Ok(()),
                _ => self.lock(who, own, wanted),
            };
        }
        if other.is_some() {
            return Err(Busy);
        }
        // From here on no new reader comes in, and this one waits for the others.
        *own = match wanted {
            Level::Exclusive if self.readers > 1 => Level::Pending,
            _ => wanted,
        };
        self.writer = Some((who, *own));
        if *own == wanted { Ok(()) } else { Err(Busy) }
    }

    /// Lowers a connection to `wanted`, SHARED or NONE.
    pub(crate) fn unlock(&mut self, who: Connection, own: &mut Level, wanted: Level) {
        if *own <= wanted {
            return;
        }
        if self.writer.is_some_and(|(writer, _)| writer == who) {
            self.writer = None;
        }
        if wanted == Level::None {
            self.readers -= 1;
        }
        *own = wanted;
    }

    /// Whether a connection is at SHARED or above.
    pub(crate) fn are_held(&self) -> bool {
        self.readers > 0
    }

    /// Whether a connection is above SHARED.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Level::{Exclusive, None as Nothing, Pending, Reserved, Shared};

    #[test]
    fn many_read_beside_one_that_will_write_and_none_beside_one_that_writes() {
        let (mut locks, mut a, mut b, mut c) = (Locks::default(), Nothing, Nothing, Nothing);
        assert_eq!(locks.lock(1, &mut a, Shared), Ok(()));
        assert_eq!(locks.lock(2, &mut b, Shared), Ok(()));
        assert_eq!(locks.lock(1, &mut a, Reserved), Ok(()));
        assert_eq!(locks.lock(2, &mut b, Reserved), Err(Busy));
        assert_eq!(locks.lock(3, &mut c, Shared), Ok(()));
        locks.unlock(3, &mut c, Nothing);
        assert_eq!(locks.lock(1, &mut a, Exclusive), Err(Busy));
        assert_eq!((a, c), (Pending, Nothing));
        assert_eq!(locks.lock(3, &mut c, Shared), Err(Busy), "a writer waits");
        locks.unlock(2, &mut b, Nothing);
        assert_eq!(locks.lock(1, &mut a, Exclusive), Ok(()));
        assert_eq!(locks.lock(2, &mut b, Shared), Err(Busy));
        assert!(locks.is_reserved());
        locks.unlock(1, &mut a, Shared);
        assert!(!locks.is_reserved());
        assert_eq!(locks.lock(2, &mut b, Shared), Ok(()));
        assert_eq!(locks.lock(2, &mut b, Exclusive), Err(Busy));
        locks.unlock(2, &mut b, Nothing);
        locks.unlock(1, &mut a, Nothing);
        assert_eq!((locks.readers, locks.writer), (0, None));
    }

    /// All that three connections can do, four steps deep: never a reader beside a writer, and nothing is left over.
    #[test]
    fn no_order_of_calls_lets_a_reader_in_beside_a_writer() {
        fn go(done: &mut Vec<(usize, Level, bool)>, depth: usize) {
            let (mut locks, mut levels) = (Locks::default(), [Nothing; 3]);
            for &(who, wanted, up) in done.iter() {
                match up {
                    true => drop(locks.lock(who as u64, &mut levels[who], wanted)),
                    false => locks.unlock(who as u64, &mut levels[who], wanted),
                }
                let exclusive = levels.iter().filter(|&&level| level == Exclusive).count();
                let writers = levels.iter().filter(|&&level| level > Shared).count();
                let readers = levels.iter().filter(|&&level| level > Nothing).count();
                assert!(
                    writers <= 1 && (exclusive == 0 || readers == 1),
                    "{done:?} {levels:?}"
                );
                assert_eq!(
                    (locks.readers, locks.is_reserved()),
                    (readers, writers == 1),
                    "{done:?}"
                );
            }
            if depth == 0 {
                return;
            }
            for who in 0..3 {
                for (wanted, up) in [
                    (Shared, true),
                    (Reserved, true),
                    (Exclusive, true),
                    (Shared, false),
                    (Nothing, false),
                ] {
                    done.push((who, wanted, up));
                    go(done, depth - 1);
                    done.pop();
                }
            }
        }
        go(&mut Vec::new(), 4);
    }
}
