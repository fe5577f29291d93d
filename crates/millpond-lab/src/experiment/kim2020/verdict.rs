//! The meaning of the numbers, in plain sentences, with the post's for comparison.

use super::published::{SEVEN_STEPS, SIZES, SKEWS, THREADS, throughput};
use crate::report::words::change;
use millpond::internal::quantity::number;

type Of<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// The sentences. `of`: a metric of a workload and variant.
pub(super) fn of(of: Of<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(seven_steps(of));
    sentences.extend(as_posted(of));
    for threads in THREADS {
        sentences.extend(grid(of, threads));
    }
    sentences
}

fn percent(before: f64, after: f64) -> f64 {
    100.0 * (after / before - 1.0)
}

fn seven_steps(of: Of<'_>) -> Option<String> {
    let ins = |variant| of("hot-cold", variant, "swap_ins_pages");
    let (base, protect, detect) = (ins("base")?, ins("protect")?, ins("detect")?);
    let [[post_base, _], [post_patched, _]] = SEVEN_STEPS;
    let optimum = of("hot-cold", "bounds", "misses_optimum_pages")?;
    Some(format!(
        "hot-cold: {} pages came back from swap in Linux 5.5, {} with protection alone and {} with detection, {} (the post: {} \
         and {}, {}); not fewer than {} could have.",
        number(base),
        number(protect),
        number(detect),
        change(detect, base),
        number(post_base),
        number(post_patched),
        change(post_patched, post_base),
        number(optimum)
    ))
}

fn as_posted(of: Of<'_>) -> Option<String> {
    let activations = of("hot-cold", "linux-5.5+anon-as-posted", "workingset_activate_anon")?;
    let repaired = of("hot-cold", "detect", "workingset_activate_anon")?;
    Some(format!(
        "As posted, detection compares with the wrong list: {} pages were activated by it there, {} with the index repaired.",
        number(activations),
        number(repaired)
    ))
}

fn grid(of: Of<'_>, threads: u32) -> Option<String> {
    let range = |changes: &[f64]| {
        let least = changes.iter().copied().fold(f64::MAX, f64::min);
        let most = changes.iter().copied().fold(f64::MIN, f64::max);
        format!("{least:+.0} to {most:+.0}%")
    };
    let mut parts = Vec::new();
    for mb in SIZES {
        let mut changes = [Vec::new(), Vec::new()];
        for skew in SKEWS {
            let name = format!("ebizzy-{mb}-{}.{}-{threads}", skew / 10, skew % 10);
            let rate = |variant| of(&name, variant, "records_per_s");
            changes[0].push(percent(rate("base")?, rate("detect")?));
            let [before, after] = throughput(mb, skew, threads)?;
            changes[1].push(percent(before, after));
        }
        parts.push(format!("{mb}M {} ({})", range(&changes[0]), range(&changes[1])));
    }
    let who = if threads == 1 {
        "one thread"
    } else {
        "eight threads"
    };
    Some(format!(
        "ebizzy, {who}, throughput with the series against without, the post's in brackets: {}.",
        parts.join(", ")
    ))
}
