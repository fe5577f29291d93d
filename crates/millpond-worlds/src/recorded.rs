//! A trace of the reader's own: what policies of replacement would have missed on it.

mod why;

use millpond_sim::policy::{Model, Use};
use millpond_sim::traces::{self, Options};
use serde::Serialize;
use std::path::Path;

/// Uses of pages, in their order.
pub struct Recorded {
    uses: Vec<Use>,
}

/// The page's description of it.
#[derive(Serialize)]
struct About {
    format: &'static str,
    uses: u64,
    distinct: u64,
    /// Different pages whose content is needed at their first use: no memory helps against these.
    first: u64,
    notes: Vec<String>,
}

/// The names of all policies, the optimum first.
pub fn models() -> Vec<&'static str> {
    Model::ALL.map(Model::title).into()
}

fn model_of(number: usize) -> Model {
    Model::ALL[number.min(Model::ALL.len() - 1)]
}

/// Clamps to the numbers of frames that a model supports.
fn in_range(frames: u64) -> u64 {
    frames.clamp(1, (1 << 31) - 1)
}

impl Recorded {
    /// Reads the bytes of a file of that name; and what it is, as JSON.
    ///
    /// # Errors
    /// The mistake.
    pub fn read(name: &str, bytes: &[u8]) -> Result<(Recorded, String), String> {
        let requests = traces::parse(Path::new(name), bytes, &Options::default())?;
        let uses = requests.uses();
        if uses.is_empty() {
            return Err("it uses no page".into());
        }
        let (mut distinct, mut first) = (0, 0);
        for &(page, is_needed) in &uses {
            // pages have numbers in the order of their first use
            if u64::from(page) == distinct {
                distinct += 1;
                first += u64::from(is_needed);
            }
        }
        let about = About {
            format: requests.format.name(),
            uses: uses.len() as u64,
            distinct,
            first,
            notes: requests.notes,
        };
        let about = serde_json::to_string(&about).map_err(|e| e.to_string())?;
        Ok((Recorded { uses }, about))
    }

    /// Misses of the policy with this number in this many frames, at least one.
    pub fn misses(&self, model: usize, frames: u64) -> u64 {
        let model = model_of(model);
        let never = &mut |_: f64| Ok::<(), std::convert::Infallible>(());
        match model.misses(&self.uses, in_range(frames), never) {
            Ok(misses) => misses,
            Err(never) => match never {},
        }
    }

    /// Why the policy with this number misses less than Millpond in this many frames, in a few sentences.
    pub fn why(&self, better: usize, frames: u64) -> String {
        why::why(&self.uses, model_of(better), in_range(frames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_four_pages_in_three_frames_misses_always_by_lru_and_half_by_the_optimum() {
        let text = "7 8 9 10 ".repeat(5).replace(' ', "\n");
        let (recorded, about) =
            Recorded::read("pasted.pages", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        assert!(
            about.contains("\"uses\":20,\"distinct\":4,\"first\":4"),
            "{about}"
        );
        let of = |title: &str, frames| {
            let model = models().iter().position(|name| *name == title);
            recorded.misses(model.unwrap_or_else(|| panic!("no {title}")), frames)
        };
        assert_eq!((of("LRU", 3), of("LRU", 4)), (20, 4));
        assert!(of("OPT", 3) < 12, "{}", of("OPT", 3));
        assert_eq!(of("Millpond", 4), 4);
    }

    #[test]
    fn bytes_that_are_no_trace_get_a_reason() {
        assert!(Recorded::read("x.pages", b"seven").is_err());
        assert!(Recorded::read("x.pages", b"").is_err());
    }
}
