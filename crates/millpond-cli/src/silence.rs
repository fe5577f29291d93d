//! A process that does not answer: which it is, what it does instead, and the way out.

use procfs::process::Process;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often to check whether a process makes progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Calls `does` on a thread of its own, for as long as it takes while the processes make progress. Returns the result,
/// or `None` if none of them has read or written anything for `still_max`. The thread is then left running.
pub(crate) fn answer_of<T: Send + 'static>(
    processes: &[u32],
    still_max: Duration,
    does: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    answer_while(|| progress(processes), still_max, does)
}

/// The same with another sign of progress: `progress` changes.
pub(crate) fn answer_while<T: Send + 'static, P: PartialEq>(
    progress: impl Fn() -> P,
    still_max: Duration,
    does: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, answer) = mpsc::channel();
    thread::Builder::new()
        .spawn(move || {
            let _ = tell.send(does());
        })
        .ok()?;
    let (mut before, mut still) = (progress(), Duration::ZERO);
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return Some(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let now = progress();
        still = if now == before {
            still + LOOK_EVERY
        } else {
            Duration::ZERO
        };
        before = now;
        if still >= still_max {
            return None;
        }
    }
}

/// Whether their progress can be seen from here.
pub(crate) fn can_be_watched(processes: &[u32]) -> bool {
    progress(processes).iter().any(Option::is_some)
}

/// What the processes have read and written so far, as far as the system reports it.
pub(crate) fn progress(processes: &[u32]) -> Vec<Option<String>> {
    let io = |process: &u32| fs::read_to_string(format!("/proc/{process}/io")).ok();
    processes.iter().map(io).collect()
}

/// Processes that do not answer: `process 12 does not answer: it is stopped; ...`.
pub(crate) fn describe(processes: &[u32]) -> String {
    match processes {
        [] => "the process that serves it does not answer, and can't be seen from here: it is another user's, or in another \
               PID namespace"
            .into(),
        processes => {
            let each = processes
                .iter()
                .map(|process| format!("process {process} does not answer: {}", state(*process)));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The process's state instead of an answer, and the way out.
pub(crate) fn state(process: u32) -> String {
    let seen = i32::try_from(process)
        .ok()
        .and_then(|number| Process::new(number).ok());
    let Some((seen, stat)) = seen.and_then(|seen| seen.stat().ok().map(|stat| (seen, stat))) else {
        return "it is gone".into();
    };
    let kill = format!("`kill -9 {process}` ends it, and what is not synced is lost");
    let frozen = |wchan: &str| wchan.contains("freezer") || wchan.contains("refrigerator");
    if fs::read_to_string(format!("/proc/{process}/wchan")).is_ok_and(|wchan| frozen(&wchan)) {
        return format!(
            "it is frozen by its control group: `docker unpause` or `systemctl thaw` lets it go on; {kill}"
        );
    }
    match stat.state {
        'T' => format!("it is stopped: `kill -CONT {process}` lets it go on; {kill}"),
        't' => format!("it is stopped by a debugger; {kill}"),
        'Z' | 'X' => "it has ended".into(),
        _ => match waiting_threads(&seen) {
            0 => format!("it runs, and is busy or hangs; {kill}"),
            waiting => format!(
                "{waiting} of its threads wait for a disk or a file system: it goes on when what is below its source \
                 answers; {kill}"
            ),
        },
    }
}

/// The kernel function in which threads wait for a FUSE file system, in whatever state.
const WAITS_FOR_FUSE: &str = "request_wait_answer";

/// Threads that wait for a disk or a file system.
fn waiting_threads(process: &Process) -> usize {
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks
        .filter(|task| {
            let wchan = fs::read_to_string(format!("/proc/{}/task/{}/wchan", task.pid, task.tid));
            task.stat().is_ok_and(|stat| stat.state == 'D')
                || wchan.is_ok_and(|wchan| wchan.trim() == WAITS_FOR_FUSE)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_while_the_process_gets_on_and_no_longer() {
        let own = std::process::id();
        assert_eq!(answer_of(&[own], Duration::from_secs(60), || 7), Some(7));
        // A process that does not exist can't be inspected.
        let (_keep, never) = mpsc::channel::<()>();
        let none = answer_of(&[u32::MAX], Duration::from_millis(1), move || never.recv().ok());
        assert_eq!(none, None);
    }

    #[test]
    fn the_state_of_a_process_is_named_with_the_way_out() {
        assert_eq!(state(u32::MAX), "it is gone");
        assert!(state(std::process::id()).contains("kill -9"));
        assert!(describe(&[]).contains("can't be seen"));
    }
}
