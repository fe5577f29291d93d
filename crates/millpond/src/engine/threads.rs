//! The engine's own threads: the background's, and those that serve faults of regions. They end together.

use super::driver::Engine;
use super::{background, handlers};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sys::threads::join_unless_lost;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

pub(crate) struct Threads {
    engine: Arc<Engine>,
    background: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts them.
    ///
    /// # Errors
    /// [`Error::Setup`] if the system gives none.
    pub(crate) fn start(engine: &Arc<Engine>) -> Result<Threads> {
        let setup = |what| move |source| Error::Setup { what, source };
        let background = background::start(engine.clone());
        let background = background.map_err(setup("starting the background thread"))?;
        // Ends those that were started if one can't be.
        let threads = Threads {
            engine: engine.clone(),
            background: Some(background),
        };
        handlers::start(engine).map_err(setup("starting a thread that serves faults"))?;
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.engine.stopping.store(true, Ordering::Release);
        self.engine.device.wake();
        if let Some(thread) = self.background.take() {
            let is_lost = self.engine.device.submit(&mut Vec::new()).is_err();
            join_unless_lost(thread, is_lost);
        }
        if let Some(spaces) = &self.engine.spaces {
            spaces.handlers.end();
        }
        // None of them is left that could tell it something.
        self.engine.device.end_of_warnings();
    }
}
