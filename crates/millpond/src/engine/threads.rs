//! The engine's own threads: the background's, and those that serve faults of regions. They end together.

use super::driver::Engine;
use super::{background, handlers};
use crate::device::Device;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

pub(crate) struct Threads {
    engine: Arc<Engine>,
    background: Option<JoinHandle<()>>,
    handlers: Vec<JoinHandle<()>>,
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
        let handlers = handlers::start(engine);
        let handlers = handlers.map_err(setup("starting the threads that serve faults"))?;
        Ok(Threads {
            engine: engine.clone(),
            background: Some(background),
            handlers,
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.engine.stopping.store(true, Ordering::Release);
        self.engine.device.wake();
        if let Some(thread) = self.background.take() {
            // It has poisoned the cache if it has panicked; there is no caller left to tell.
            let _ = thread.join();
        }
        if let Some(regions) = &self.engine.regions {
            regions.wake_handlers();
        }
        for handler in self.handlers.drain(..) {
            let _ = handler.join();
        }
        // None of them is left that could tell it something.
        self.engine.device.end_of_warnings();
    }
}
