//! The meaning of the numbers, in plain sentences, with the post's for comparison.

use super::published::published;
use super::{FS_MARK, MICRO};
use crate::report::words::change;
use millpond::internal::quantity::{number, seconds};

/// The sentences of a load. `of`: a system's metric.
pub(super) fn of(workload: &str, of: &dyn Fn(&str, &str) -> Option<f64>) -> Vec<String> {
    let posted = |system: &str, metric: &str| published(workload, system, metric);
    let mut sentences = Vec::new();
    sentences.extend(writes(workload, of, &posted));
    sentences.extend(match workload {
        FS_MARK => direct(of, &posted),
        MICRO => efficiency(of, &posted),
        _ => None,
    });
    sentences.extend(time(workload, of, &posted));
    if workload == FS_MARK {
        sentences.extend(swap(of));
        sentences.extend(later(of));
    }
    sentences
}

type Of<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

/// The oldest system and the newest.
fn ends(of: Of<'_>, metric: &str) -> Option<(f64, f64)> {
    Some((of("vanilla", metric)?, of("prioinode", metric)?))
}

fn writes(workload: &str, of: Of<'_>, posted: Of<'_>) -> Option<String> {
    let (before, after) = ends(of, "kswapd_write_file")?;
    let (post_before, post_after) = ends(posted, "kswapd_write_file")?;
    Some(format!(
        "{workload}: the background reclaimer asked for {} file pages to be written before the series and {} after it (the post: \
         {} and {}).",
        number(before),
        number(after),
        number(post_before),
        number(post_after)
    ))
}

fn direct(of: Of<'_>, posted: Of<'_>) -> Option<String> {
    let (before, after) = ends(of, "direct_scans_percent")?;
    let (post_before, post_after) = ends(posted, "direct_scans_percent")?;
    let (stall_before, stall_after) = ends(of, "direct_stall_seconds")?;
    let (post_stall_before, post_stall_after) = ends(posted, "direct_stall_seconds")?;
    Some(format!(
        "Callers that needed a frame did {before:.0}% of the scanning before and {after:.0}% after ({post_before:.0}% and \
         {post_after:.0}%), and were stalled for {} and {} ({} and {}).",
        seconds(stall_before),
        seconds(stall_after),
        seconds(post_stall_before),
        seconds(post_stall_after)
    ))
}

fn efficiency(of: Of<'_>, posted: Of<'_>) -> Option<String> {
    let (before, after) = ends(of, "kswapd_efficiency_percent")?;
    let (post_before, post_after) = ends(posted, "kswapd_efficiency_percent")?;
    let (direct_before, direct_after) = ends(of, "direct_efficiency_percent")?;
    let (post_direct_before, post_direct_after) = ends(posted, "direct_efficiency_percent")?;
    Some(format!(
        "micro: of what it scanned the background reclaimer freed {before:.0}% before and {after:.0}% after ({post_before:.0}% and \
         {post_after:.0}%), callers that needed a frame {direct_before:.0}% and {direct_after:.0}% ({post_direct_before:.0}% and \
         {post_direct_after:.0}%)."
    ))
}

fn time(workload: &str, of: Of<'_>, posted: Of<'_>) -> Option<String> {
    let (before, after) = ends(of, "elapsed_seconds")?;
    let (post_before, post_after) = ends(posted, "elapsed_seconds")?;
    Some(format!(
        "{workload} took {} before and {} after, {} (the post: {}).",
        seconds(before),
        seconds(after),
        change(after, before),
        change(post_after, post_before)
    ))
}

/// The one direction of the post's that the model does not have.
fn swap(of: Of<'_>) -> Option<String> {
    let (before, after) = ends(of, "pswpin")?;
    (after * 2.0 > before).then(|| {
        format!(
            "Swap ins went from {} to {}: the post's fall from 19468 to 4588 is not reproduced.",
            number(before),
            number(after)
        )
    })
}

fn later(of: Of<'_>) -> Option<String> {
    let scanned = |system: &str| Some(100.0 / of(system, "reclaimed_percent")?);
    Some(format!(
        "For each page that it freed, reclaim scanned {:.2} in Linux 3.0, {:.2} with the series, {:.2} in Linux 7.0 and {:.2} in \
         Millpond.",
        scanned("vanilla")?,
        scanned("prioinode")?,
        scanned("linux-7.0")?,
        scanned("millpond")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_kernel_are_compared_with_the_posts() {
        let numbers = |system: &str, metric: &str| published(FS_MARK, system, metric);
        let sentences = of(FS_MARK, &numbers);
        assert_eq!(
            sentences[0],
            "fs_mark: the background reclaimer asked for 4483 file pages to be written before the series and 0 after it (the post: \
             4483 and 0)."
        );
        assert!(
            sentences[1].contains("37% of the scanning before and 1% after (37% and 1%)"),
            "{}",
            sentences[1]
        );
        assert!(
            sentences[2].ends_with("7.2 % less (the post: 7.2 % less)."),
            "{}",
            sentences[2]
        );
        assert_eq!(
            sentences.len(),
            3,
            "the post's swap ins fall, and it has no later systems"
        );
    }

    #[test]
    fn with_one_end_only_nothing_is_said() {
        let one =
            |system: &str, metric: &str| published(FS_MARK, system, metric).filter(|_| system == "vanilla");
        assert_eq!(of(FS_MARK, &one), [""; 0]);
    }
}
