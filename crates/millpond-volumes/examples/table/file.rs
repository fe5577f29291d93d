//! A file of a mount, whatever it is a mount of. What is cached below the kernel's page cache goes by mounting anew between
//! the phases.

use crate::measure::{self, Result, Target, times};
use std::fs::File;
use std::os::unix::fs::FileExt;

impl Target for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        Ok(self.write_all_at(bytes, offset)?)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.read_exact_at(bytes, offset)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.sync_data()?)
    }

    fn forget(&self) -> Result<bool> {
        rustix::fs::fadvise(self, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(true)
    }
}

pub(crate) fn table(path: &str, mib: u64, phase: &str) -> Result<()> {
    let mut options = File::options();
    match phase {
        "write" => {
            let began = std::time::Instant::now();
            let file = options.write(true).create(true).truncate(false).open(path)?;
            measure::write(&file, mib)?;
            drop(file);
            measure::row("  closed too", measure::rate(mib, began.elapsed()));
            Ok(())
        }
        "read" => measure::read(&options.read(true).open(path)?, mib),
        "random" => measure::random(&options.read(true).open(path)?, mib, times(1)),
        "sync" => measure::sync(&options.read(true).write(true).open(path)?, mib, times(1), 5),
        other => Err(format!("phase {other}").into()),
    }
}
