//! What the post itself reported (Dillon 2000): the load of a news server under three rules for dirty pages. It has
//! no other figures of it, and these as ranges.

/// A row, and the least and the greatest load that the post has of it.
pub(super) const LOADS: [(&str, [f64; 2]); 3] = [
    // "News load: 1-2, but pageout activity was very inconsistent": 4.1.1 and 4.2
    ("clean-first", [1.0, 2.0]),
    // "News load: 50-150 (i.e. it blew up)": FreeBSD-stable
    ("queue-order", [50.0, 150.0]),
    // "News load: 1-2. Very consistent pageout activity": the patches
    ("two-laps", [1.0, 2.0]),
];

/// The load that the post has of a row, as it writes it.
pub(super) fn published(row: &str) -> Option<String> {
    let (_, [least, greatest]) = LOADS.iter().find(|(name, _)| *name == row)?;
    Some(format!("{least:.0}-{greatest:.0}"))
}

#[cfg(test)]
mod tests {
    use super::super::options::VARIANTS;
    use super::*;

    #[test]
    fn the_posts_rows_are_rows_here() {
        assert!(LOADS.iter().all(|(name, _)| VARIANTS.contains(name)));
        assert_eq!(published("queue-order").as_deref(), Some("50-150"));
        assert_eq!(published("millpond"), None);
    }
}
