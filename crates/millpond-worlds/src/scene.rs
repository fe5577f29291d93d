//! The scenes: one for each post, with its settings, its systems and the post's own figures.

mod catalogue;

pub use catalogue::SCENES;
use serde::Serialize;

/// A step of a setting.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Its form in links.
    pub name: &'static str,
    /// Its meaning, in a sentence; empty if the name says it.
    pub about: &'static str,
    /// The moment to go to when a reader chooses it, in milliseconds; 0: stay.
    pub opens_at_ms: u64,
}

/// A setting: the one that the post is about, as a slider, or which of the post's loads is run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// Its form in links.
    pub name: &'static str,
    /// Its name on the page.
    pub label: &'static str,
    /// The unit of its steps' names; empty if they are words.
    pub unit: &'static str,
    /// Its steps, in order.
    pub steps: &'static [Step],
    /// Its initial step.
    pub first: usize,
    /// Whether it is the post's subject.
    pub is_slider: bool,
}

/// One of the compared systems.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub title: &'static str,
    /// What it does, in a sentence; empty if the setting's step says it.
    pub about: &'static str,
    /// Whether the slider applies to it.
    pub follows_slider: bool,
}

/// A number that is shown.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shown {
    /// The figure's name, as the laboratory's metrics have it.
    pub name: &'static str,
    /// Its name on the page.
    pub label: &'static str,
    /// The factor for display.
    pub factor: f64,
    /// Decimal digits.
    pub digits: u32,
    /// Its unit; empty for counts.
    pub unit: &'static str,
}

/// Until when a number of the post can be compared with one of ours.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// At any moment: a rate, a share, a word.
    Always,
    /// A sum over a run of this many seconds: its part for the time so far is shown.
    InPart(u64),
    /// From this moment on, in milliseconds.
    From(u64),
    /// When the load has ended.
    AtTheEnd,
}

/// A number that the post has.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Published {
    /// The column or step of the slider; after a comma: only with that step of a setting.
    pub of: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// The value as the post writes it.
    pub value: &'static str,
    /// When.
    pub compared: Compared,
}

/// The first thing to try: a step of the slider.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shows {
    /// The step.
    pub step: &'static str,
    /// What happens then.
    pub says: &'static str,
}

/// A figure drawn over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Plot {
    /// The figure.
    pub figure: &'static str,
    /// Its name on the page.
    pub label: &'static str,
    /// Its growth over this much virtual time is drawn, in milliseconds; 0: its value.
    pub per_ms: u64,
    /// Virtual time between two points, in milliseconds.
    pub every_ms: u64,
    /// The greatest value that is drawn; 0: whatever comes.
    pub top: f64,
}

/// A scene.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Scene {
    /// Its name in links, and that of the laboratory's experiment.
    pub name: &'static str,
    /// Its name in the list of scenes.
    pub short: &'static str,
    /// A headline.
    pub title: &'static str,
    /// The post's author, date and subject.
    pub post: &'static str,
    /// The post's observation.
    pub saw: &'static str,
    /// What to watch.
    pub look: &'static str,
    /// The step to which the button moves the slider.
    pub shows: Option<Shows>,
    /// Its settings, the slider first.
    pub settings: &'static [Setting],
    /// The systems, side by side.
    pub columns: &'static [Column],
    /// The meanings of pages' shades here, in the order of `Shade`; empty: unused.
    pub shades: [&'static str; 6],
    /// Numbers under the picture.
    pub shown: &'static [Shown],
    /// The post's numbers.
    pub published: &'static [Published],
    /// The notes about them.
    pub published_note: &'static str,
    /// The figures drawn over time.
    pub plot: Plot,
    /// The moment at which it opens, in milliseconds.
    pub opens_at_ms: u64,
    /// When there is nothing more to see.
    pub ends_at_ms: u64,
    /// Virtual milliseconds that pass in a second, at first.
    pub speed_ms: u64,
}

impl Scene {
    /// The scene of that name.
    pub fn find(name: &str) -> Option<&'static Scene> {
        SCENES.iter().find(|scene| scene.name == name)
    }

    /// The slider.
    pub fn slider(&self) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.is_slider)
    }
}

impl Setting {
    /// The step of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_belong_to_shown_ones() {
        for scene in SCENES {
            for number in scene.published {
                let (of, with) = number.of.split_once(", ").unwrap_or((number.of, ""));
                let is_step = scene.slider().is_some_and(|slider| slider.find(of).is_some());
                let is_column = scene.columns.iter().any(|column| column.title == of);
                assert!(is_step || is_column, "{}: {}", scene.name, number.of);
                let mut settings = scene.settings.iter();
                assert!(
                    with.is_empty() || settings.any(|setting| setting.find(with).is_some()),
                    "{}: {}",
                    scene.name,
                    number.of
                );
                let is_shown = scene.shown.iter().any(|shown| shown.name == number.figure);
                assert!(is_shown, "{}: {}", scene.name, number.figure);
            }
        }
    }

    #[test]
    fn settings_begin_at_a_step_that_they_have_and_there_is_one_slider_at_most() {
        for scene in SCENES {
            assert!(scene.settings.iter().filter(|setting| setting.is_slider).count() <= 1);
            for setting in scene.settings {
                assert!(setting.first < setting.steps.len(), "{}", setting.name);
            }
            assert!(scene.opens_at_ms < scene.ends_at_ms);
        }
    }

    #[test]
    fn the_button_moves_a_slider_that_is_there_to_another_step() {
        for scene in SCENES {
            assert_eq!(scene.shows.is_some(), scene.slider().is_some(), "{}", scene.name);
            if let (Some(shows), Some(slider)) = (scene.shows, scene.slider()) {
                let found = slider.find(shows.step);
                assert!(found.is_some_and(|step| step != slider.first), "{}", scene.name);
            }
        }
    }

    #[test]
    fn the_meaning_of_a_step_does_not_repeat_its_name() {
        for setting in SCENES.iter().flat_map(|scene| scene.settings) {
            for step in setting.steps {
                assert!(
                    !step.about.starts_with(step.name),
                    "{}: {}",
                    setting.name,
                    step.about
                );
            }
        }
    }
}
