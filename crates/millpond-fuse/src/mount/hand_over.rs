//! The process that serves hands its mount over to another, or goes on.

use super::Mount;
use crate::channel::Channel;
use crate::error::{MountError, Result};
use crate::operations::hand_over::{Answer, AnyAnswer, AnyHello, FORMAT, Hello, Message, Progress, identity};
use crate::own_attributes::PROCESS_ATTRIBUTE;
use crate::state::MountState;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The process that has asked greets within this.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Its cache is made within this; programs are served meanwhile.
const PREPARED_WITHIN: Duration = Duration::from_secs(60);

/// What was begun in the background ends within this, while programs are served.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(10);

/// What programs have begun ends within this; if not, all go on for as long, and twice this is tried.
const STOPPED_WITHIN: Duration = Duration::from_millis(100);
const STOPS: u32 = 7;

/// A message is taken, and the other process serves, within this; programs wait meanwhile.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

/// The process that has taken over tells whom it concerns within this.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// The process that serves the mount from now on.
#[derive(Debug)]
pub struct Successor {
    /// Its number.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// For so long no request was read.
    pub pause: Duration,
}

fn within(time: Duration) -> Instant {
    Instant::now() + time
}

impl Mount {
    /// Whether another process has asked to take the mount over: then [`hand_over`](Self::hand_over) is to be called.
    pub fn has_successor(&self) -> bool {
        self.state.successor.lock().is_some()
    }

    /// Hands the mount over to the process that has asked for it. On success this process has nothing to do with it any more, and
    /// has to end soon: what programs ask is answered by the other, and whatever was written is in the source.
    ///
    /// # Errors
    /// [`MountError::TakeOver`]: this process goes on as before. So it does if `is_given_up` says so meanwhile.
    pub fn hand_over(&mut self, is_given_up: &dyn Fn() -> bool) -> Result<Successor> {
        let failed = |why: String| MountError::TakeOver {
            path: self.point.clone(),
            why,
        };
        let Some(name) = self.state.successor.lock().take() else {
            return Err(failed("no process has asked for it".into()));
        };
        let channel = Channel::connect(&name);
        let channel =
            channel.map_err(|error| failed(format!("the process that asks can't be reached: {error}")))?;
        let mut successor = self.greet(&channel, is_given_up).map_err(failed)?;
        match self.hand_over_by(&channel, is_given_up) {
            Ok(pause) => successor.pause = pause,
            Err(why) => {
                // What waits is not lost.
                self.state.gate.open();
                let told = Message::Failed(why.clone());
                let _ = channel.send(&told, &[], within(Duration::ZERO));
                return Err(failed(why));
            }
        }
        self.is_handed_over = true;
        // Whoever watches this process hears of the other first.
        let _ = channel.receive(within(TOLD_WITHIN), &|| false);
        if let Some(path) = self.cache().and_then(|cache| cache.control_path()) {
            // Whoever looks for the cache finds the other's.
            let _ = std::fs::remove_file(path);
        }
        Ok(successor)
    }

    /// Answers its greeting: the process, if both go together.
    fn greet(
        &self,
        channel: &Channel,
        is_given_up: &dyn Fn() -> bool,
    ) -> std::result::Result<Successor, String> {
        let text = |error: io::Error| error.to_string();
        let got = channel.receive(within(HELLO_WITHIN), is_given_up).map_err(text)?;
        let any: AnyHello = got.parse().map_err(text)?;
        let hello = self.check(&any, &got);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = match hello {
            Ok(hello) => hello,
            Err(why) => {
                let answer = AnyAnswer {
                    format: FORMAT,
                    version,
                    refused: Some(why.clone()),
                };
                let _ = channel.send(&answer, &[], within(HELLO_WITHIN));
                return Err(why);
            }
        };
        let state = &self.state;
        let calibration = state.cache.as_ref().and_then(|cache| cache.calibration());
        let answer = Answer {
            format: FORMAT,
            version,
            refused: None,
            process: std::process::id(),
            request_bytes: state.request_memory.request_bytes,
            background: state.request_memory.background,
            applies_umask: state.applies_umask.load(std::sync::atomic::Ordering::Relaxed),
            calibration: calibration.map(Into::into),
        };
        let [reader, writer] = state.report_pipe.descriptors();
        let descriptors = [self.connection.as_fd(), state.source.as_fd(), reader, writer];
        let sent = channel.send(&answer, &descriptors, within(HELLO_WITHIN));
        sent.map_err(text)?;
        Ok(Successor {
            process: hello.process,
            version: hello.version,
            pause: Duration::ZERO,
        })
    }

    /// Whether the mount can be as the other process would have it.
    fn check(&self, any: &AnyHello, got: &crate::channel::Received) -> std::result::Result<Hello, String> {
        if any.format != FORMAT {
            return Err(format!(
                "it is version {}, whose messages have format {}, and those of version {}, which serves, have format {FORMAT}: \
                 end the mount with `millpond umount` and mount it anew",
                any.version,
                any.format,
                env!("CARGO_PKG_VERSION")
            ));
        }
        let hello: Hello = got.parse().map_err(|error| error.to_string())?;
        let state = &self.state;
        let ours = identity(&state.source).map_err(|error| error.to_string())?;
        if hello.source != ours {
            return Err(format!("the mount has another source, {}", self.source.display()));
        }
        let differs = [
            ("--allow-other", hello.allows_other, self.allows_other),
            ("--read-only", hello.is_read_only, state.is_read_only),
            ("--no-cache", !hello.is_cached, state.cache.is_none()),
            ("--lend", hello.lends, state.lend_pool.is_some()),
        ];
        match differs.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            Some((option, _, true)) => Err(format!(
                "the mount was made with {option}, which stays so: give it as well"
            )),
            Some((option, _, false)) => Err(format!(
                "the mount was made without {option}, which stays so: leave it out"
            )),
            None => Ok(hello),
        }
    }

    /// For how long no request was read.
    fn hand_over_by(
        &self,
        channel: &Channel,
        is_given_up: &dyn Fn() -> bool,
    ) -> std::result::Result<Duration, String> {
        expect(channel, within(PREPARED_WITHIN), is_given_up, &Progress::Prepared)?;
        // Most of it while programs are served.
        self.state.write_everything_out()?;
        let since = self.stop()?;
        self.state.write_everything_out()?;
        self.state.check_written()?;
        let send = |message: &Message, descriptors: &[OwnedFd]| {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            channel.send(message, &descriptors, within(SERVES_WITHIN))
        };
        self.state.send_all(send).map_err(|error| lost(&error))?;
        let serves = || expect(channel, within(SERVES_WITHIN), is_given_up, &Progress::Serves);
        serves().or_else(|why| {
            // Either it has said so by now, or it can't any more, and has not begun.
            channel.shut_down();
            serves().map_err(|_| why)
        })?;
        Ok(since.elapsed())
    }

    /// Stops all threads that answer the kernel, between requests. Since when the first of them stands.
    fn stop(&self) -> std::result::Result<Instant, String> {
        let state = &self.state;
        let until = within(BACKGROUND_WITHIN);
        if !state.gate.close(until) || !state.pool.wait_nothing_deferred(until) {
            return Err("what it does in the background does not end: try again".into());
        }
        let mut time = STOPPED_WITHIN;
        for _ in 0..STOPS {
            let (since, until) = (Instant::now(), within(time));
            state.gate.begin_parking();
            let failed = ask_each_thread(state).map_err(|error| error.to_string())?;
            if state.gate.wait_parked(self.readers, until) && state.pool.wait_idle(until) {
                return Ok(since);
            }
            if let Ok(error) = failed.try_recv() {
                return Err(format!("its own mount can't be reached: {error}"));
            }
            state.gate.release();
            // What was waited for ends now.
            state.pool.wait_idle(within(time));
            time *= 2;
        }
        Err("what programs have begun does not end: the disk may be slow, or a program maps a file and writes to it; try again".into())
    }
}

/// Has each thread answer a question, one after the other, on a thread of its own: it waits while they are parked. Says so if
/// it can't ask.
fn ask_each_thread(state: &Arc<MountState>) -> io::Result<mpsc::Receiver<Errno>> {
    let (tell, failed) = mpsc::channel();
    let state = state.clone();
    let ask = move || {
        let mut answer = [0; 256];
        let mut asked = state.open_own_root();
        while state.gate.is_parking()
            && let Ok(root) = asked
        {
            let answered = rustix::fs::fgetxattr(&root, PROCESS_ATTRIBUTE, &mut answer);
            asked = answered.map(|_| root);
        }
        let _ = asked.map_err(|error| tell.send(error));
    };
    thread::Builder::new().name("millpond-ask".into()).spawn(ask)?;
    Ok(failed)
}

fn lost(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "the process that was to take over has died".into()
        }
        _ => error.to_string(),
    }
}

/// Waits for this word of the process that takes over.
fn expect(
    channel: &Channel,
    until: Instant,
    is_given_up: &dyn Fn() -> bool,
    word: &Progress,
) -> std::result::Result<(), String> {
    let got = channel.receive(until, is_given_up);
    match got.and_then(|got| got.parse()).map_err(|error| lost(&error))? {
        Progress::Failed(why) => Err(why),
        said if std::mem::discriminant(&said) == std::mem::discriminant(word) => Ok(()),
        _ => Err("the process that was to take over has said something else than expected".into()),
    }
}
