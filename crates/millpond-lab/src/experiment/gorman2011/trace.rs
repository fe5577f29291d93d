//! Reclaim's decisions of a run as text: what was met at the cold end, by which thread, what was done and
//! why, all of them counted; and the last ones that the trace kept.

use crate::report::{Appendix, Runs};
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome, SAMPLED_ONE_IN, Trace};

/// The name that `--table` takes.
pub(super) const NAME: &str = "trace";

/// Records shown of each run.
const SHOWN: usize = 12;

fn who(caller: Caller) -> &'static str {
    match caller {
        Caller::Kswapd => "kswapd",
        Caller::Direct => "direct",
    }
}

fn what(kind: PageKind) -> &'static str {
    match kind {
        PageKind::File => "file",
        PageKind::Anonymous => "anonymous",
    }
}

/// A run's trace.
pub(super) fn appendix(run: &Runs, trace: &Trace) -> Appendix {
    let mut text = String::new();
    for caller in [Caller::Kswapd, Caller::Direct] {
        for kind in PageKind::ALL {
            for outcome in Outcome::ALL {
                let count = trace.count(caller, kind, outcome);
                if count > 0 {
                    let (who, what) = (who(caller), what(kind));
                    text += &format!("{who}  {what:9}  {:32}{count:>12}\n", outcome.name());
                }
            }
        }
    }
    let records: Vec<_> = trace.records().collect();
    text += &format!("\nThe last of every {SAMPLED_ONE_IN}th decision:\n");
    for record in records.iter().skip(records.len().saturating_sub(SHOWN)) {
        text += &format!(
            "{:>12.6} s  {}  priority {:>2}  {:9}  {:14}  {}\n",
            record.at.0 as f64 / 1e9,
            who(record.caller),
            record.priority,
            what(record.kind),
            format!("{:?}", record.key),
            record.outcome.name(),
        );
    }
    Appendix {
        name: NAME,
        title: format!("Reclaim's decisions: {} on {}", run.workload, run.row.variant),
        text,
    }
}
