//! The link with which `millpond playground` shows a run in virtual time.

use millpond_core::units::Nanos;
use millpond_worlds::link::Link;
use millpond_worlds::scene::Scene;

/// The differences of a run from the page's first state.
pub(super) struct Run<'a> {
    /// Steps of the scene's settings.
    pub(super) steps: &'a [(&'a str, &'a str)],
    /// The seed.
    pub(super) seed: u64,
    /// The factor on sizes.
    pub(super) scale: f64,
    /// The moment that is shown; `None`: that of the page.
    pub(super) at: Option<Nanos>,
}

/// The link of a run in the scene of an experiment; `None` if the page has no such sizes.
fn link(experiment: &str, run: &Run<'_>) -> Option<Link> {
    let scene = Scene::find(experiment)?;
    let permille = (run.scale * 1000.0).round();
    if !(1.0..=1000.0).contains(&permille) {
        return None;
    }
    let opening = Link::opening(scene);
    let link = run
        .steps
        .iter()
        .fold(opening, |link, (setting, step)| link.with(setting, step));
    Some(Link {
        seed: run.seed,
        scale: permille as u64,
        at: run.at.map_or(link.at, |at| at.0),
        ..link
    })
}

/// A report's note on where it can be seen.
pub(super) fn note(experiment: &str, run: &Run<'_>) -> Option<String> {
    let link = link(experiment, run)?;
    Some(format!(
        "What was run in virtual time can be seen moving, in a browser: millpond playground '{link}'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scale: f64) -> Run<'static> {
        Run {
            steps: &[("rule", "throttle")],
            seed: 9,
            scale,
            at: Some(Nanos::from_secs(20)),
        }
    }

    #[test]
    fn a_run_has_a_link_that_the_page_reads_and_sizes_it_does_not_have_have_none() {
        let made = link("gorman2011", &of(0.04)).unwrap();
        assert_eq!(
            made.to_string(),
            "scene=gorman2011&rule=throttle&load=fs-mark&seed=9&scale=40&at=20000000000"
        );
        assert_eq!(Link::parse(&made.to_string()), Ok(made));
        assert!(link("gorman2011", &of(4.0)).is_none());
        assert!(link("policies", &of(1.0)).is_none());
    }
}
