//! Runs in virtual time, as many at a time as there are processors.

use crate::error::{LabError, Result};
use crate::measure::process;
use crate::watch::{Proceed, Watch};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How soon an interruption is noticed.
const POLL: Duration = Duration::from_millis(100);

enum Event<R> {
    Progress(usize, f64),
    Done(usize, Box<Result<R>>),
}

/// How a run reports its progress, and learns that it should end.
pub(super) struct Reporter<'a, R> {
    number: usize,
    sender: &'a Sender<Event<R>>,
    /// Set once the run should end.
    pub(super) stop: &'a AtomicBool,
}

impl<R> Reporter<'_, R> {
    /// Reports this share of the run, from 0 to 1, as done. Returns whether to go on.
    pub(super) fn at(&self, share: f64) -> bool {
        let _ = self.sender.send(Event::Progress(self.number, share.min(1.0)));
        !self.stop.load(Relaxed)
    }
}

/// Performs all jobs; the results are in their order. `watch` sees `title` of each. The first error ends all.
///
/// # Errors
/// The first failed job's; [`LabError::Interrupted`].
pub(super) fn perform<J: Sync, R: Send>(
    jobs: &[J],
    title: impl Fn(&J) -> String,
    run: impl Fn(&J, &Reporter<'_, R>) -> Result<R> + Sync,
    watch: &mut dyn Watch,
) -> Result<Vec<R>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut shares = vec![0.0; jobs.len()];
    let mut results: Vec<Option<Result<R>>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, events) = channel();
        for _ in 0..process::processors().clamp(1, jobs.len().max(1)) {
            let (sender, next, stop, run) = (sender.clone(), &next, &stop, &run);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(job) = jobs.get(number).filter(|_| !stop.load(Relaxed)) else {
                        break;
                    };
                    let reporter = Reporter {
                        number,
                        sender: &sender,
                        stop,
                    };
                    let result = Box::new(run(job, &reporter));
                    if sender.send(Event::Done(number, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut step = String::new();
        loop {
            match events.recv_timeout(POLL) {
                Ok(Event::Progress(n, share)) => {
                    shares[n] = share;
                    step = title(&jobs[n]);
                }
                Ok(Event::Done(n, result)) => {
                    shares[n] = 1.0;
                    step = title(&jobs[n]);
                    stop.fetch_or(result.is_err(), Relaxed);
                    results[n] = Some(*result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let done = shares.iter().filter(|&&share| share >= 1.0).count();
            let share = shares.iter().sum::<f64>() / jobs.len() as f64;
            let detail = format!("{done} of {} runs done", jobs.len());
            if watch.at(share, &step, &detail) == Proceed::Stop {
                stop.store(true, Relaxed);
            }
        }
    });
    let results = results
        .into_iter()
        .map(|result| result.unwrap_or(Err(LabError::Interrupted)));
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_jobs_and_one_error_is_that_of_all() {
        let jobs: Vec<u32> = (0..20).collect();
        let title = |job: &u32| job.to_string();
        let doubled = perform(&jobs, title, |job, _| Ok(2 * job), &mut ()).unwrap();
        assert_eq!(doubled, (0..20).map(|n| 2 * n).collect::<Vec<_>>());
        let failing = |job: &u32, _: &Reporter<'_, u32>| match job {
            0 => Err(LabError::io("job 0", std::io::Error::other("failed"))),
            _ => Ok(*job),
        };
        let error = perform(&jobs, title, failing, &mut ()).unwrap_err();
        assert_eq!(error.to_string(), "job 0: failed");
    }
}
