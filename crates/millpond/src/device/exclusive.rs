//! A file for one cache alone: a lock of an open file (`F_OFD_SETLK`) that has no other use, so that children close it.

use super::again::open_again;
use super::{Descriptor, DeviceFile};
use crate::sys::forks::NotInChildren;
use crate::sys::locks::{self, Holder};
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether a file is locked for one cache.
#[derive(Debug, Default)]
pub(super) struct Exclusive(Mutex<Option<Lock>>);

#[derive(Debug)]
struct Lock(NotInChildren<Descriptor>);

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.0.is_anothers() {
            locks::unlock(self.0.file().file());
        }
    }
}

impl DeviceFile {
    /// Locks it, so that no other process, and no other cache of this one, that locks it too can change it. Until it is
    /// dropped.
    ///
    /// # Errors
    /// `EAGAIN` if it is locked already; as `fcntl` fails.
    pub(crate) fn lock(&self) -> io::Result<()> {
        let mut exclusive = self.exclusive.0.lock();
        if exclusive.is_some() {
            return Ok(());
        }
        let lock = Lock(NotInChildren::new(self.once_more()?));
        let file = lock.0.file().file();
        locks::lock(file).map_err(|error| match (error.raw_os_error(), locks::holder(file)) {
            (Some(libc::EAGAIN | libc::EACCES), holder) => {
                let who = match holder {
                    Some(Holder::Process(0)) | None => "another process".into(),
                    Some(Holder::Process(process)) if process == std::process::id() => {
                        "this process, by fcntl,".into()
                    }
                    Some(Holder::Process(process)) => format!("process {process}"),
                    Some(Holder::OpenFile) => "another cache or program".into(),
                };
                let said = format!(
                    "{who} has it locked: close it there, or open it here without OpenOptions::exclusive"
                );
                io::Error::new(io::ErrorKind::WouldBlock, said)
            }
            _ => error,
        })?;
        *exclusive = Some(lock);
        Ok(())
    }

    /// Gives the lock up, before the file is dropped: the thread that locks it next need not wait for all that know of it.
    pub(crate) fn unlock(&self) {
        self.exclusive.0.lock().take();
    }

    /// The file, opened for the lock alone. Where it can't be opened again the lock is one of the open file that there is,
    /// and of the children that have it.
    fn once_more(&self) -> io::Result<Descriptor> {
        let file = self.buffered.file();
        let metadata = file.metadata()?;
        if let Some(kept) = Descriptor::kept((metadata.dev(), metadata.ino()), true, false) {
            return Ok(kept);
        }
        let mut options = File::options();
        let again = open_again(file, Path::new(self.name()), options.read(true).write(true));
        Ok(Descriptor::new(again.or_else(|_| file.try_clone())?))
    }
}
