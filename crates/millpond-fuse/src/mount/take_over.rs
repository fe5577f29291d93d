//! A process takes a mount over from the one that serves it.

use super::closed_files::ClosedFilesThread;
use super::lender::LenderThread;
use super::readers::Readers;
use super::{Inherited, Mount, Serving, new_state};
use crate::channel::{Channel, Listener, Received};
use crate::error::{MountError, Result, system};
use crate::exit_report::ReportPipe;
use crate::host::{self, mountinfo};
use crate::operations::hand_over::{Answer, AnyAnswer, FORMAT, Hello, Message, Progress, identity};
use crate::options::{Options, TakeOverStep};
use crate::own_attributes::TAKE_OVER_ATTRIBUTE;
use crate::request_memory::RequestMemory;
use crate::source::Source;
use fuser::SessionACL;
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The process that serves connects, and answers, within this: it looks for us now and then.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// It has stopped, and sent the next part of what it knows, within this: what programs have begun ends first.
const SENDS_WITHIN: Duration = Duration::from_secs(120);

/// For so long the process that served before may keep the address for metrics.
const ADDRESS_WITHIN: Duration = Duration::from_secs(10);

fn within(time: Duration) -> Instant {
    Instant::now() + time
}

/// What the process that serves has given.
struct Given {
    channel: Channel,
    answer: Answer,
    connection: OwnedFd,
    source: OwnedFd,
    report: [OwnedFd; 2],
}

impl Mount {
    /// Takes over what is mounted there from the process that serves it, which ends then. Open files stay open, and no call of a
    /// program fails; what programs ask meanwhile waits. This changes the process as [`Mount::new`] does.
    ///
    /// # Errors
    /// Those of [`Mount::new`]; [`MountError::TakeOver`]. The process that serves goes on.
    pub fn take_over(options: &Options) -> Result<Mount> {
        let point = host::check_taken_over(options)?;
        let source = Source::open(options)?;
        let failed = |error: io::Error| MountError::TakeOver {
            path: point.clone(),
            why: match error.kind() {
                io::ErrorKind::UnexpectedEof => "its process has not gone on with it, and says why".into(),
                _ => error.to_string(),
            },
        };
        let given = ask(options, &source, &point).map_err(failed)?;
        let prepared = prepare(options, source, &point, &given);
        let (mut mount, readers) = prepared.inspect_err(|error| {
            let told = Progress::Failed(error.to_string());
            let _ = given.channel.send(&told, &[], within(ANSWERS_WITHIN));
        })?;
        let taken = take_in(options, &mount, &given).inspect_err(|error| {
            mount.is_handed_over = true;
            let told = Progress::Failed(error.to_string());
            let _ = given.channel.send(&told, &[], within(ANSWERS_WITHIN));
        });
        taken.map_err(failed)?;
        // From here on this is the process that serves.
        let begun = mount.begin(readers);
        options.break_at(TakeOverStep::Begun);
        if let Err(error) = begun {
            let _ = writeln!(
                io::stderr(),
                "millpond: a thread can't answer the kernel: {error}"
            );
        }
        mount.predecessor = Some(given.channel);
        if let (Some(cache), Some(address)) = (mount.state.cache.clone(), options.metrics) {
            // When the other process has ended.
            let serve = move || serve_metrics(&cache, address);
            let _ = thread::Builder::new()
                .name("millpond-metrics".into())
                .spawn(serve);
        }
        Ok(mount)
    }

    /// The process that served before may end: whoever watches it has been told of this one.
    pub fn let_predecessor_end(&mut self) {
        self.predecessor = None;
    }

    /// Has the threads read what the kernel sends.
    fn begin(&mut self, readers: Readers) -> io::Result<()> {
        self.state.source.own();
        let (begun, threads) = readers.begin();
        self.state.gate.open();
        self.sessions = threads;
        begun
    }
}

/// Asks the process that serves for the mount, at the mount itself, and takes what it gives.
fn ask(options: &Options, source: &Source, point: &Path) -> io::Result<Given> {
    let listener = Listener::new()?;
    let asked = format!("{TAKE_OVER_ATTRIBUTE}{}", listener.name());
    let mut answer = [0; 8];
    match rustix::fs::getxattr(point, asked.as_str(), &mut answer) {
        Ok(_) => {}
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {
            return Err(io::Error::other(
                "its process is of a version that can't hand it over: end it with `millpond umount` and mount it anew",
            ));
        }
        Err(Errno::PERM | Errno::ACCESS) => {
            return Err(io::Error::other(
                "only the user that has mounted it may take it over",
            ));
        }
        Err(error) => return Err(error.into()),
    }
    options.break_at(TakeOverStep::Asked);
    let channel = listener.accept(within(ANSWERS_WITHIN))?;
    let hello = Hello {
        format: FORMAT + u32::from(options.breaks_at(TakeOverStep::Newer)),
        version: env!("CARGO_PKG_VERSION").into(),
        process: std::process::id(),
        source: identity(&source.directory)?,
        allows_other: options.allow_other,
        is_read_only: options.read_only,
        is_cached: options.cached,
        lends: options.lend > 0,
    };
    channel.send(&hello, &[], within(ANSWERS_WITHIN))?;
    let got = channel.receive(within(ANSWERS_WITHIN), &|| false)?;
    let any: AnyAnswer = got.parse()?;
    if let Some(why) = any.refused {
        return Err(io::Error::other(why));
    }
    if any.format != FORMAT {
        return Err(io::Error::other(format!(
            "version {} serves it, whose messages have format {}, not {FORMAT}: end it with `millpond umount` and mount it anew",
            any.version, any.format
        )));
    }
    options.break_at(TakeOverStep::Answered);
    let answer = got.parse()?;
    let Received { descriptors, .. } = got;
    let Ok([connection, source, reader, writer]) = <[OwnedFd; 4]>::try_from(descriptors) else {
        return Err(io::Error::other("its process has not sent the connection"));
    };
    Ok(Given {
        channel,
        answer,
        connection,
        source,
        report: [reader, writer],
    })
}

/// All but what the process that serves still changes.
fn prepare(options: &Options, source: Source, point: &Path, given: &Given) -> Result<(Mount, Readers)> {
    let failed = system("can't take over");
    let answer = &given.answer;
    let [reader, writer] = &given.report;
    let report = || ReportPipe::go_on_from(reader.try_clone()?, writer.try_clone()?);
    let source = source.go_on_from(given.source.try_clone().map_err(&failed)?);
    let inherited = Inherited {
        request_memory: RequestMemory::go_on_from(answer.request_bytes, answer.background, options.threads),
        calibration: answer.calibration.map(Into::into),
        report_pipe: report().map_err(&failed)?,
    };
    let state = Arc::new(new_state(options, &source, point, Some(inherited))?);
    // Until it serves no thread of its own has anything to say to the kernel.
    state.gate.close(Instant::now());
    state.applies_umask.store(answer.applies_umask, Ordering::Relaxed);
    let acl = match options.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let threads = options.threads.max(2);
    let serving = Arc::new(Serving(options.events.clone()));
    let readers = Readers::new(threads, &serving, &state, acl, given.connection.as_fd()).map_err(&failed)?;
    // It is set once, here. What a kernel that knows all could not do was none of this one's.
    let _ = state.notifier.set(readers.notifier());
    state.unsupported.lock().clear();
    let mount = Mount {
        notices: Vec::new(),
        device: mountinfo::mount_at(point)?.map(|mount| mount.device),
        point: point.to_owned(),
        source: source.path,
        sessions: Vec::new(),
        serving: Arc::downgrade(&serving),
        lender: LenderThread::start(&state).map_err(&failed)?,
        closed_files: Some(ClosedFilesThread::start(state.clone()).map_err(&failed)?),
        state,
        connection: given.connection.try_clone().map_err(&failed)?,
        readers: threads,
        allows_other: options.allow_other,
        is_handed_over: false,
        predecessor: None,
        process: std::process::id(),
    };
    Ok((mount, readers))
}

/// Takes in what the process that serves knows. On success it knows that this one serves.
fn take_in(options: &Options, mount: &Mount, given: &Given) -> io::Result<()> {
    let channel = &given.channel;
    channel.send(&Progress::Prepared, &[], within(ANSWERS_WITHIN))?;
    options.break_at(TakeOverStep::Prepared);
    loop {
        let got = channel.receive(within(SENDS_WITHIN), &|| false)?;
        options.break_at(TakeOverStep::Receiving);
        let message: Message = got.parse()?;
        if mount.state.take_in(message, got.descriptors)? {
            break;
        }
    }
    options.break_at(TakeOverStep::Received);
    channel.send(&Progress::Serves, &[], within(ANSWERS_WITHIN))
}

fn serve_metrics(cache: &millpond::PageCache, address: std::net::SocketAddr) {
    let until = within(ADDRESS_WITHIN);
    while let Err(error) = millpond::internal::serve_metrics(cache, address) {
        if Instant::now() >= until {
            let _ = writeln!(io::stderr(), "millpond: {error}");
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
