//! How a file is opened and used.

use crate::device::Access;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    write: bool,
    create: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// For reading a file that exists.
    pub fn new() -> OpenOptions {
        OpenOptions {
            write: false,
            create: false,
        }
    }

    /// Also for writing.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Also for writing, and a file that does not exist is made.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self.write |= create;
        self
    }

    pub(crate) fn access(self) -> Access {
        match (self.write, self.create) {
            (_, true) => Access::Create,
            (true, false) => Access::ReadWrite,
            (false, false) => Access::Read,
        }
    }

    pub(crate) fn writes(self) -> bool {
        self.write
    }
}

/// How a user expects to use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Find out: read ahead when reads turn out to be sequential. The default.
    Normal,
    /// Never read ahead.
    Random,
    /// Read ahead with the largest window at once.
    Sequential,
}
